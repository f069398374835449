"""reasoning-gym in a worker process: creating problems and scoring answers.

The package takes seconds to import, some of its scorers pass replies to `eval`, some do not terminate, and some of its
problems depend on the hash seed. Therefore it runs in workers only, which have a fixed hash seed and are killed at a
deadline, and `is_scorable` keeps everything that could be a program from the scorers.

The scorers also accept wrong answers: a right answer among other words earns up to 1.0, and `nan` counts as every
complex number. So an answer is right here if it is the stored one, or the same number (`envs.grading.number`), or, for
tasks with several right answers or notations of one (`ANSWER_PATTERNS`), if it has the form of an answer and the scorer
gives exactly 1.0. What surrounds an answer (`envs.grading.decoration`) and spaces at commas are no part of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from envs.grading.decoration import undecorated
from envs.grading.expression import evaluate
from envs.grading.number import parse_number

UNTRUSTED_TASKS = {
    "composite": "it mixes other tasks",
    "arc_agi": "third-party grids in huge prompts",
    "rearc": "third-party grids in huge prompts",
    "codeio": "it depends on the hash seed",
    "isomorphic_strings": "it depends on the hash seed",
    "knight_swap": "it depends on the hash seed",
    "polynomial_multiplication": "it depends on the hash seed",
    "ransom_note": "it depends on the hash seed",
    "word_ladder": "it depends on the hash seed",
    "list_functions": "it draws from the global generator",
    "game_of_life_halting": "its scorer accepts any text",
    "prime_factorization": "its scorer raises on text that is no number",
    "boxnet": "it stores no answer",
    "graph_color": "it stores no answer",
    "propositional_logic": "it stores no answer",
    "rubiks_cube": "it stores no answer",
    "rush_hour": "it stores no answer",
    "futoshiki": "a problem takes seconds to make",
}
_COMMA = re.compile(r"\s*,\s*")
_SIGN = re.compile(r"\s*([-+]|\*(?=\s*[ij]))\s*")
_GRID = r"[0-9_ \n]+"
_JSON = r"\[[\[\]A-Za-z0-9\"',\s>-]*\]"
_DECIMAL = r"[-+]?[0-9]{1,18}(?:\.[0-9]{1,18})?"
_WHOLE = r"\s*[0-9]{1,18}\s*"
_ROLE = r"[A-Z][a-z]+ is an? [a-z]+"
_INTEGRAL = r"(?:sin|cos|tan|exp|log|sqrt|[A-Za-z](?![A-Za-z_.(])|[0-9]{1,9}(?![0-9])|\*\*(?=[(0-9-])|[-+*/() ])+"
ANSWER_PATTERNS = {  # tasks with several right answers, or notations of one -> the form of an answer
    "countdown": r"[0-9+\-*/() ]+",
    "puzzle24": r"[0-9+\-*/() ]+",
    "n_queens": r"[_Q \n]+",
    "kakurasu": _GRID,
    "survo": _GRID,
    "mini_sudoku": _GRID,
    "sudoku": _GRID,
    "sokoban": r"[LRUD]+",
    "shortest_path": r"(?:(?:left|right|up|down)\s*)+",
    "tower_of_hanoi": r"(?:Move disk [0-9]+ from Peg [0-9]+ to Peg [0-9]+\n?)+",
    "quantum_lock": r"[A-Z](?:\s*(?:→|->|,)\s*[A-Z])*",
    "cryptarithm": r"[A-Z]\s*=\s*[0-9](?:\s*,\s*[A-Z]\s*=\s*[0-9])*",
    "palindrome_generation": r"[a-z]+",
    "jugs": _JSON,
    "group_anagrams": _JSON,
    "palindrome_partitioning": _JSON,
    "simple_integration": _INTEGRAL,
    "intermediate_integration": _INTEGRAL,
    "knights_knaves": rf"{_ROLE}(?:(?:,| and|, and)\s+{_ROLE})*\.?",
    "polynomial_equations": rf"{_DECIMAL}(?:\s*,\s*{_DECIMAL})*",
    "fraction_simplification": rf"{_WHOLE}/{_WHOLE}|\\d?frac\s*\{{{_WHOLE}\}}\s*\{{{_WHOLE}\}}",
    "bitwise_arithmetic": r"-?0[xX][0-9A-Fa-f]{1,40}",
    "tsumego": r"[A-Za-z][0-9]{1,2}",
}
_COMPLEX = re.compile(
    rf"(?P<real>{_DECIMAL}(?![0-9.]* ?[ij]))?(?:(?P<imaginary>(?:(?<!.)|[-+])(?:[0-9][0-9.]{{0,40}})?) ?[ij])?"
)
NOTATION_TASKS = ("fraction_simplification", "base_conversion")  # tasks about the notation of a number
MAX_ANSWER_CHARS = 4000  # length of an answer that a scorer gets
MAX_COMPLEX_CHARS = 100  # of a complex number


def load() -> Callable[..., Any]:
    """Import the package and return the function that a worker serves: `function(name, *arguments)`.

    Names are "names" (all trusted tasks), "make" (a problem) and "score" (the score of an answer, 0 to 1).
    """
    import reasoning_gym
    from reasoning_gym.factory import CURRICULA, DATASETS

    def create_entry(name: str, level: int | None, config: Mapping[str, Any], seed: int) -> tuple[Any, dict[str, Any]]:
        if level is None:
            dataset = reasoning_gym.create_dataset(name, seed=seed, size=1, **config)
        else:
            curriculum = CURRICULA[name]()
            curriculum.set_global_level(level)
            generator_config = curriculum.generate_configuration({**config, "seed": seed, "size": 1})
            dataset = DATASETS[name][0](config=generator_config)
        return dataset, dataset[0]

    def names() -> list[str]:
        return sorted(DATASETS.keys() - UNTRUSTED_TASKS.keys())

    def make(name: str, level: int | None, config: Mapping[str, Any], seed: int) -> dict[str, str]:
        try:
            task_entry = create_entry(name, level, config, seed)[1]
        except (TypeError, AssertionError, KeyError) as error:  # a wrong argument in `config`, or no such levels
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"question": task_entry["question"], "answer": task_entry["answer"]}

    def score(name: str, level: int | None, config: Mapping[str, Any], seed: int, answer: str) -> float:
        dataset, problem = create_entry(name, level, config, seed)
        try:
            return float(dataset.score_answer(answer, problem))
        except Exception:  # scorers may raise on unexpected answers; such an answer is wrong
            return 0.0

    functions: dict[str, Callable[..., Any]] = {"names": names, "make": make, "score": score}
    return lambda what, *arguments: functions[what](*arguments)


def is_same_answer(name: str, gold: str, answer: str) -> bool:
    """Whether `answer` is the stored answer `gold`, up to spaces, a full stop, JSON layout and the form of a number.

    What surrounds the whole of it is no part of it, such as emphasis and a code fence.
    """
    if _normalise(gold) == _normalise(answer):
        return True
    plain_gold, plain = undecorated(gold), undecorated(answer)
    if _normalise(plain_gold) == _normalise(plain):
        return True
    if gold.isalpha() and gold.casefold() == plain.strip(" .\n").casefold():
        return True
    if name == "complex_arithmetic" and (value := _complex(gold)) is not None and value == _complex(plain):
        return True
    gold_value = None if name in NOTATION_TASKS else parse_number(gold)
    if gold_value is not None:
        return gold_value in (parse_number(answer), parse_number(plain))
    if name == "time_intervals":
        return _interval(gold) == _interval(plain)
    return _json(gold) is not None and _json(gold) == _json(plain)


def scorable_text(name: str, answer: str) -> str | None:
    """Return what the scorer may get of `answer`: itself, or what decoration surrounds; None for anything else."""
    return next((text for text in (answer, undecorated(answer)) if is_scorable(name, text)), None)


def is_scorable(name: str, answer: str) -> bool:
    """Whether the scorer may get `answer`: the task `name` leaves it to the scorer, and this has the form of one."""
    if name not in ANSWER_PATTERNS or len(answer) > MAX_ANSWER_CHARS or not re.fullmatch(ANSWER_PATTERNS[name], answer):
        return False
    if name in ("countdown", "puzzle24"):
        value = evaluate(answer)
        return value is not None and value.value.denominator == 1
    return "**" not in answer or re.search(r"\*\*\s*\(?-?[0-9]{3}|\*\*[^*+/]*\*\*", answer) is None


def _normalise(text: str) -> str:
    lines = [_COMMA.sub(", ", " ".join(line.split())) for line in text.strip().splitlines()]
    return "\n".join(line for line in lines if line).rstrip(".")


def _complex(text: str) -> tuple[Fraction, Fraction] | None:
    """The real and the imaginary part of a number such as `11 - 14.0i`; None for any other text."""
    if len(text) > MAX_COMPLEX_CHARS:
        return None
    text = _SIGN.sub(lambda sign: sign[1].strip("*"), text.strip().rstrip(".").replace("−", "-"))
    match = _COMPLEX.fullmatch(text[1:-1] if text[:1] == "(" and text[-1:] == ")" else text)
    if match is None or not match[0]:
        return None
    imaginary = match["imaginary"]
    size = "0" if imaginary is None else imaginary if imaginary[-1:].isdigit() else f"{imaginary}1"
    try:
        return Fraction(match["real"] or 0), Fraction(size)
    except ValueError:  # such as 1.2.3
        return None


def _interval(text: str) -> str:
    """A time or a number of days in one spelling: no zero before the hour, `days` for one day, too."""
    return re.sub(r"\bday\b", "days", re.sub(r"(?<![:0-9])0(?=[0-9]:)", "", _normalise(text)))


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("[", "{")) or len(text) > MAX_ANSWER_CHARS:
        return None
    try:
        return json.loads(text.replace("'", '"'))
    except (ValueError, RecursionError):
        return None
