"""Doors: a test bed of three small worlds whose dials set what credit, luck and shared states can do for a method."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, get_args

import numpy as np

from envs.env import Env
from envs.episodes.guide import Guide
from envs.games.doors.ask import Ask
from envs.games.doors.hall import SYMBOLS, Hall, Placement, Rule
from envs.games.doors.walk import Shape, Walk
from envs.games.doors.world import World
from envs.games.game import check_range
from envs.grading.choice import find_choice
from envs.types import Message, Messages, Outcome, Task, assistant, final_text, user

Kind = Literal["doors", "walk", "ask"]
TURNS = {"doors": 16, "walk": 24, "ask": 6}
# Dials of one kind only, with their defaults.
DIALS: dict[str, dict[str, Any]] = {
    "doors": {"decisive": 4, "placement": "early", "rule": "all", "noise": 0.0, "symbols": 32},
    "walk": {"shape": "ring", "size": 8, "traps": 0},
    "ask": {},
}


class Doors(Env):
    """Choose letters at doors (`kind=doors`), walk to a goal (`walk`), or test for a secret and name it (`ask`).

    Observation: doors: the turn and one of the symbols, `07/16 qz`; walk: the place and the goal, `03>06`; ask: the
    digits that are known, `1?0`. After a reply that names no action the same with `!` at its end. In full style the
    instructions first, and sentences.
    Action: doors: one of `a b c d`, of which each symbol has one right letter, the same in all tasks; walk: `n e s w`;
    ask: a test `t0`..`t6` or the answer `0`..`7`. Of a longer reply the last line must name exactly one.
    Reward: 1 for success at the end, else 0; with `rule=pay` each right letter at a door that counts is paid
    1/`decisive` at once.
    Metrics: doors: `rights`, right letters at doors that count; walk: `distance`, steps to the goal; ask: `bits`, the
    information of the turn about the secret.
    Episode end: doors: after the last door; walk: at the goal or in a trap; ask: with an answer. Truncated
    after `turns`.
    Arguments: `turns`, 4 to 64 (16 doors, 24 steps, 6 tests and answers). Doors: `decisive`, how many doors count;
    `placement=early|late|spread`, which; `rule=all|slip|share|pay`: all must be right, the same and a wrong letter
    ends the episode at once, success is drawn with the share of right letters, or each is paid at once; `noise`, the
    probability that a coin decides the outcome; `symbols`. Walk: `shape=ring|grid`, `size`, `traps`. All: `unique`, the
    share of turns whose state gets a nonce, so that no turn after other replies is in it; `legend`: whether the
    instructions of full style say what else only outcomes show: the letters, the traps, the tests that tell something.
    Luck: the draws hang on the seed and on all replies so far, so that members of a group who replied differently have
    luck of their own, though they have the same seed; those who replied alike share the nonce too.
    State: the task, with doors the turn and what was done (whether all were right, or how many); none of this is shown
    to the player. Walk: the place; ask: the known digits. With the number of turns left it is Markov.
    Splits: a sequence of symbols, or a start and a goal, is in one split only. `ask` has
    only eight secrets, which all splits share: its held-out tasks measure no generalisation.
    Source and licence: generated. Version history: v0.
    """

    world: World
    has_markov_state = True

    def __init__(
        self,
        *,
        kind: Kind = "doors",
        turns: int | None = None,
        decisive: int = 4,
        placement: Placement = "early",
        rule: Rule = "all",
        noise: float = 0.0,
        unique: float = 0.0,
        symbols: int = 32,
        shape: Shape = "ring",
        size: int = 8,
        traps: int = 0,
        legend: bool = True,
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        for name, value, names in (
            ("kind", kind, get_args(Kind)),
            ("placement", placement, get_args(Placement)),
            ("rule", rule, get_args(Rule)),
            ("shape", shape, get_args(Shape)),
        ):
            if value not in names:
                raise ValueError(f"{name} {value!r} is not one of {', '.join(names)}")
        for name, share in (("noise", noise), ("unique", unique)):
            if not 0 <= share <= 1:
                raise ValueError(f"{name} {share!r} is outside 0..1")
        dial_values: dict[str, Any] = dict(
            decisive=decisive, placement=placement, rule=rule, noise=noise, symbols=symbols
        )
        dial_values |= dict(shape=shape, size=size, traps=traps)
        for owner, dials in DIALS.items():
            for name, default in dials.items():
                if owner != kind and dial_values[name] != default:
                    raise ValueError(
                        f"{name} is a dial of kind={owner}, and kind={kind} does not read it; leave it out"
                    )
        turns = check_range("turns", TURNS[kind] if turns is None else turns, range(4, 65))
        super().__init__(max_turns=turns if max_turns is None else max_turns, **limits)
        self.kind, self.turn_limit, self.unique, self.legend = kind, turns, float(unique), bool(legend)
        if kind == "doors":
            if noise and rule == "pay":
                raise ValueError(f"noise {noise!r} needs an outcome to decide, and rule=pay has none; use another rule")
            check_range("decisive", decisive, range(1, turns + 1), why=f"the {turns} turns")
            check_range("symbols", symbols, range(2, len(SYMBOLS) + 1))
            self.world = Hall(turns, decisive, placement, rule, noise, symbols)
        elif kind == "walk":
            check_range("size", size, range(4, 33) if shape == "ring" else range(2, 9), why=f"the sizes of a {shape}")
            self.world = Walk(shape, size, check_range("traps", traps, range(64)), turns)
        else:
            self.world = Ask()

    def tasks(self, split: str) -> Sequence[Task]:
        """Return the tasks of the kind."""
        return self.world.tasks(split)

    def start(self) -> Messages:
        """Set up the task and show its first turn."""
        self.world.begin(self.task.metadata, int(self.np_random.integers(2**53)))
        return (user(self.world.view(self.style == "full")),)

    def guide(self) -> Guide:
        """Say what the kind asks for."""
        return self.world.guide(self.legend)

    def reply(self, action: Message) -> Outcome:
        """Play the one action that the last line of the reply names."""
        world = self.world
        choice = find_choice(final_text(action), {name: name for name in world.actions})
        move = world.play(choice)
        world.past += f" {choice or '-'}"
        self.news = move.news
        messages: Messages = ()
        if not move.is_over:
            view = world.view(self.style == "full")
            if choice is None:
                fault = f"Your reply does not name exactly one of {', '.join(world.actions)}."
                view = self.correction(f"{fault} {world.invalid_cost}".strip(), view, short=f"{view}!")
            messages = (user(view),)
        return Outcome(
            messages=messages,
            reward=move.reward,
            terminated=move.is_over,
            success=move.is_won,
            valid=choice is not None,
            rewards={world.reward_name: move.reward},
            metrics=dict(move.metrics),
        )

    def ending(self, outcome: Outcome) -> str:
        """Say how the last reply has ended the episode."""
        return self.news

    def state(self) -> str:
        """Return the task and the situation; with `unique`, in a share of the turns, a nonce too."""
        key = f"{self.task.id} {self.world.key()}"
        if self.unique and self.world.luck("unique") < self.unique:
            return f"{key} #{int(self.world.luck('nonce') * 2**32):08x}"
        return key

    def oracle(self) -> Iterator[Message]:
        """Yield the right letters, the steps of a shortest way, or useful tests and then the secret."""
        while True:
            yield assistant(self.world.best())

    def random(self, rng: np.random.Generator) -> Message:
        """Return one of the actions."""
        return assistant(str(rng.choice(list(self.world.actions))))

    def attacks(self) -> Sequence[str]:
        """Return replies that must earn 0, among them all actions in one reply."""
        everything = " ".join(self.world.actions)
        return (*super().attacks(), everything, f"not {self.world.best()}", everything.replace(" ", ""))
