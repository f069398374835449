"""Solve problems with a Python interpreter, and store the functions that helped for later episodes.

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
    """Call the function if the prompt offers it, otherwise write it; then answer with its output."""
    problem, *function_lines = text(opening[-1]).splitlines()
    is_available = any(line.startswith("value(") for line in function_lines)
    yield f'>value("{problem}")' if is_available else FIRST.format(problem=problem)
    yield text(env.dialogue[-1])


def main() -> None:
    """Play a few episodes that share a function library, and print their messages."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=2)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "functions.json"
        env = Python(style="short", library=str(library), render_mode="ansi")
        for index in range(args.episodes):
            opening, _ = env.reset(options={"index": index})
            for reply in replies(env, opening):
                _, reward, *_, info = env.step(reply)
            print(f"{env.render()}\n# reward {reward:g}, {info['metrics']}\n")
        env.close()
        print(f"in the library: {library.read_text()}")


if __name__ == "__main__":
    main()
