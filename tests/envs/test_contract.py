"""Every environment in the table keeps the contract, and the doctor finds each way of breaking it."""

import re
from pathlib import Path

import pytest

import envs
from envs import checks
from envs.checks import CheckFailure, check_env, contract, isolation, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.data import MissingData
from envs.rows import ROWS
from envs.step_info import FINAL_KEYS, RESET_KEYS, STEP_KEYS, StepInfo
from sandboxes.extras import install_command
from tests.support.paths import DOCS, ENVIRONMENTS

CHEAP = ("math/", "games/")  # families whose episodes cost little
DEAR = ("math/Python-v0", "games/Recall-v0")  # of theirs, those that run programs, or read thousands of characters
MANY, FEW = 50, 6  # test tasks that are played of the cheap families and of the others; `-m long` plays all


def is_cheap(name):
    return name.startswith(CHEAP) and name not in DEAR


@pytest.mark.parametrize(
    ("row", "tasks"),
    [
        *(pytest.param(row, MANY if is_cheap(row.id) else FEW, id=row.id) for row in ROWS),
        *(pytest.param(row, None, id=f"{row.id}-all", marks=pytest.mark.long) for row in ROWS),
    ],
)
def test_the_environment_keeps_its_promises(row, tasks):
    try:
        results = check_env(row.id, tasks=tasks)
    except MissingData as missing:
        assert row.data, f"{row.id} needs data that its row does not name"
        pytest.skip(f"{row.id}: {missing}")
    except ImportError as missing:
        assert row.extra, f"{row.id} needs an extra that its row does not name"
        pytest.skip(f"{row.id}: {install_command(row.extra)} ({missing})")
    expected = checks.CHECKS + checks.SEAT_CHECKS * row.id.startswith("multi/")
    assert [result.name for result in results[1:]] == [check.__name__ for check in expected]


def test_ids_have_a_family_a_name_and_a_version():
    assert len({row.id for row in ROWS}) == len(ROWS)
    for row in ROWS:
        assert re.fullmatch(r"(math|code|tools|web|games|multi)/[A-Z0-9][A-Za-z0-9]*-v[0-9]+", row.id)
        assert row.line and len(row.line) <= 80


@pytest.mark.parametrize("level", [0, 2, 3])
def test_the_other_levels_of_arithmetic_keep_them_too(level):
    for check in (contract.splits, rewards.oracle, rewards.noop_and_junk, rewards.attacks):
        assert not list(check(EnvUnderTest("math/Arithmetic-v0", {"level": level})))


def test_a_sound_environment_from_a_file_passes_every_check():
    results = check_env(f"{ENVIRONMENTS}:Echo", tasks=2, prefix="> ")
    assert len(results) == 1 + len(checks.CHECKS) and not any(result.faults for result in results)
    assert all(result.claim.endswith(".") for result in results)


@pytest.mark.parametrize(
    "name, check, word",
    [
        ("WeakOracle", rewards.oracle, "return 0.5 of 1.0, success=False, stop='turn_limit'"),
        ("ReadsWholeReply", rewards.thinking_aloud, "earns 1.0, but 0.0 with reasoning on the lines before each reply"),
        ("PaysSilence", rewards.noop_and_junk, "no-op earns 0.3"),
        ("PaysEcho", rewards.noop_and_junk, "an echo earns 1.0"),
        ("PaysAttack", rewards.attacks, "'raep' earns 1.0"),
        ("PaysChance", rewards.random_floor, "random replies earn 1.0"),
        ("ShowsAnswer", rewards.answer_leak, "a message shows the answer 'erap'"),
        ("SharesTasks", contract.splits, "also in split"),
        ("SameIds", contract.splits, "tasks 0 and 1 have the same id 'train/0'"),
        ("GlobalLuck", isolation.determinism, "replays a seed differently"),
        ("GlobalNumpy", isolation.independence, "global random generators"),
        ("Crosstalk", isolation.independence, "differs when others are played"),
        ("NotANumber", contract.gymnasium_check, "Outcome.reward is nan, not a finite number"),
        ("NotANumber", contract.info_keys, "Outcome.reward is nan, not a finite number"),
        ("SharesObjects", contract.fresh_objects, "changing returned messages"),
        ("NeverEnds", contract.limits, "still going"),
        ("EndsByLimit", contract.info_keys, "does not fit terminated=True"),
        ("Silent", contract.info_keys, "goes on without a message"),
        ("ExtraInfo", contract.info_keys, "'secret'"),
        ("RawText", contract.info_keys, "control characters or lone surrogates"),
        ("AcceptsAnything", contract.bad_input, "no TypeError that names 'NoneType'"),
        ("Unpicklable", isolation.pickling, "cannot pickle"),
    ],
)
def test_the_doctor_finds(name, check, word):
    result = checks.run_check(check, EnvUnderTest(f"{ENVIRONMENTS}:{name}"))
    assert word in "\n".join(result.faults)


@pytest.mark.parametrize(
    "name, word",
    [
        ("HashOrder", "PYTHONHASHSEED"),
        ("LeavesFile", "left files in the temporary folder: tmp"),
        ("LeavesThread", "left thread lingering"),
    ],
)
def test_the_doctor_finds_in_other_processes(name, word):
    assert word in "\n".join(isolation.processes(EnvUnderTest(f"{ENVIRONMENTS}:{name}")))


def test_an_answer_may_stand_in_a_message_for_a_reason():
    assert not list(rewards.answer_leak(EnvUnderTest(f"{ENVIRONMENTS}:ExcusedAnswer")))


def test_a_failure_lists_every_fault_of_every_check():
    with pytest.raises(CheckFailure) as error_info:
        check_env(f"{ENVIRONMENTS}:PaysSilence", tasks=1)
    text = str(error_info.value)
    assert "noop_and_junk: task test/0: no-op earns" in text and "oracle: task test/0" in text
    assert isinstance(error_info.value, AssertionError)


@pytest.mark.parametrize(("tasks", "games"), [(None, 30), (30, 30), (3, 21), (1, 20)])
def test_an_oracle_is_compared_with_random_replies_in_twenty_games_or_more(tasks, games):
    (fault,) = rewards.oracle(EnvUnderTest(f"{ENVIRONMENTS}:LosingOracle", tasks=tasks))
    assert fault == f"the oracle earns 0 in {games} games, random replies {games}"


def test_a_single_lucky_reply_is_not_taken_for_chance_that_pays():
    assert not list(rewards.random_floor(EnvUnderTest("games/Shapes-v0", tasks=1)))


def test_an_environment_that_cannot_be_made_fails_at_once():
    with pytest.raises(
        CheckFailure, match="construction: NotImplementedError: Unfinished must define tasks"
    ) as error_info:
        check_env(f"{ENVIRONMENTS}:Unfinished")
    assert len(error_info.value.results) == 1


def test_the_documented_example_is_short_and_passes(tmp_path, monkeypatch):
    page = (DOCS / "add_an_env.md").read_text()
    example = re.search(r"```python\n(from envs.*?)```", page, re.DOTALL)[1]
    source = example.split("class Reverse", 1)[1]
    assert len([line for line in source.splitlines() if line.strip()]) <= 20
    monkeypatch.chdir(tmp_path)
    Path("reverse.py").write_text(example)
    check_env("reverse.py:Reverse")


def test_the_documented_info_keys_are_those_of_step_info():
    page = (DOCS / "add_an_env.md").read_text().split("## What `info` holds", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)` \| `([^`]+)` \| ([^|]+) \|", page, re.MULTILINE)
    assert {key: type for key, type, _ in rows} == {
        key: reference.__forward_arg__ for key, reference in StepInfo.__annotations__.items()
    }
    present = {"reset": RESET_KEYS, "every step": STEP_KEYS, "last step": FINAL_KEYS}
    for moment, keys in present.items():
        assert {key for key, _, moments in rows if moment in moments.split(", ")} == set(keys)


def test_the_checks_know_every_key_that_our_environments_fill():
    assert (
        set(contract.INFO_TYPES)
        == {*RESET_KEYS, *STEP_KEYS, *FINAL_KEYS}
        == StepInfo.__annotations__.keys()
        - {
            "error",
            "instead",
        }
    )


def test_the_list_of_environments_is_the_table():
    assert {row.id for row in ROWS} <= {row.id for row in envs.entries()}
