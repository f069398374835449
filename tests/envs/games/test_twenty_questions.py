"""Twenty questions: a sound ontology, truthful answers, bisection in time, one guess."""

from math import log2

import pytest

from envs.games.ontology import ATTRIBUTES, things
from envs.games.twenty_questions import TwentyQuestions
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies


class Animals(TwentyQuestions):
    """One task: the owl among four animals and an axe, a hat, a pea and a fig."""

    def tasks(self, split):
        names = ["fig", "hen", "bee", "hat", "axe", "owl", "pea", "cat"]
        return [Task(f"{split}/0", answer="owl", metadata={"things": names})]


def test_every_two_things_differ_and_every_attribute_tells_some_apart():
    ontology = things()
    assert 64 <= len(ontology) <= 128 and 15 <= len(ATTRIBUTES) <= 25
    assert len(set(ontology.values())) == len(ontology)
    for attribute in ATTRIBUTES:
        assert 0 < sum(attribute in has for has in ontology.values()) < len(ontology)
    assert set().union(*ontology.values()) == set(ATTRIBUTES)
    assert not set(ontology) & set(ATTRIBUTES)


@pytest.mark.parametrize(
    "special, general",
    [("mammal", "animal"), ("bird", "animal"), ("insect", "animal"), ("bird", "wings"), ("mammal bird", "")],
)
def test_what_is_true_of_a_thing_follows_from_what_it_is(special, general):
    for name, has in things().items():
        if set(special.split()) <= has:
            assert general and general in has, name


def test_things_of_the_smallest_world_have_short_names():
    assert all(len(name) <= 4 for name in list(things())[:16])


def test_answers_are_truthful_and_name_what_is_left():
    env = Animals(style="short")
    opening, info = env.reset()
    assert opening[0]["content"] == "fig hen bee hat axe owl pea cat" and info["answer"] == "owl"
    turn = env.step("Is it an animal?")
    assert obs_text(turn) == "yes hen bee owl cat"
    assert turn[4]["metrics"] == {"left": 4.0, "bits": 1.0} and turn[4]["state"] == "hen bee owl cat 4"
    assert obs_text(env.step("fur")) == "no hen bee owl"
    assert obs_text(env.step("fur")) == "no hen bee owl"
    assert obs_text(env.step("farm")) == "no owl"
    assert is_won([env.step("owl")])


def test_without_reminding_only_the_answer_is_told():
    env = Animals(style="short", remind=False)
    assert obs_text(play_replies(env, ["animal"])[0]) == "yes"
    assert obs_text(env.step("what?")) == "! fig hen bee hat axe owl pea cat"


def test_the_only_guess_ends_the_episode():
    turns = play_replies(Animals(style="short"), ["animal", "a hen"])
    assert [turn[1] for turn in turns] == [0.0, 0.0]
    assert turns[-1][2] and not turns[-1][4]["success"] and turns[-1][4]["stop"] == "terminated"
    assert is_won(play_replies(Animals(style="short"), ["Is it the owl?"]))


@pytest.mark.parametrize("reply", ["", "dog", "animal or bird", "owl hen", "truck", "owls"])
def test_a_reply_without_one_question_or_guess_is_invalid_and_costs_a_turn(reply):
    env = Animals(style="short")
    turn = play_replies(env, [reply])[0]
    assert obs_text(turn) == "! fig hen bee hat axe owl pea cat" and not turn[4]["valid"] and not turn[2]
    assert turn[4]["metrics"] == {"left": 8.0, "bits": 0.0} and env.turns == 1


@pytest.mark.parametrize("arguments", [{}, {"things": 106, "size": 53}, {"things": 30, "size": 4, "spare": 0}])
def test_bisection_knows_every_thing_in_time(arguments):
    env = TwentyQuestions(style="short", **arguments)
    for index in range(60):
        turns = play_oracle(env, index)
        assert is_won(turns)
        assert sum(turn[4]["metrics"]["bits"] for turn in turns) == pytest.approx(log2(env.size))


def test_the_oracle_goes_on_from_what_others_asked():
    env = Animals(style="short")
    play_replies(env, ["animal", "legs"])
    assert is_won(step_replies(env, env.oracle()))


def test_no_choice_of_things_is_asked_for_the_same_thing_in_two_splits():
    env = TwentyQuestions(style="short")
    problems = {
        split: [(*task.metadata["things"], task.answer) for task in env.load(split)[:800]]
        for split in ("train", "val", "test")
    }
    assert len(set(problems["test"])) == 200 and len(set(problems["val"])) == 100
    assert not set(problems["train"]) & set(problems["test"]) and not set(problems["val"]) & set(problems["test"])


def test_chance_seldom_wins():
    assert random_win_rate(TwentyQuestions(style="short"), 150) < 0.15


@pytest.mark.parametrize("arguments", [{"things": 15}, {"things": 107}, {"size": 9}, {"size": 3}, {"spare": -1}])
def test_impossible_arguments_are_named(arguments):
    name, value = next(iter(arguments.items()))
    with pytest.raises(ValueError, match=f"{name} {value} is outside"):
        TwentyQuestions(style="short", **arguments)


def test_the_rules_explain_every_attribute():
    rules = TwentyQuestions(style="v1").reset(seed=0)[0][0]["content"]
    assert all(f"{name} ({meaning})" in rules for name, meaning in ATTRIBUTES.items())
