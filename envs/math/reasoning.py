"""reasoning-gym behind two functions: make a problem, score an answer. Runs in a worker process, never in ours.

The package takes seconds to import, some of its scorers hand replies to `eval`, some run for ever, and some of its
problems depend on the hash seed. Workers have a fixed hash seed and are killed at a deadline; `asks` keeps from the
scorers whatever could be a program.

Its scorers pay for wrong answers too: a right answer among other words earns up to 1.0, and `nan` is every complex
number. So an answer is right here if it is the stored one, or the same number (`envs.grading.number`), or, for tasks
with several right answers (`FORMS`), if it has the form of an answer and the scorer gives exactly 1.0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from envs.grading.expression import evaluate
from envs.grading.number import parse_number

SKIPPED = {
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
_GRID = r"[0-9_ \n]+"
_JSON = r"\[[\[\]A-Za-z0-9\"', >-]*\]"
_INTEGRAL = r"(?:sin|cos|tan|exp|log|sqrt|[A-Za-z](?![A-Za-z_.(])|[0-9]{1,9}(?![0-9])|\*\*(?=[(0-9-])|[-+*/() ])+"
FORMS = {  # tasks that more than one answer solves, and what an answer to them looks like
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
    "quantum_lock": r"[A-Z](?: → [A-Z])*",
    "cryptarithm": r"[A-Z]=[0-9](?:,[A-Z]=[0-9])*",
    "palindrome_generation": r"[a-z]+",
    "jugs": _JSON,
    "group_anagrams": _JSON,
    "palindrome_partitioning": _JSON,
    "simple_integration": _INTEGRAL,
    "intermediate_integration": _INTEGRAL,
}
WRITTEN = ("fraction_simplification", "base_conversion")  # how a number is written is the task
MOST = 4000  # characters of an answer that a scorer sees


def load() -> Callable[..., Any]:
    """Import the package and return the function that a worker serves."""
    import reasoning_gym
    from reasoning_gym.factory import CURRICULA, DATASETS

    def entry(name: str, level: int | None, config: Mapping[str, Any], seed: int) -> tuple[Any, dict[str, Any]]:
        if level is None:
            dataset = reasoning_gym.create_dataset(name, seed=seed, size=1, **config)
        else:
            curriculum = CURRICULA[name]()
            curriculum.set_global_level(level)
            chosen = curriculum.generate_configuration({**config, "seed": seed, "size": 1})
            dataset = DATASETS[name][0](config=chosen)
        return dataset, dataset[0]

    def names() -> list[str]:
        return sorted(DATASETS.keys() - SKIPPED.keys())

    def make(name: str, level: int | None, config: Mapping[str, Any], seed: int) -> dict[str, str]:
        try:
            made = entry(name, level, config, seed)[1]
        except (TypeError, AssertionError, KeyError) as error:  # a wrong argument in `config`, or no such levels
            return {"refused": f"{type(error).__name__}: {error}"}
        return {"question": made["question"], "answer": made["answer"]}

    def score(name: str, level: int | None, config: Mapping[str, Any], seed: int, said: str) -> float:
        dataset, problem = entry(name, level, config, seed)
        try:
            return float(dataset.score_answer(said, problem))
        except Exception:  # of a scorer that the text has surprised: no fault of ours
            return 0.0

    served: dict[str, Callable[..., Any]] = {"names": names, "make": make, "score": score}
    return lambda what, *arguments: served[what](*arguments)


def same(name: str, gold: str, said: str) -> bool:
    """Whether `said` is the stored answer, but for spaces, a full stop, JSON's layout and the form of a number."""
    if _tidy(gold) == _tidy(said):
        return True
    if gold.isalpha() and gold.casefold() == said.strip(" .\n").casefold():
        return True
    wanted = None if name in WRITTEN else parse_number(gold)
    if wanted is not None:
        return wanted == parse_number(said)
    return _json(gold) is not None and _json(gold) == _json(said)


def asks(name: str, said: str) -> bool:
    """Whether `said` may be shown to the scorer: the task has several answers, and this has the form of one."""
    if name not in FORMS or len(said) > MOST or not re.fullmatch(FORMS[name], said):
        return False
    if name in ("countdown", "puzzle24"):
        made = evaluate(said)
        return made is not None and made.value.denominator == 1
    return "**" not in said or re.search(r"\*\*\s*\(?-?[0-9]{3}|\*\*[^*+/]*\*\*", said) is None


def _tidy(text: str) -> str:
    lines = [" ".join(line.split()) for line in text.strip().splitlines()]
    return "\n".join(line for line in lines if line).rstrip(".")


def _json(text: str) -> Any:
    if not text.lstrip().startswith(("[", "{")) or len(text) > MOST:
        return None
    try:
        return json.loads(text.replace("'", '"'))
    except (ValueError, RecursionError):
        return None
