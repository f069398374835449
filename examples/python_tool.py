"""Solve problems with a Python interpreter, and keep the functions that helped for later episodes.

python examples/python_tool.py --episodes 4

Train on it: python -m rl.train --env math/Python-v0
"""

import argparse
import tempfile
from collections.abc import Iterator
from pathlib import Path

from envs.math.python import Python
from envs.types import Messages, text

FIRST = """I have no function for this yet.
```python
def value(problem):
    \"\"\"Work out a problem that ends in =?\"\"\"
    return eval(problem.rstrip("=?"))

value("{problem}")
```"""


def replies(env: Python, opening: Messages) -> Iterator[str]:
    """Call a function that the prompt offers, or write it; then answer what was printed."""
    problem, *offered = text(opening[-1]).splitlines()
    known = any(line.startswith("value(") for line in offered)
    yield f'>value("{problem}")' if known else FIRST.format(problem=problem)
    yield text(env.dialogue[-1])


def main() -> None:
    """Play a few episodes that share a library, and show what was said."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2)
    words = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "functions.json"
        env = Python(library=str(library), render_mode="ansi")
        for index in range(words.episodes):
            opening, _ = env.reset(options={"index": index})
            for reply in replies(env, opening):
                _, reward, *_, info = env.step(reply)
            print(f"{env.render()}\n# reward {reward:g}, {info['metrics']}\n")
        env.close()
        print(f"in the library: {library.read_text()}")


if __name__ == "__main__":
    main()
