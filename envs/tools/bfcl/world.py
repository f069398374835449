"""What BFCL's multi-turn calls act on in an episode, and the gold answer played on a world of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from envs.suggestions import unknown_message
from envs.tools.bfcl.backing.classes import CLASSES
from envs.types import ToolError


class GoldTurn(NamedTuple):
    """What the gold calls of a turn return (`result_key`), and the state of every class after them."""

    results: tuple[str, ...]
    states: Mapping[str, Mapping[str, Any]]


class World:
    """An instance of every class that a row involves. A copy by `deepcopy` is independent.

    Args:
        classes: Names of the classes (`envs.tools.bfcl.backing.classes`).
        config: The row's `initial_config`, by class; it is not changed. A class without one gets its defaults.
    """

    def __init__(self, classes: Sequence[str], config: Mapping[str, Mapping[str, Any]]) -> None:
        self.instances = {name: CLASSES[name](config.get(name, {})) for name in classes}

    def call(self, name: str, arguments: str) -> Any:
        """Call a function by name with JSON text, and return its result: data of JSON.

        Raises ToolError for a name that no class has, and for arguments that do not fit.
        """
        for instance in self.instances.values():
            if name in instance.tools():
                return instance.call(name, arguments)
        names = [name for instance in self.instances.values() for name in instance.tools()]
        raise ToolError(unknown_message("tool", name, names))

    def states(self) -> dict[str, dict[str, Any]]:
        """Return the state that is compared, by class. It shares nothing with the world."""
        return {name: json.loads(_as_json(each.public_state())) for name, each in self.instances.items()}

    def digest(self) -> str:
        """Return a hash, in hex, of everything that the next calls depend on."""
        line = _as_json({name: vars(instance) for name, instance in self.instances.items()})
        return digest(line)


def digest(text: str) -> str:
    """Return a short hash of a text, in hex."""
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


def result_key(result: Any) -> str:
    """Return a hash of a result that is equal for equal results; 5 and 5.0 are."""
    return digest(json.dumps(json.loads(json.dumps(result), parse_int=float), sort_keys=True))


def play_gold(world: World, turns: Sequence[Sequence[tuple[str, Mapping[str, Any]]]]) -> list[GoldTurn]:
    """Make the gold calls of all turns on a fresh world.

    Args:
        world: The world, which is changed.
        turns: Name and arguments of each call, by turn.
    """
    gold = []
    for calls in turns:
        results = tuple(result_key(world.call(name, json.dumps(arguments))) for name, arguments in calls)
        gold.append(GoldTurn(results, world.states()))
    return gold


def turn_fault(gold: GoldTurn, world: World, results: Sequence[str], calls: int) -> str:
    """Say why a turn does not pass; "" if it does.

    The rule is that of `multi_turn_checker.py` of bfcl_eval (ShishirPatil/gorilla), for a turn with gold calls:

    - the policy has made a call;
    - every public attribute of every instance equals that of the gold world (state-based);
    - each result of the turn's gold calls is among the results of the policy's calls so far, those of earlier turns
      included, at least as many times (response-based).

    A turn without gold calls passes whatever is called, as it has since pull request 733 of that repository, but what a
    call changes counts in the next turn with gold calls.

    Args:
        gold: The gold turn.
        world: The policy's world at the end of the turn.
        results: Keys of the results of the policy's calls, of all turns so far.
        calls: The policy's calls in this turn.
    """
    if not gold.results:
        return ""
    if not calls:
        return "no call"
    states = world.states()
    if different := [name for name, state in gold.states.items() if states[name] != state]:
        return f"state of {', '.join(different)}"
    rest = list(results)
    for result in gold.results:
        if result not in rest:
            return "results"
        rest.remove(result)
    return ""


def _as_json(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=lambda each: hash(each.getstate()))  # a generator has no JSON
