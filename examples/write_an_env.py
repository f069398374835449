"""An environment in twenty lines. Running this file checks it with the environment doctor.

Train on it: python -m rl.train --env examples/write_an_env.py:Mastermind
"""

from collections import Counter
from itertools import product

from envs.checks import check_env
from envs.env import Env
from envs.procedural import enumerated
from envs.types import Outcome, Task, assistant, final_line, user

CODES = ["".join(code) for code in product("rgby", repeat=3)]


class Mastermind(Env):
    """Find three colours of r, g, b, y. The answer to a guess counts them: `1 in place, 2 elsewhere`."""

    max_turns = 5

    def tasks(self, split):  # noqa: D102
        return enumerated(split, len(CODES), lambda i: Task("", (user("?"),), CODES[i]), key="games/Mastermind-v0")

    def reply(self, action):  # noqa: D102
        guess = final_line(action)
        if guess not in CODES:
            return Outcome((user("three of r, g, b, y"),), valid=False)
        right = guess == self.task.answer
        return Outcome((user(marks(guess, self.task.answer)),), float(right), terminated=right, success=right)

    def oracle(self):  # noqa: D102
        yield assistant(self.task.answer)


def marks(guess: str, code: str) -> str:
    """Count the colours that are in place and those that are elsewhere."""
    placed = sum(a == b for a, b in zip(guess, code, strict=True))
    return f"{placed} in place, {(Counter(guess) & Counter(code)).total() - placed} elsewhere"


if __name__ == "__main__":
    for result in check_env(f"{__file__}:Mastermind"):
        print(f"ok  {result.name:15} {result.claim}")
