"""The table of benchmarks. To add an environment to one, add a line and run `python -m envs.benchmarks --write`.

The name of a benchmark ends in its version. The tasks of a published version never change; other tasks need a new one.
"""

from __future__ import annotations

from typing import NamedTuple

SWITCHES = ("words=true", "explain=true")  # arguments of version 1, which the style "v1" replaces


class Entry(NamedTuple):
    """Tasks of one split of an environment.

    Attributes:
        env: Id of the environment.
        tasks: Number of tasks; None for all tasks of the split.
        arguments: Arguments of the environment as on a command line, separated by spaces: "size=5 slippery=true".
        split: Split that the tasks come from.
        style: Wording of its texts, the argument `style` of every environment.
    """

    env: str
    tasks: int | None = None
    arguments: str = ""
    split: str = "test"
    style: str = "full"

    @property
    def env_arguments(self) -> list[str]:
        """The arguments to make the environment with. The switches of version 1 are part of its labels only."""
        style = [f"style={self.style}"] if self.style != "full" else []
        return [*(word for word in self.arguments.split() if word not in SWITCHES), *style]

    @property
    def name(self) -> str:
        """The environment's id with its arguments, if there are any: "math/Arithmetic-v0[level=2]"."""
        return f"{self.env}[{self.arguments}]" if self.arguments else self.env

    @property
    def label(self) -> str:
        """Name of the split in the suite of the benchmark: "math/Arithmetic-v0[level=2]:test"."""
        return f"{self.name}:{self.split}"


class Benchmark(NamedTuple):
    """A named set of tasks: its name with the version ("core-v1"), one line that describes it, and its entries."""

    name: str
    line: str
    entries: tuple[Entry, ...]


def _version_1(*entries: Entry) -> tuple[Entry, ...]:
    """Give entries the texts that they were published with."""
    styles = ["v1" if set(SWITCHES) & set(entry.arguments.split()) else "short" for entry in entries]
    return tuple(entry._replace(style=style) for entry, style in zip(entries, styles, strict=True))


CORE = _version_1(  # short prompts for the bundled model: a few bytes a turn, no rules
    Entry("math/Arithmetic-v0", 50),
    Entry("math/Algebra-v0", 50),
    Entry("math/WordProblems-v0", 50),
    Entry("math/Countdown-v0", 50),
    Entry("math/Revise-v0", 50),
    Entry("games/GuessNumber-v0", 50),
    Entry("games/FrozenLake-v0", 50),
    Entry("games/Wordle-v0", 50),
    Entry("games/Minesweeper-v0", 50),
    Entry("games/Rooms-v0", 50),
)
MATH = _version_1(  # in plain English, for pre-trained models
    Entry("math/Arithmetic-v0", 100),
    Entry("math/Arithmetic-v0", 100, "level=3"),
    Entry("math/Algebra-v0", 100, "words=true"),
    Entry("math/Algebra-v0", 100, "words=true level=4"),
    Entry("math/WordProblems-v0", 100, "words=true"),
    Entry("math/WordProblems-v0", 100, "words=true level=3"),
    Entry("math/Countdown-v0", 100, "words=true"),
    Entry("math/LinearSystem-v0", 100, "words=true"),
    Entry("math/Fractions-v0", 100, "words=true"),
    Entry("math/Sets-v0", 100, "words=true"),
    Entry("math/Revise-v0", 100),
    Entry("math/GSM8K-v0"),
    Entry("math/MATH500-v0"),
    Entry("math/AIME-v0"),
)
GAMES = _version_1(  # every episode opens with the rules
    Entry("games/GuessNumber-v0", 100),
    Entry("games/FrozenLake-v0", 100, "explain=true"),
    Entry("games/Maze-v0", 100, "explain=true"),
    Entry("games/TwentyQuestions-v0", 100, "explain=true"),
    Entry("games/Rooms-v0", 100, "explain=true"),
    Entry("games/Taxi-v0", 50, "explain=true"),
    Entry("games/CliffWalking-v0", 50, "explain=true"),
    Entry("games/Blackjack-v0", 100, "explain=true"),
    Entry("games/Wordle-v0", 100, "explain=true"),
    Entry("games/Mastermind-v0", 100, "explain=true"),
    Entry("games/Minesweeper-v0", 100, "explain=true"),
    Entry("games/Sokoban-v0", 100, "explain=true"),
    Entry("games/2048-v0", 100, "explain=true"),
)
CODE = _version_1(  # in plain English; graded on hidden inputs or by the tests of the data set
    Entry("code/Functions-v0", 100, "words=true"),
    Entry("code/Functions-v0", 100, "words=true level=1"),
    Entry("code/Functions-v0", 100, "words=true level=2"),
    Entry("code/Functions-v0", 100, "words=true level=3"),
    Entry("code/Functions-v0", 100, "words=true level=4"),
    Entry("code/HumanEval-v0"),
    Entry("code/MBPP-v0"),
)


TOOLS = (  # calls of one reply, then whole conversations; the customer follows rules or a script
    Entry("tools/BFCL-v0", arguments="category=simple_python"),
    Entry("tools/BFCL-v0", arguments="category=multiple"),
    Entry("tools/BFCL-v0", arguments="category=parallel"),
    Entry("tools/BFCL-v0", arguments="category=parallel_multiple"),
    Entry("tools/BFCL-v0", arguments="category=irrelevance"),
    Entry("tools/Search-v0", 100),
    Entry("tools/Clarify-v0", 100),
    Entry("tools/Support-v0", 200),
    Entry("tools/Travel-v0", 200),
    Entry("tools/Tau2-v0"),
)

WEB = (  # the engine "dom"; a browser shows the same pages
    Entry("web/Widgets-v0", 80),
    Entry("web/Widgets-v0", 80, "level=3"),
    Entry("web/Shop-v0", 80),
    Entry("web/Shop-v0", 80, "level=3"),
    Entry("web/Mail-v0", 40, "level=2"),
    Entry("web/CRM-v0", 40, "level=2"),
    Entry("web/Calendar-v0", 40, "level=2"),
    Entry("web/Wiki-v0", 40, "level=2"),
    Entry("web/Board-v0", 40, "level=2"),
    Entry("web/Access-v0", 40, "level=2"),
)


MULTI = (  # one seat; a script plays the others. Kuhn poker is left out: random play wins it as often as the oracle
    Entry("multi/TicTacToe-v0", 100, "opponent=minimax:depth=1"),
    Entry("multi/ConnectFour-v0", 50, "opponent=minimax:depth=1"),
    Entry("multi/Leduc-v0", 100, "opponent=random"),
    Entry("multi/IteratedDilemma-v0", 50, "opponent=tit_for_tat"),
    Entry("multi/IteratedDilemma-v0", 50, "opponent=grim"),
    Entry("multi/Negotiation-v0", 100, "opponent=conceder"),
    Entry("multi/OddWord-v0", arguments="opponent=honest"),
    Entry("multi/PlanPath-v0", 100, "seat=planner"),
    Entry("multi/PlanPath-v0", 100, "seat=executor"),
    Entry("multi/Sokoban-v0", 50, "seat=planner"),
    Entry("multi/Relay-v0", 100, "seat=first"),
    Entry("multi/Relay-v0", 100, "seat=second"),
    Entry("multi/SolverVerifier-v0", 100, "seat=solver"),
    Entry("multi/CoderTester-v0", 50, "seat=coder"),
    Entry("multi/CoderTester-v0", 50, "seat=tester"),
)


def _version_2(entries: tuple[Entry, ...]) -> tuple[Entry, ...]:
    """Return the tasks of version 1 in full style."""
    return tuple(
        entry._replace(
            arguments=" ".join(word for word in entry.arguments.split() if word not in SWITCHES), style="full"
        )
        for entry in entries
    )


BENCHMARKS = (
    Benchmark(
        "core-v2", "ten kinds of task that need no file, fifty of each: the first thing to run", _version_2(CORE)
    ),
    Benchmark("math-v2", "answers that are checked exactly, from sums to competitions", _version_2(MATH)),
    Benchmark("code-v2", "functions to write, from one expression to those of HumanEval and MBPP", _version_2(CODE)),
    Benchmark("games-v2", "several turns against a world that answers", _version_2(GAMES)),
    Benchmark("tools-v1", "tools to call, from one function to a customer's wish at a shop", TOOLS),
    Benchmark("web-v1", "goals on web pages, from one button to an order, judged by the final state", WEB),
    Benchmark("multi-v1", "one seat beside or against others, from board games to teams at work", MULTI),
    Benchmark("core-v1", "ten kinds of task that need no file, in short prompts for the bundled model", CORE),
    Benchmark("math-v1", "answers that are checked exactly, from sums to competitions, in plain English", MATH),
    Benchmark("code-v1", "functions to write, from one expression to those of HumanEval and MBPP", CODE),
    Benchmark("games-v1", "several turns against a world that answers, after its rules", GAMES),
)
