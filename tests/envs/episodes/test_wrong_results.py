"""What a first environment returns by mistake is an error that names it, and no result that looks right."""

import json
import re
import sys
from importlib import import_module

import gymnasium
import numpy as np
import pytest

from envs import make, register
from envs.checks import contract, isolation, rewards, run
from envs.checks.env_under_test import EnvUnderTest, held_out_split
from envs.data import MissingData
from envs.env import Env
from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.types import Outcome, Task, assistant, user
from tests.support.environments import Echo


class Slips(Echo):
    """Returns `fields` in its outcomes."""

    max_turns = 1

    def __init__(self, fields, **limits):
        super().__init__(**limits)
        self.fields = fields

    def reply(self, action):
        return Outcome(**{"reward": 1.0, "terminated": True, "success": True} | self.fields)


class ChangesTask(Echo):
    """Writes into the metadata of its task, which all episodes share."""

    def reply(self, action):
        self.task.metadata["seen"] = self.turns
        return super().reply(action)


class ListsVotes(Echo):
    """Votes with a list."""

    def vote(self, action):
        return [action["content"]]


class VotesForTheAnswer(Echo):
    """Votes by whether the reply is right."""

    def vote(self, action):
        return action["content"] == self.task.answer


class VotesByTask(Echo):
    """Votes for the reply to its own task alone."""

    task = None

    def vote(self, action):
        return (action["content"], self.task and self.task.id)


class OnlyTrains(Echo):
    """Has a list of tasks for training only."""

    def tasks(self, split):
        return super().tasks(split) if split == "train" else []


class Fails(Echo):
    """Has a bug."""

    def reply(self, action):
        return {}["answr"]


class ReturnsOracle(Echo):
    """Returns a reply where it should yield one."""

    def oracle(self):
        return assistant(self.task.answer)


class OneState(Echo):
    """Says that all situations are the same."""

    def state(self):
        return "somewhere"


class SlowState(Echo):
    """Has one state per task."""

    def reply(self, action):
        outcome = super().reply(action)
        outcome.messages = (user(f"again {self.turns}"),)
        return outcome

    def state(self):
        return self.task.id


class Pass(MultiEnv):
    """Two seats that reply in turn."""

    seats = ("first", "second")

    def tasks(self, split):
        return [Task("", (user("go"),))]


class NoSuper(Echo):
    """Forgets the constructor of `Env`."""

    def __init__(self, digits=3):
        self.digits = digits


class NoLimits(Echo):
    """Has a constructor that passes nothing on."""

    def __init__(self):
        super().__init__()


@pytest.mark.parametrize(
    "fields, word",
    [
        ({"reward": "0.5"}, r"Outcome\.reward must be a number, not the str '0.5'"),
        ({"reward": None}, r"Outcome\.reward must be a number, not None"),
        ({"reward": np.zeros(2)}, r"Outcome\.reward must be a number, not a value of type ndarray"),
        ({"reward": float("nan")}, r"Outcome\.reward is nan, not a finite number"),
        ({"reward": object()}, r"Outcome\.reward must be a number, not a value of type object$"),
        ({"rewards": {"form": "good"}}, r"Outcome\.rewards\['form'\] must be a number, not the str 'good'"),
        ({"rewards": {"form": float("nan")}}, r"Outcome\.rewards\['form'\] is nan"),
        ({"rewards": [1.0]}, r"Outcome\.rewards must be a dict of numbers"),
        ({"rewards": {1: 1.0}}, r"Outcome\.rewards has the name the int 1"),
        ({"metrics": None}, r"Outcome\.metrics must be a dict of numbers"),
        ({"terminated": "no"}, r"Outcome\.terminated must be True or False, not the str 'no'"),
        ({"success": "wrong"}, r"Outcome\.success must be True or False, not the str 'wrong'"),
        ({"success": None}, r"Outcome\.success must be True or False, not None"),
        ({"valid": "no"}, r"Outcome\.valid must be True or False"),
        ({"messages": "well done"}, r"Outcome\.messages must be a tuple of messages"),
        ({"messages": user("a")}, r"Outcome\.messages must be a tuple of messages.* not a single message"),
        ({"messages": ["well done"]}, r"the str 'well done' is none"),
        ({"messages": [{"content": "a"}]}, r"Outcome\.messages: role None is not one of system, user"),
        ({"messages": [{"role": "user"}]}, r"Outcome\.messages: content is neither a str nor a list"),
        ({"messages": None}, r"Outcome\.messages must be a tuple of messages.* not None"),
    ],
)
def test_a_field_of_an_outcome_with_another_type_is_named(fields, word):
    env = Slips(fields)
    env.reset(seed=0)
    with pytest.raises((TypeError, ValueError), match=word):
        env.step("x")


@pytest.mark.parametrize("one", [np.True_, 1, True, np.float32(1), np.int64(1)])
def test_numbers_of_other_libraries_are_read(one):
    env = Slips({"reward": one, "success": bool(one), "messages": [user("bye")]})
    env.reset(seed=0)
    messages, reward, *_, info = env.step("x")
    assert (messages, reward, type(reward), info["success"]) == ((user("bye"),), 1.0, float, True)


@pytest.mark.parametrize(
    "value, word",
    [
        ([{"prompt": "a"}], "entry 0 is a dict, not an envs.types.Task"),
        ({"a": Task("a")}, "must return a sequence, such as a list, not dict"),
        ("abc", "must return a sequence, such as a list, not str"),
        ([Task("test/0"), Task("test/0")], "tasks 0 and 1 have the same id 'test/0'"),
        ([Task(7)], "task 0 has the id 7, which must be a str such as 'test/0'"),
    ],
)
def test_tasks_of_another_kind_are_named(value, word):
    class Wrong(Echo):
        def tasks(self, split):
            return value

    with pytest.raises(ValueError, match=r"Wrong: tasks\('test'\)") as caught:
        Wrong().load("test")
    assert word in str(caught.value)


def test_a_list_of_tasks_without_ids_is_numbered():
    class Plain(Echo):
        def tasks(self, split):
            return [Task("", task.prompt, task.answer) for task in super().tasks(split)]

    assert [task.id for task in Plain().load("val")] == ["val/0", "val/1", "val/2"]


@pytest.mark.parametrize(
    "fail, text",
    [
        ({}.pop, "KeyError: 'test'"),
        (int, "ValueError: invalid literal for int"),
        (open, "FileNotFoundError: .* 'test'"),
        (import_module, "ModuleNotFoundError: import of test halted"),
        (json.loads, "JSONDecodeError: Expecting value"),
    ],
)
def test_an_error_in_tasks_is_one_line_with_its_place(fail, text, monkeypatch):
    monkeypatch.setitem(sys.modules, "test", None)

    class Broken(Echo):
        def tasks(self, split):
            return fail(split)

    with pytest.raises(ValueError, match=rf"Broken: tasks\('test'\): {__file__}, line \d+: {text}"):
        Broken().load("test")


@pytest.mark.parametrize("error", [ValueError("level must be 1 to 3"), MissingData("put rows.jsonl there")])
def test_an_error_that_tasks_raises_itself_keeps_its_text(error):
    class Strict(Echo):
        def tasks(self, split):
            raise error

    with pytest.raises(type(error), match=rf"^{error}$"):
        Strict().load("test")


def test_tasks_with_another_signature_are_named_without_a_place_in_other_code():
    class Short(Echo):
        def tasks(self):
            return []

    with pytest.raises(ValueError, match=r"^Short: tasks\('test'\): TypeError: .*Short\.tasks\(\) takes 1 positional"):
        Short().load("test")


def test_tasks_as_an_attribute_are_named():
    class Listed(Echo):  # a class of its own: the tasks of one are created once per process
        pass

    env = Listed()
    env.tasks = []
    with pytest.raises(ValueError, match="tasks is a list and must be a method"):
        env.load("test")


def test_a_constructor_without_super_is_named():
    with pytest.raises(ValueError, match=r"NoSuper\.__init__ must call super\(\)\.__init__\(\*\*limits\)"):
        NoSuper().reset(seed=0)
    with pytest.raises(ValueError, match=r"NoSuper\.__init__ must call super"):  # the doctor says this alone
        list(run(EnvUnderTest(f"{__name__}:NoSuper", {}, 1)))


def test_limits_of_another_type_are_named():
    class Half(Echo):
        max_turns = 2.5

    for construct in (Half, lambda: Echo(max_turns=2.5)):
        with pytest.raises(ValueError, match=r"max_turns must be a whole number, not the float 2\.5"):
            construct()


def test_functions_as_tools_are_named():
    class Functions(Echo):
        tools = (len,)

    with pytest.raises(TypeError, match=r"in tools is no OpenAI function schema; envs\.tools\.tool_env\.ToolEnv makes"):
        Functions().reset(seed=0)


@pytest.mark.parametrize(
    "functions, words",
    [
        (({"name": "look"}, {"name": "look"}), "'look' is the name of two"),
        (({"name": "look up!"},), "'look up!' has white space or is empty"),
        (({"name": ""},), "'' has white space or is empty"),
        (({"name": "look", "parameters": "x"},), "parameters of 'look' must be a JSON schema"),
    ],
)
def test_tools_that_no_model_could_call_are_named(functions, words):
    class Wrong(Echo):
        tools = tuple({"type": "function", "function": function} for function in functions)

    with pytest.raises((TypeError, ValueError), match=re.escape(words)):
        Wrong().reset(seed=0)


def test_a_seed_that_is_a_truth_value_draws_one_task():
    env, drawn = Echo(), set()
    for other in range(8):
        env.reset(seed=other)
        drawn.add(env.reset(seed=True)[1]["task"])
    assert len(drawn) == 1


@pytest.mark.parametrize(
    "name, check, word",
    [
        (ChangesTask, contract.fresh_objects, "playing changes task test/0"),
        (ListsVotes, rewards.votes, "is a list, which cannot be counted"),
        (VotesForTheAnswer, rewards.votes, "before any reset raises AttributeError"),
        (VotesByTask, rewards.votes, "before any reset; it may read the reply alone"),
        (OneState, isolation.states, "have other openings and the same state 'somewhere'"),
        (SlowState, isolation.states, "in all 2 turns of the oracle"),
        (
            NoLimits,
            contract.limits,
            "NoLimits does not take 'max_turns', which every environment does; let __init__ take",
        ),
        (ReturnsOracle, rewards.oracle, "oracle() must yield replies, not return a dict"),
    ],
)
def test_the_doctor_names(name, check, word):
    under_test = EnvUnderTest(f"{__name__}:{name.__name__}")
    try:
        faults = list(check(under_test))
    except ValueError as error:
        faults = [str(error)]
    assert any(word in fault for fault in faults), faults


def test_the_doctor_plays_another_split_than_an_empty_one():
    assert held_out_split(OnlyTrains()) == "train"
    results = [result for result in run(EnvUnderTest(f"{__name__}:OnlyTrains", {}, 1)) if result.faults]
    assert [result.name for result in results] == ["splits"]
    assert "split 'test' is empty; raise envs.data.MissingData" in "\n".join(results[0].faults)


def test_the_doctor_says_where_a_bug_is_and_that_it_is_the_same():
    faults = [fault for result in run(EnvUnderTest(f"{__name__}:Fails", {}, 1)) for fault in result.faults]
    assert faults[0].startswith(f"KeyError: 'answr' ({__file__}, line ")
    assert faults[1] == f"as in gymnasium_check: {faults[0]}"


@pytest.mark.parametrize(
    "outcome, word",
    [
        (Round({"zoe": (user("a"),)}), "unknown seat 'zoe' in Round.messages"),
        (Round({}, {"firts": 1.0}), "unknown seat 'firts' in Round.rewards; did you mean 'first'?"),
        (Round({}, success={"firts": True}), "unknown seat 'firts' in Round.success"),
        (Round({}, {"first": "1"}), "Round.rewards['first'] must be a number"),
        (Round({}, success={"first": "no"}), "Round.success['first'] must be True or False"),
        (Round({}, 1.0), "Round.rewards must be a dict by seat, not 1.0"),
        (Round({}, to_move="first"), "Round.to_move must be a tuple of seats, not 'first'; write ('first',)"),
        (Round({"first": "go on"}, to_move=("first",)), "Round.messages['first'] must be a tuple of messages"),
        ({"first": 1.0}, "must return a Round, not dict"),
    ],
)
def test_a_round_for_a_seat_that_is_not_there_is_named(outcome, word):
    class Wrong(Pass):
        def reply(self, replies):
            return outcome

    game = Wrong()
    game.reset(seed=0)
    with pytest.raises((TypeError, ValueError)) as caught:
        for _ in range(2):
            game.step("x")
    assert word in str(caught.value)


def test_a_game_is_registered_by_its_class_and_needs_its_family_by_name():
    register("multi/OwnPass-v0", Pass)
    assert gymnasium.make("multi/OwnPass-v0").reset(seed=0)[0] == (user("go"),)
    register("games/OwnPass-v0", f"{__name__}:Pass")
    with pytest.raises(ValueError, match="is a game of several seats, whose id must begin with 'multi/'"):
        make("games/OwnPass-v0")


def test_the_base_class_is_no_environment_yet():
    with pytest.raises(NotImplementedError, match="must define tasks"):
        Env().load("test")


@pytest.mark.parametrize("content", [{"a": 1}, 5, ["text"]])
def test_a_content_that_is_neither_text_nor_blocks_is_named(content):
    env = Slips({"messages": (user(content),), "terminated": False})
    env.reset(seed=0)
    with pytest.raises(
        TypeError, match=r"Outcome\.messages: content (is neither a str nor a list of content blocks but|has a block)"
    ):
        env.step(assistant("x"))
