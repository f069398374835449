"""CPU of the orchestrator per turn with environments in its own process and in workers, with nobody who samples.

    python -m benchmarks.steps.workers [--quick]

A policy that answers at once plays the same episodes with no worker and with `--workers` of them, in turn. What is left
is what a run does besides sampling and learning: rendering, episodes, and either the environment or the messages to its
worker. The workers' own CPU is theirs, and not counted. Then the delay of the event loop is measured with all episodes
in workers. Nothing is timed before both have played the same replies.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from rich.console import Console

from agents.chat import ChatAgent
from agents.render import Renderer
from benchmarks.support import record
from rl.cli import Parser, run, whole_number
from rl.methods.parts import strategy
from rl.policy import tiny
from rl.policy.engine import Policy
from rl.records import Completion, SamplingParams, Ticket
from rl.rollout.runner import Runner
from rl.rollout.seating import seating_of
from rl.rollout.workers.pool import Workers
from rl.seeds import derive
from rl.spec_paths import output_file

ENVIRONMENTS = ("math/Arithmetic-v0", "games/FrozenLake-v0", "multi/TicTacToe-v0")
OUT = record.RESULTS / "workers.json"
SIZE = 8
LOOK_S = 0.001  # between two looks at the clock of the event loop


class Instant(Policy):
    """Gives the same short reply to everything, at once."""

    version = 0

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = tuple(ids)

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", resume_from: Completion | None = None
    ) -> Completion:
        await asyncio.sleep(0)
        zeros = (0.0,) * len(self.ids)
        return Completion(self.ids, zeros, zeros, (0,) * len(self.ids), "stop")

    def release(self, session: str) -> None:
        """Nothing is kept."""


class Case:
    """`groups` groups of eight on one environment."""

    def __init__(self, env: str, groups: int, workers: Workers | None) -> None:
        tokenizer = tiny.create(0)[1]
        renderer = Renderer(tokenizer)
        ids = [*tokenizer.encode("right", add_special_tokens=False), tokenizer.eos_token_id]
        seating = seating_of(env, [], {"style": "short"})
        self.runner = Runner(
            workers.far(seating.make_env) if workers else seating.make_env,
            lambda: ChatAgent(renderer),
            Instant(ids),
            SamplingParams(max_tokens=16),
            max_tokens=4096,
            seats=seating.seats,
        )
        self.tickets = [Ticket(n, n, "train", derive(n), size=SIZE) for n in range(groups)]
        self.delays: list[float] = []

    def play(self, *, watches: bool = False) -> list[Any]:
        """Play all groups; return their rewards. With `watches` the delays of the event loop are measured."""
        for ticket in self.tickets:
            self.runner.play_state.close_group(ticket)  # otherwise its members count as finished and are not played

        async def together() -> list[Any]:
            watch = asyncio.create_task(self._watch()) if watches else None
            played = await asyncio.gather(*(strategy.independent(self.runner, ticket) for ticket in self.tickets))
            if watch:
                watch.cancel()
            return [one for groups in played for group in groups for one in group.trajectories]

        return asyncio.run(together())

    async def _watch(self) -> None:
        while True:
            start = time.perf_counter()
            await asyncio.sleep(LOOK_S)
            self.delays.append(time.perf_counter() - start - LOOK_S)


def measure(env: str, groups: int, number: int, rounds: int) -> dict[str, Any]:
    """Measure one environment with no worker and with `number` of them."""
    workers = Workers(number)
    try:
        here, there = Case(env, groups, None), Case(env, groups, workers)
        one, other = here.play(), there.play()
        turns = sum(len(trajectory.turns) for trajectory in one)
        if [trajectory.reward for trajectory in one] != [trajectory.reward for trajectory in other]:
            raise RuntimeError(f"{env}: a worker plays otherwise")
        times = record.alternate({"0": here.play, str(number): there.play}, rounds, torch.device("cpu"))
        there.play(watches=True)
        ms = {name: record.Spread.of([1e3 * t.cpu / turns for t in times[name]]) for name in times}
        return {
            "env": env,
            "episodes": groups * SIZE,
            "turns": turns,
            "cpu_ms_per_turn": ms,
            "turns_per_cpu_s": {name: 1e3 / spread.median for name, spread in ms.items()},
            "loop_delay_ms": {str(q): 1e3 * float(np.percentile(there.delays, q)) for q in (50, 99)},
        }
    finally:
        workers.close()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure as `argv` says, print a table and write the result."""
    parser = Parser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer episodes, one round, no result file")
    parser.add_argument("--groups", type=whole_number(1), default=32, help="groups of eight (default: 32)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="rounds of all rivals (default: 5)")
    parser.add_argument("--workers", type=whole_number(1), default=2, help="workers (default: 2)")
    parser.add_argument("--out", type=output_file, help=f"result file (default: {OUT.name} in benchmarks/results)")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    groups, rounds = (4, 1) if args.quick else (args.groups, args.rounds)
    results = [measure(env, groups, args.workers, rounds) for env in ENVIRONMENTS]
    console = Console(highlight=False, width=118)
    for one in results:
        ms, delay = one["cpu_ms_per_turn"], one["loop_delay_ms"]["99"]
        text = ", ".join(f"{name} workers {spread.median:.3f} ms" for name, spread in ms.items())
        console.print(f"{one['env']:22} CPU of the orchestrator per turn: {text}; loop delay p99 {delay:.1f} ms")
    if not args.quick:
        about = record.provenance(torch.device("cpu"), [0])
        record.save(args.out or OUT, {**about, "workers": args.workers, "rounds": rounds, "results": results})
    return 0


if __name__ == "__main__":
    run(main)
