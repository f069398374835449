"""Every case in `tests/vectors` is either checked by a test of this folder or left out with a reason."""

from __future__ import annotations

import re
from pathlib import Path

from rl.methods import recipe as recipes
from tests.support.vector_cases import COUNTS, FOLDER, LEFT_OUT, LEFT_OUT_FILES, UNCHECKED, checked, name_of, read

TEXT = "".join(path.read_text(encoding="utf-8") for path in Path(__file__).parent.glob("test_*_vectors.py"))


def test_no_case_is_skipped_silently() -> None:
    assert {file.stem for file in FOLDER.glob("*.json")} == COUNTS.keys()
    assert COUNTS.keys() >= LEFT_OUT.keys()
    assert COUNTS.keys() >= UNCHECKED.keys()
    assert not COUNTS.keys() & LEFT_OUT_FILES.keys()
    for file, (run, left) in COUNTS.items():
        assert f'"{file}"' in TEXT
        names = [name_of(case) for case in read(file)["cases"]]
        assert LEFT_OUT.get(file, {}).keys() <= set(names)
        assert all(any(name in case["expected"] for case in checked(file)) for name in UNCHECKED.get(file, {}))
        assert (len(checked(file)), len(names) - len(checked(file))) == (run, left), file


def test_real_recipes_are_compared() -> None:
    """Each recipe with a formula of its own is loaded by name; the others differ from one of these in other slots.

    The parts of those that choose tasks, episodes, help or labels are compared in `test_task_vectors.py`.
    No file has numbers of `clip_cov`, `shuffle_r1` and `spiral`; `tests/rl/methods/updates/test_left_out.py` works those of
    the first two out, and `tests/rl/methods/test_credit.py` the formula of `spiral`. `seeupo_agents` is compared with those of `seeupo` by `tests/rl/methods/teams/test_seeupo_agents.py`.
    """
    used = set(re.findall(r"\"(\w+)\"", TEXT)) & {name for name, _ in recipes.catalogue()}
    missing = {name for name, _ in recipes.catalogue()} - used
    without_formula = {"flow_grpo", "mcts", "tree_grpo", "turn_ppo"}
    without_formula |= {"branch_grpo"}  # whose values `tests/rl/methods/tasks/test_branches.py` works out
    without_formula |= {"pa_rl"}  # whose weights `tests/rl/methods/tasks/test_improved_policy.py` works out
    without_formula |= {"arrol"}  # whose rule `tests/rl/methods/tasks/test_pruned.py` compares with simulations
    without_formula |= {"latr"}  # whose forks `tests/rl/methods/tasks/test_look_ahead.py` works out
    without_formula |= {"spec_rl"}  # whose drafts `tests/rl/policy/drafts/test_verify.py` compares with exact chances
    of_parts = {"brorl", "dars", "dots", "ettrl", "gdro_prompts", "gdro_rollouts", "pope", "swarm", "ttrl"}
    without_formula |= {"greso", "vade", "vcrl"}  # whose rules `test_samplers.py` works out
    without_formula |= {
        "graph"
    }  # no release has it; `tests/rl/methods/states/test_graph_values.py` has exact gradients
    assert missing == without_formula | of_parts | {
        "clip_cov",
        "shuffle_r1",
        "spiral",
        "jade",
        "m_grpo",
        "seeupo_agents",
    }
