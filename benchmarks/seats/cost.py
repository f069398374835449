"""What several seats cost: CPU time per sampled token of an update, against the same game with one seat.

    python -m benchmarks.seats.cost [--quick]
    python -m benchmarks.seats.cost --env multi/PlanPath-v0 --model runs/plan/checkpoints/latest/model

The first begins with a new model, whose replies are mostly invalid in some games; the second plays one game with a
model that has learned it.

The same model plays the same game at one table in all seats, and in the single-agent view, in twice as many episodes:
as many replies to prompts of the same kind, the same number of rows to train on, and as many requests at a time. The
rivals make whole updates by the trainer's loop in turn. The view's other seats are played by a script, so that its
environment does the same work: of a new model a random player, of a trained one the replies that the model itself gave
in such states at a table before. A better or worse teammate would change how long replies and episodes are.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from rich.console import Console

import envs
from agents.chat import ChatAgent
from agents.render import Renderer
from benchmarks.support import record
from envs.multi.multi_env import MultiEnv
from envs.types import Message
from rl.cli import Parser, run, whole_number
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods import recipe as recipes
from rl.methods.parts.sampler import History
from rl.policy import tiny
from rl.policy.hf import HFPolicy
from rl.policy.pretrained import load_pretrained
from rl.records import SamplingParams
from rl.rollout.roles import Role
from rl.rollout.runner import Runner
from rl.train.loop import Loop, Plan
from rl.train.progress import Progress
from rl.train.seats.trainees import Trainee

OUT = record.RESULTS / "seats_cost.json"
TRAINED_OUT = record.RESULTS / "seats_cost-trained.json"
CPU = torch.device("cpu")
WANTED = 0.03  # more than one seat per token
SIZE, REPLY_TOKENS = 8, 4
TRAINED_REPLY_TOKENS = 34  # twice the longest reply of an oracle of Plan-Path, as in training


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
TRAINED_GAMES = (*GAMES, Game("multi/PlanPath-v0", {}, "in turn"))


class Recorded:
    """A player who repeats what was said in a seat in the same state, or in the same seat where the state is new."""

    def __init__(self) -> None:
        self.replies: defaultdict[tuple[str, str], list[Message]] = defaultdict(list)
        self.num_new = self.num_asked = 0

    def __call__(self, env: MultiEnv, seat: str, rng: np.random.Generator) -> Message:
        """Draw one of the replies."""
        known = self.replies.get((seat, env.state()))
        self.num_asked += 1
        self.num_new += known is None
        choices = known or self.replies[seat, ""]
        return choices[int(rng.integers(len(choices)))]

    def listen(self, env: MultiEnv) -> MultiEnv:
        """Return the environment, which notes from now on what is said in it."""
        reply = env.reply

        def noted(replies: Mapping[str, Message]) -> Any:
            for seat, message in replies.items():
                for state in (env.state(), ""):
                    self.replies[seat, state].append(message)
            return reply(replies)

        env.reply = noted  # type: ignore[method-assign]
        return env


class Rival:
    """Updates by the trainer's loop, one at a call; the rate is so small that the policy stays what it is."""

    def __init__(
        self,
        game: Game,
        groups: int,
        slots: int,
        *,
        is_view: bool,
        folder: str | None = None,
        recorded: Recorded | None = None,
    ) -> None:
        model, tokenizer = load_pretrained(folder) if folder else tiny.create()
        self.policy, renderer = HFPolicy(model, slots=slots, context=512), Renderer(tokenizer)
        view = {"seat": "any", **game.view, **({"opponent": recorded} if recorded and is_view else {})}

        def make_env() -> Any:
            made = envs.make(game.env, style="short", **view)
            if is_view:
                return made
            table = made.unwrapped.table  # type: ignore[attr-defined]
            return recorded.listen(table) if recorded else table

        env = make_env()
        seats = ("agent",) if is_view else tuple(env.seats)
        tasks = len((env.unwrapped if is_view else env).load("train"))
        learner = Learner(model, lr=1e-12)
        self.progress = Progress(History(tasks))
        params = SamplingParams(TRAINED_REPLY_TOKENS if folder else REPLY_TOKENS)
        self.runner = Runner(make_env, lambda: ChatAgent(renderer), self.policy, params, 512, seats=seats)
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

    def close(self) -> None:
        """End what it began."""
        self.runner.close()
        self.policy.close()


def measure(game: Game, rounds: int, groups: int, folder: str | None = None) -> dict[str, Any]:
    """CPU microseconds per token of both, and their ratio, round by round; `folder` holds a model, else it is new."""
    slots = SIZE * groups * (2 if game.moves == "together" else 1)
    recorded = Recorded() if folder else None
    if recorded:  # on the tasks that the view will have, in its order
        model = Rival(game, 2 * groups, slots, is_view=False, folder=folder, recorded=recorded)
        for _ in range(rounds + 1):
            model()
        model.close()
    rivals = {
        "table": Rival(game, groups, slots, is_view=False, folder=folder),
        "view": Rival(game, 2 * groups, slots, is_view=True, folder=folder, recorded=recorded),
    }
    times = record.alternate(rivals, rounds, CPU)
    spent = {
        name: [timing.cpu / tokens for timing, tokens in zip(times[name], rival.tokens[-rounds:], strict=True)]
        for name, rival in rivals.items()
    }
    ratios = [table / view for table, view in zip(spent["table"], spent["view"], strict=True)]
    for rival in rivals.values():
        rival.close()
    return {
        "env": game.env,
        "moves": game.moves,
        "tokens": {name: sum(rival.tokens[-rounds:]) / rounds for name, rival in rivals.items()},
        "us_per_token": {name: record.Spread.of([1e6 * one for one in own]) for name, own in spent.items()},
        "ratio": record.Spread.of(ratios),
        "new_states": recorded.num_new / recorded.num_asked if recorded else None,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Time, print and write; 1 where several seats cost more than they may."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=whole_number(1), default=7, help="timed rounds (default: 7)")
    parser.add_argument("--groups", type=whole_number(1), default=4, help="groups of an update at the table (4)")
    parser.add_argument("--model", metavar="DIR", help="a model that has learned the game of --env (none: new)")
    parser.add_argument("--env", choices=[game.env for game in TRAINED_GAMES], help="only this game")
    parser.add_argument("--quick", action="store_true", help="one game, one small round: does it work?")
    args, console = parser.parse_args(argv), Console(highlight=False, width=118)
    torch.set_num_threads(1)
    if (args.model is None) != (args.env is None):
        parser.error("--model and --env: a trained model plays the game that it has learned; give both")
    if args.model and not (Path(args.model) / "config.json").is_file():
        parser.error(f"--model {args.model}: no model folder; it has a config.json")
    games = [game for game in TRAINED_GAMES if game.env == args.env] if args.env else GAMES[: 1 if args.quick else None]
    rounds, groups = (1, 2) if args.quick else (args.rounds, args.groups)
    entries = [measure(game, rounds, groups, args.model) for game in games]
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
        record.save(
            TRAINED_OUT if args.model else OUT, {**record.provenance(CPU, [0]), "wanted": WANTED, "costs": entries}
        )
    return int(max(entry["ratio"].median for entry in entries) > 1 + WANTED)


if __name__ == "__main__":
    run(main)
