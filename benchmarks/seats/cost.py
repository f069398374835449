"""What several seats cost: CPU time per sampled token of an update, against the same game with one seat.

    python -m benchmarks.seats.cost [--quick]

The same model plays the same game at one table in all seats, and in the single-agent view, in twice as many episodes:
as many replies to prompts of the same kind, the same number of rows to train on, and as many requests at a time. The
rivals make whole updates by the trainer's loop in turn. The view's other seats are played by a script of the game, so
that its environment does the same work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from rich.console import Console

import envs
from agents.chat import ChatAgent
from agents.render import Renderer
from benchmarks.support import record
from rl.cli import Parser, run, whole_number
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods import recipe as recipes
from rl.methods.parts.sampler import History
from rl.policy import tiny
from rl.policy.hf import HFPolicy
from rl.records import SamplingParams
from rl.rollout.roles import Role
from rl.rollout.runner import Runner
from rl.train.loop import Loop, Plan
from rl.train.progress import Progress
from rl.train.seats.trainees import Trainee

OUT = record.RESULTS / "seats_cost.json"
CPU = torch.device("cpu")
WANTED = 0.03  # more than one seat per token
SIZE, REPLY_TOKENS = 8, 4


class Game(NamedTuple):
    """A game, arguments of its view, and how its seats move."""

    env: str
    view: Mapping[str, Any]
    moves: str


GAMES = (
    Game("multi/IteratedDilemma-v0", {"opponent": "random"}, "together"),
    Game("multi/Relay-v0", {"opponent": "random", "level": 1}, "in turn"),
    Game("multi/TicTacToe-v0", {"opponent": "random"}, "in turn"),
)


class Rival:
    """Updates by the trainer's loop, one at a call; the rate is so small that the policy stays what it is."""

    def __init__(self, game: Game, groups: int, slots: int, *, is_view: bool) -> None:
        model, tokenizer = tiny.create()
        self.policy, renderer = HFPolicy(model, slots=slots, context=512), Renderer(tokenizer)
        view = {"seat": "any", **game.view}

        def make_env() -> Any:
            made = envs.make(game.env, style="short", **view)
            return made if is_view else made.unwrapped.table  # type: ignore[attr-defined]

        env = make_env()
        seats = ("agent",) if is_view else tuple(env.seats)
        tasks = len((env.unwrapped if is_view else env).load("train"))
        learner = Learner(model, lr=1e-12)
        self.progress = Progress(History(tasks))
        self.runner = Runner(
            make_env, lambda: ChatAgent(renderer), self.policy, SamplingParams(REPLY_TOKENS), 512, seats=seats
        )
        self.loop = Loop(
            self.runner,
            [Trainee(Role("", seats), learner, ModelScorer(learner, renderer), self.policy, None)],  # type: ignore[arg-type]
            recipes.load("grpo"),
            Plan(groups, SIZE, 0, 1_000_000),
            self.progress,
            sync_weights=self.policy.sync_weights,
            on_update=lambda metrics, groups: None,
        )
        self.tokens: list[int] = []

    def __call__(self) -> None:
        """Make an update."""
        before = self.progress.tokens
        asyncio.run(self.loop.run(self.progress.update + 1))
        self.tokens.append(self.progress.tokens - before)


def measure(game: Game, rounds: int, groups: int) -> dict[str, Any]:
    """CPU microseconds per token of both, and their ratio, round by round."""
    rivals = {
        "table": Rival(game, groups, SIZE * groups * (2 if game.moves == "together" else 1), is_view=False),
        "view": Rival(game, 2 * groups, SIZE * groups * (2 if game.moves == "together" else 1), is_view=True),
    }
    times = record.alternate(rivals, rounds, CPU)
    spent = {
        name: [timing.cpu / tokens for timing, tokens in zip(times[name], rival.tokens[-rounds:], strict=True)]
        for name, rival in rivals.items()
    }
    ratios = [table / view for table, view in zip(spent["table"], spent["view"], strict=True)]
    for rival in rivals.values():
        rival.runner.close()
        rival.policy.close()
    return {
        "env": game.env,
        "moves": game.moves,
        "tokens": {name: sum(rival.tokens[-rounds:]) / rounds for name, rival in rivals.items()},
        "us_per_token": {name: record.Spread.of([1e6 * one for one in own]) for name, own in spent.items()},
        "ratio": record.Spread.of(ratios),
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Time, print and write; 1 where several seats cost more than they may."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=whole_number(1), default=7, help="timed rounds (default: 7)")
    parser.add_argument("--quick", action="store_true", help="one game, one small round: does it work?")
    args, console = parser.parse_args(argv), Console(highlight=False, width=118)
    torch.set_num_threads(1)
    games = GAMES[:1] if args.quick else GAMES
    entries = [measure(game, 1 if args.quick else args.rounds, 2 if args.quick else 4) for game in games]
    record.show(
        f"CPU time per sampled token at a table, over that in the view: at most {1 + WANTED:.2f} is wanted",
        ("game", "seats move", "table, us", "view, us", "ratio (quartiles)"),
        [
            (
                entry["env"],
                entry["moves"],
                f"{entry['us_per_token']['table'].median:.0f}",
                f"{entry['us_per_token']['view'].median:.0f}",
                f"{entry['ratio'].median:.3f} ({entry['ratio'].lower:.3f} to {entry['ratio'].upper:.3f})",
            )
            for entry in entries
        ],
        console,
    )
    if not args.quick:
        record.save(OUT, {**record.provenance(CPU, [0]), "wanted": WANTED, "costs": entries})
    return int(max(entry["ratio"].median for entry in entries) > 1 + WANTED)


if __name__ == "__main__":
    run(main)
