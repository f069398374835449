"""Recall: one value of the table counts, however it is written; naming several, or one with more signs, does not."""

from __future__ import annotations

import pytest

import envs
from envs.types import assistant

TABLE = [["AB12", "kvarq"], ["907", "W7"], ["mivlo", "4091"]]


def graded(reply: str, query: str = "AB12") -> tuple[float, bool, float]:
    """Reward and validity of a reply to a question about `TABLE`."""
    env = envs.make("games/Recall-v0", pairs=3)
    env.reset(seed=0)
    task = env.unwrapped.task
    task.metadata.update(table=TABLE, query=query)
    object.__setattr__(task, "answer", dict(TABLE)[query])
    _, reward, _, _, info = env.step(assistant(reply))
    return float(reward), info["valid"], info["metrics"]["right"]


@pytest.mark.parametrize(
    "reply",
    [
        *("kvarq", "KVARQ", "`kvarq`", "The value of AB12 is kvarq.", "AB12: kvarq", "Let me see.\n**kvarq**"),
        *("__kvarq__", "AB12=kvarq", "- kvarq", '{"value": "kvarq"}', r"\boxed{kvarq}"),
    ],
)
def test_the_value_counts_however_it_is_written(reply):
    assert graded(reply) == (1.0, True, 1.0)


@pytest.mark.parametrize(
    "reply",
    [
        *("kvarq W7", "kvarq or 4091", "kvarqq", "not kvarq", "kvarq 4091 W7", "AB12"),
        *("kvarq-zzz", "zzz.kvarq", "-kvarq", "kvarq/7", "kvarq.5"),
    ],
)
def test_other_signs_beside_the_value_earn_nothing(reply):
    assert graded(reply)[0] == 0


def test_a_value_that_the_table_does_not_have_is_a_valid_wrong_reply():
    """While a model learns to copy it writes such values, and hears that they are wrong and not that they are none."""
    assert graded("kvarx") == graded("W7") == (0.0, True, 0.0)
    assert not graded("I do not know.")[1]
    assert not graded("")[1]


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"kind": "any"}, "kind 'any'"),
        ({"kind": "repeat", "pairs": 91}, "pairs 91: of kind='repeat' with longest=8, 90 names are the most"),
        ({"pairs": 0}, "pairs 0"),
        ({"pairs": 4, "fewest": 5}, "fewest 5"),
        ({"longest": 3}, "longest 3"),
    ],
)
def test_arguments_outside_their_range_are_refused(arguments, error):
    with pytest.raises(ValueError, match=error):
        envs.make("games/Recall-v0", **arguments)


def test_tables_have_as_many_pairs_as_asked_and_no_name_twice():
    env = envs.make("games/Recall-v0", pairs=5, fewest=2, longest=4).unwrapped
    tables = [task.metadata["table"] for task in env.load("test")[:100]]
    assert {len(table) for table in tables} == {2, 3, 4, 5}
    for table in tables:
        names = [name.lower() for pair in table for name in pair]
        assert len(set(names)) == len(names) and max(map(len, names)) <= 4
        assert all(len(name) >= 4 or not name.isalpha() for name in names)  # none is a word such as "is"


@pytest.mark.parametrize(("pairs", "longest"), [(90, 8), (142, 4), (28, 32)])
def test_as_many_names_as_are_allowed_can_be_repeated(pairs, longest):
    env = envs.make("games/Recall-v0", kind="repeat", pairs=pairs, longest=longest)
    env.reset(seed=0)
    assert env.step(next(env.unwrapped.oracle()))[1] == 1


def test_no_names_to_repeat_are_in_two_splits():
    env = envs.make("games/Recall-v0", kind="repeat", pairs=1, longest=4).unwrapped
    names = {split: {task.answer for task in env.load(split)[:2000]} for split in ("train", "val", "test")}
    assert not names["train"] & names["test"] and not names["train"] & names["val"] and not names["val"] & names["test"]


def test_a_thousand_pairs_fit_into_the_shortest_names():
    env = envs.make("games/Recall-v0", pairs=1000, longest=4)
    env.reset(seed=0)
    assert env.step(next(env.unwrapped.oracle()))[1] == 1


def graded_names(reply: str) -> tuple[float, float]:
    """Reward and share of right names of a reply to `kvarq, W7, 4091`."""
    env = envs.make("games/Recall-v0", kind="repeat", pairs=3)
    env.reset(seed=0)
    task = env.unwrapped.task
    task.metadata.update(table=TABLE)
    object.__setattr__(task, "answer", "kvarq, W7, 4091")
    _, reward, _, _, info = env.step(assistant(reply))
    return float(reward), info["metrics"]["right"]


@pytest.mark.parametrize(
    "reply",
    [
        *("kvarq W7 4091", "kvarq, W7, 4091", "The names: `kvarq` `W7` `4091`.", "They are three.\nkvarq | W7; 4091"),
        *(
            "**Answer:** kvarq W7 4091",
            "Answer:kvarq, W7 and 4091",
            "The names are kvarq, W7, 4091.",
            "- kvarq W7 4091",
        ),
        *("<answer>kvarq W7 4091</answer>", r"\boxed{kvarq, W7, 4091}", '["kvarq", "W7", "4091"]'),
        '{"names": "kvarq W7 4091"}',
    ],
)
def test_all_names_in_their_order_count(reply):
    assert graded_names(reply) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("reply", "share"),
    [
        ("repeat kvarq, W7, 4091", 0),  # an echo
        ("kvarq W7", 2 / 3),
        ("These are wrong: kvarq W7 4091", 0),
        ("not: kvarq W7 4091", 0),
        ("W7 W7: kvarq W7 4091", 1 / 3),
        ("kvarqé W7 4091", 2 / 3),
        ("kvarq w7 4091", 2 / 3),  # capitals count
        ("W7 kvarq 4091", 1 / 3),
        ("kvarq W7 4091 4091", 1),
        ("", 0),
    ],
)
def test_a_name_that_is_wrong_or_in_another_place_earns_nothing(reply, share):
    assert graded_names(reply) == (0.0, pytest.approx(share))
