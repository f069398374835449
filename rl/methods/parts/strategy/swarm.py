"""Groups that other runs have played, shared as text through a folder."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agents.scripted import replay as replay_script
from envs.types import Message, Stop
from rl.methods.estimators.tasks.difficulty import eligible
from rl.methods.options import AboveZero, Count, PartError
from rl.methods.parts.strategy.independent import independent
from rl.methods.parts.strategy.stored import takes_stored
from rl.records import Group, Ticket, Trajectory
from rl.rollout.runner import Runner
from rl.rollout.scripted import play_script_on, tokenize
from rl.seeds import generator

MOST_LINES = 256  # the latest of each run that are read


@dataclass
class swarm:
    """SAPO (arXiv:2509.08721): only a `local` share of the groups is played; the others come from other runs as text.

    Each run appends the replies of its groups to a file of its own in `folder`, which the runs share: anywhere that
    they can all write to. A group of another run is given to this run's environment, reply by reply, so that its
    rewards are this run's own, and to this run's tokenizer. It is used if its rewards then differ. Its members are
    marked `replayed`; their log-probabilities are unknown, so that a recipe needs `score=proximal`. Each shared group
    is used once, the latest first. Where there is none, or without a folder, the group is played.

    What is shared depends on when other runs get there, so that such a run does not repeat bit for bit.

    Attributes:
        folder: Folder of the runs; "" for a run of its own.
        local: Share of the groups that this run plays itself.
        tries: Shared groups that are looked at for one ticket.

    """

    folder: str = ""
    local: AboveZero = 0.5
    tries: Count = 4
    _name: str = field(default="", init=False, compare=False)
    _used: list[str] = field(default_factory=list, init=False, compare=False)

    async def __call__(self, runner: Runner, ticket: Ticket) -> list[Group]:
        """Return another run's group, or play one and share it."""
        if self.folder and takes_stored(ticket.number, self.local):
            for key, line in self._offers(ticket)[: self.tries]:
                self._used = [*self._used, key][-4 * MOST_LINES :]
                group = await self._transplant(runner, ticket, line)
                if group is not None:
                    return [group]
        groups = await independent(runner, ticket)
        if self.folder:
            self._share(groups)
        return groups

    def state_dict(self) -> dict[str, Any]:
        """The name of this run among the others, and the groups that it has used."""
        return {"name": self._name, "used": list(self._used)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore `state_dict()`."""
        self._name, self._used = state["name"], list(state["used"])

    def _offers(self, ticket: Ticket) -> list[tuple[str, dict[str, Any]]]:
        """What other runs have shared and this one has not used: the latest first, runs in an order of the ticket's."""
        offers: list[tuple[str, dict[str, Any]]] = []
        paths = [path for path in sorted(Path(self.folder).glob("*.jsonl")) if path.stem != self._name]
        for place in generator(ticket.seed, "swarm").permutation(len(paths)):
            lines = paths[place].read_text(encoding="utf-8", errors="replace").splitlines()
            for number, line in list(enumerate(lines))[-MOST_LINES:][::-1]:
                key = f"{paths[place].stem}/{number}"
                if key not in self._used and (offer := _parse(line)):
                    offers.append((key, offer))
        return offers

    async def _transplant(self, runner: Runner, ticket: Ticket, line: dict[str, Any]) -> Group | None:
        """The group that the replies of `line` make in this run's environment; None if it teaches nothing here."""
        agent: Any = runner.make_agent()
        renderer = getattr(agent, "renderer", None)
        if renderer is None:
            raise PartError("--strategy swarm: the agent does not write tokens, so it cannot take over text")
        origin = replace(ticket, index=line["index"], split=ticket.split, seed=line["seed"])
        trajectories: list[Trajectory] = []
        for member, replies in enumerate(line["replies"]):
            script = replay_script(replies)
            trajectory, failed_env = await play_script_on(runner, origin, script, member, label="a shared episode")
            if failed_env is not None:
                runner.discard(failed_env)
            if trajectory.stop == Stop.ERROR or not trajectory.turns:
                continue
            tokens = tokenize(trajectory, runner.make_agent(), renderer.write)
            if tokens.num_sampled and sum(map(len, _ids(tokens))) < runner.max_tokens:
                trajectories.append(replace(tokens, member=member, replayed=True))
        rewards = [trajectory.reward for trajectory in trajectories]
        return Group(ticket, trajectories) if eligible([rewards]) else None

    def _share(self, groups: list[Group]) -> None:
        """Append what this run has played to its file."""
        self._name = self._name or os.urandom(6).hex()
        for group in groups:
            replies = [[turn.reply for turn in trajectory.replies] for trajectory in group.trajectories]
            line = {"index": group.ticket.index, "seed": group.ticket.seed, "replies": replies}
            try:
                text = json.dumps(line)
                Path(self.folder).mkdir(parents=True, exist_ok=True)
                with open(Path(self.folder) / f"{self._name}.jsonl", "a", encoding="utf-8") as file:
                    file.write(text + "\n")
            except (TypeError, OSError) as error:
                raise PartError(f"--strategy swarm: cannot share a group in {self.folder}: {error}") from None


def _parse(line: str) -> dict[str, Any] | None:
    """The group in a line of another run's file; None where it is none, such as one that is being written."""
    try:
        offer = json.loads(line)
        replies: list[list[Message]] = offer["replies"]
        is_sound = isinstance(offer["index"], int) and isinstance(offer["seed"], int)
        is_sound &= all(reply.get("role") == "assistant" for of_member in replies for reply in of_member)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return offer if is_sound else None


def _ids(trajectory: Trajectory) -> list[list[int]]:
    return [sequence.ids for sequence in trajectory.sequences()]
