"""What a step of an environment costs, resets included, and what the same game costs as a bare Gymnasium environment.

    python -m benchmarks.steps.environments [--steps 20000] [--rounds 5]

Each row is the median over rounds of CPU microseconds per step, random replies drawn beforehand, tasks already made.
The bare rival of GuessNumber has an integer for an action, a text for an observation and nothing else. `import envs`
is timed in fresh processes, with whatever extras are installed.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import gymnasium
import numpy as np
import torch
from rich.console import Console

import envs
from benchmarks.support import record
from rl.cli import Parser, run, whole_number
from rl.spec_paths import output_file

GAMES = ("GuessNumber", "Maze", "Sokoban", "Wordle", "Mastermind", "Minesweeper", "TwentyQuestions", "Rooms", "2048")
TASKS = 100
REPLIES = 64  # of the random floor, drawn beforehand
IMPORT = "import time; began = time.perf_counter(); import envs; print(time.perf_counter() - began)"
TARGET_US, TARGET_RATIO, TARGET_IMPORT_S = 10.0, 3.0, 0.4


class BareGuess(gymnasium.Env[str, int]):
    """GuessNumber as one would write it for Gymnasium alone."""

    def __init__(self, size: int = 7, turns: int = 4) -> None:
        self.observation_space, self.action_space = gymnasium.spaces.Text(16), gymnasium.spaces.Discrete(100)
        self.size, self.limit = size, turns

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[str, dict[str, Any]]:
        """Choose an interval and a secret."""
        super().reset(seed=seed)
        self.low = int(self.np_random.integers(10, 94))
        self.high = self.low + self.size - 1
        self.secret = int(self.np_random.integers(self.low, self.high + 1))
        self.turns = 0
        return f"{self.low}..{self.high}", {}

    def step(self, action: int) -> tuple[str, float, bool, bool, dict[str, Any]]:
        """Compare a guess with the secret."""
        self.turns += 1
        if action < self.secret:
            self.low = max(self.low, action + 1)
        elif action > self.secret:
            self.high = min(self.high, action - 1)
        won = action == self.secret
        return f"{self.low}..{self.high}", float(won), won, self.turns >= self.limit, {}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print and write."""
    parser = Parser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--steps", type=whole_number(100), default=20_000, help="steps of a round (default: 20000)")
    parser.add_argument("--rounds", type=whole_number(1), default=5, help="timed rounds (default: 5)")
    parser.add_argument("--out", type=output_file, help="file of the result (default: benchmarks/results)")
    args = parser.parse_args(argv)
    plays: dict[str, Callable[[int], int]] = {"bare GuessNumber": _bare}
    plays |= {f"games/{game}-v0": _ours(f"games/{game}-v0") for game in GAMES}
    times: dict[str, list[float]] = {name: [] for name in plays}
    for round_ in range(args.rounds + 1):
        for name, play in plays.items():
            began = time.process_time()
            steps = play(args.steps)
            if round_:  # the first one makes the tasks
                times[name].append((time.process_time() - began) / steps * 1e6)
    cost = {name: median(seconds) for name, seconds in times.items()}
    ratio = cost["games/GuessNumber-v0"] / cost["bare GuessNumber"]
    imports = [float(subprocess.check_output([sys.executable, "-c", IMPORT])) for _ in range(args.rounds)]
    console = Console(highlight=False)
    rows = [[name, f"{us:.1f}", "yes" if us <= TARGET_US else "NO"] for name, us in cost.items()]
    record.show("CPU per step, resets included", ("environment", "us", f"at most {TARGET_US:g}"), rows, console)
    console.print(f"GuessNumber against the bare one: {ratio:.1f} (target at most {TARGET_RATIO:g})")
    console.print(f"import envs: {median(imports):.2f} s (target at most {TARGET_IMPORT_S:g})")
    found = {
        **record.provenance(torch.device("cpu"), [0]),
        "us_per_step": cost,
        "against_bare": ratio,
        "import_s": median(imports),
        "targets": {"us_per_step": TARGET_US, "against_bare": TARGET_RATIO, "import_s": TARGET_IMPORT_S},
    }
    record.save(args.out or record.RESULTS / "env_steps.json", found)
    return 0


def _ours(id: str) -> Callable[[int], int]:
    env = envs.make(id, style="short")
    rng = np.random.default_rng(0)
    env.reset(seed=0)
    replies = [env.unwrapped.random(rng) for _ in range(REPLIES)]  # type: ignore[attr-defined]
    tasks = min(TASKS, len(env.unwrapped.load("train")))  # type: ignore[attr-defined]

    def play(steps: int) -> int:
        done = episode = 0
        while done < steps:
            env.reset(seed=episode, options={"split": "train", "index": episode % tasks})
            episode, over = episode + 1, False
            while not over:
                _, _, terminated, truncated, _ = env.step(replies[done % REPLIES])
                done, over = done + 1, terminated or truncated
        return done

    return play


def _bare(steps: int) -> int:
    env = BareGuess()
    guesses = np.random.default_rng(0).integers(10, 100, REPLIES).tolist()
    done = episode = 0
    while done < steps:
        env.reset(seed=episode)
        episode, over = episode + 1, False
        while not over:
            _, _, terminated, truncated, _ = env.step(guesses[done % REPLIES])
            done, over = done + 1, terminated or truncated
    return done


if __name__ == "__main__":
    run(main)
