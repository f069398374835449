"""Search: questions over a wiki, in text and by tool calls; its rewards, metrics and states."""

import re

import pytest

from envs.checks import contract, rewards
from envs.checks.env_under_test import EnvUnderTest
from envs.tools import wiki
from envs.tools.search import Search
from envs.tools.wiki_actions import TOOLS, WikiAction, action_as_call
from envs.types import Task
from tests.support.games import is_won, obs_text, play_oracle, play_replies, random_win_rate, step_replies

WIKI = """\
Bel: old cook rival Kan home Tor
Kan: old monk rival Sor home Dum
Sor: sad cook rival Bel home Lin
Tor: pale port lord Bel river Zal
Vin: sad song maker Kan scene Tor
Dum: pale fort lord Sor river Gam"""


class OneWiki(Search):
    def tasks(self, split):
        return [Task(f"{split}/0", answer="Dum", metadata={"wiki": WIKI, "way": [["Bel", "rival"], ["Kan", "home"]]})]


def start(**arguments):
    env = OneWiki(**{"style": "short", **arguments})
    return env, *env.reset(seed=0)


def metric(turns, key):
    return [turn[4]["metrics"][key] for turn in turns]


def test_a_question_is_answered_by_a_search_two_pages_and_a_name():
    env, opening, info = start()
    assert opening == ({"role": "user", "content": "old cook: rival home?"},)
    assert info["answer"] == "Dum" and info["tools"] == []
    turns = step_replies(env, ["s old cook", "r Bel", "r Kan", "Dum"])
    assert [obs_text(turn) for turn in turns] == ["Bel Kan Sor", "old cook rival Kan home Tor",
                                              "old monk rival Sor home Dum", ""]  # fmt: skip
    assert is_won(turns) and turns[-1][4]["rewards"] == {"answer": 1.0}


@pytest.mark.parametrize("answer", ["dum", "answer Dum", "**Dum**", "The answer is Dum.", "<answer>Dum</answer>"])
def test_an_answer_is_accepted_in_several_forms(answer):
    assert is_won(play_replies(OneWiki(style="short"), [answer]))


@pytest.mark.parametrize("answer", ["Tor", "Dum Tor", "not Dum", "Dum or Tor", "answer Tor, Dum", "Du", "none"])
def test_a_wrong_answer_ends_the_episode_and_earns_nothing(answer):
    turns = play_replies(OneWiki(style="short"), [answer])
    assert turns[0][1:3] == (0.0, True) and not turns[0][4]["success"] and turns[0][4]["valid"]


def test_the_same_actions_can_be_taken_by_tool_calls():
    env, _, info = start(style="full")
    assert info["tools"] == list(TOOLS)
    actions = [
        WikiAction("search", "old cook"),
        WikiAction("read", "bel"),
        WikiAction("read", "Kan"),
        WikiAction("answer", "Dum"),
    ]
    turns = step_replies(env, [action_as_call(action, number) for number, action in enumerate(actions)])
    (answer,) = turns[1][0]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "call00001") and "The rival of Bel is Kan." in answer[
        "content"
    ]
    assert is_won(turns) and metric(turns, "coverage") == [0.5, 0.75, 1.0, 1.0]


def test_a_text_is_understood_where_tools_are_offered_and_calls_where_they_are_not():
    assert "The rival of Bel is Kan." in obs_text(play_replies(OneWiki(style="full"), ["r Bel"])[0])
    assert (
        obs_text(play_replies(OneWiki(style="short"), [action_as_call(WikiAction("read", "Bel"), 0)])[0])
        == "old cook rival Kan home Tor"
    )


def test_the_first_of_several_calls_is_carried_out_and_each_is_answered():
    reply = action_as_call(WikiAction("read", "Bel"), 0)
    reply["tool_calls"] += action_as_call(WikiAction("answer", "Dum"), 1)["tool_calls"]
    turn = play_replies(OneWiki(style="short"), [reply])[0]
    assert [message["tool_call_id"] for message in turn[0]] == ["call00000", "call00001"]
    assert obs_text(turn) == "old cook rival Kan home Tor\nerror: one call a turn"
    assert not turn[2] and turn[4]["valid"] and turn[4]["metrics"]["invalid"] == 1


def test_a_reply_without_an_action_costs_a_turn_and_is_counted():
    env, _, info = start(max_turns=3)
    turns = step_replies(env, ["", "s", "r Bel"])
    assert [obs_text(turn) for turn in turns] == ["?", "?", "old cook rival Kan home Tor"]
    assert [turn[4]["valid"] for turn in turns] == [False, False, True] and metric(turns, "invalid") == [1, 2, 2]
    assert turns[0][4]["state"] != info["state"] and turns[-1][4]["stop"] == "turn_limit"


def test_a_wrong_call_is_answered_with_the_reason():
    reply = action_as_call(WikiAction("read", "Bel"), 0)
    reply["tool_calls"][0]["function"]["name"] = "open"
    turn = play_replies(OneWiki(style="short"), [reply])[0]
    assert obs_text(turn) == "error: unknown tool 'open'; there are: answer, read, search" and not turn[4]["valid"]


def test_a_search_without_a_match_is_a_valid_reply():
    turns = play_replies(OneWiki(style="short"), ["s xyzzy", "r Lin", "r Xyz"])
    assert [obs_text(turn) for turn in turns] == ["none"] * 3 and all(turn[4]["valid"] for turn in turns)
    assert metric(turns, "gain") == metric(turns, "redundancy") == [0.0] * 3


def test_a_page_that_is_needed_gains_half_when_listed_and_the_rest_when_read():
    turns = play_replies(OneWiki(style="short"), ["s old cook", "r Bel", "r Sor", "r Kan", "r Kan"])
    assert metric(turns, "gain") == [0.5, 0.25, 0.0, 0.25, 0.0]  # both pages have one of the words
    assert metric(turns, "coverage") == [0.5, 0.75, 0.75, 1.0, 1.0]
    assert metric(turns, "redundancy") == [0.0, 0.0, 0.0, 0.0, 1.0]


def test_redundancy_is_the_share_of_pages_that_were_shown_as_fully_before():
    turns = play_replies(OneWiki(style="short", found=2), ["r Bel", "s old cook", "s sad", "s old cook", "s cook"])
    # Bel, read, is listed again with Kan; Sor and Vin are new; then both again; then Bel and Sor, both known
    assert metric(turns, "redundancy") == [0.0, 0.5, 0.0, 1.0, 1.0]
    assert metric(turns, "gain") == [0.5, 0.25, 0.0, 0.0, 0.0]


def test_gains_of_any_episode_add_up_to_the_coverage():
    env = Search(style="short", hops=3, pages=12)
    for index in range(40):
        turns = play_replies(env, _random_replies(env), index=index, split="test")
        assert (
            sum(metric(turns, "gain")) == pytest.approx(metric(turns, "coverage")[-1])
            and min(metric(turns, "gain")) >= 0
        )


def _random_replies(env):
    while True:
        yield env.random(env.np_random)


def test_the_state_is_the_pages_shown_and_the_turns_left():
    env, _, info = start()
    assert info["state"] == "train/0 read - listed - left 5"
    turns = step_replies(env, ["s old cook", "r Kan", "r Bel"])
    assert turns[-1][4]["state"] == "train/0 read Bel,Kan listed Sor left 2"
    other = play_replies(OneWiki(style="short"), ["r Bel", "r Kan", "s cook old"])
    assert other[-1][4]["state"] == turns[-1][4]["state"]


def test_members_of_a_group_meet_the_same_states():
    env = Search(style="short")
    plays = [
        play_replies(env, _oracle_with_one_random_reply(env, seed), seed=seed, split="test", index=3)
        for seed in range(8)
    ]
    states = [turn[4]["state"] for turns in plays for turn in turns[:-1]]
    assert len(set(states)) < len(states) and all(state.startswith("test/3 ") for state in states)


def _oracle_with_one_random_reply(env, seed):
    """The oracle's replies, one of them replaced by a random one."""
    for number, reply in enumerate(env.oracle()):
        yield env.random(env.np_random) if number == seed % 4 else reply


def test_prose_asks_in_sentences_after_the_rules():
    env, opening, _ = start(style="v1")
    assert [message["role"] for message in opening] == ["system", "user"] and "`read TITLE`" in opening[0]["content"]
    assert opening[1]["content"] == "What is the home of the rival of the old cook?"
    turns = step_replies(env, ["search: old cook", "read Bel", "read Nobody", "hm\nhm"])
    assert obs_text(turns[0]).splitlines()[0] == "- Bel: Bel is an old cook."
    assert "The rival of Bel is Kan." in obs_text(turns[1]) and 200 < len(obs_text(turns[1])) < 500
    assert obs_text(turns[2]) == "There is no page of this title." and obs_text(turns[3]).startswith("error: ")


@pytest.mark.parametrize(
    "arguments, max_turns",
    [({}, 5), ({"hops": 1}, 4), ({"hops": 3, "fewest": 3, "pages": 20}, 6), ({"style": "full"}, 5)],
)
def test_the_oracle_wins_every_test_task_and_reads_only_titles_shown_to_it(arguments, max_turns):
    env = Search(**{"style": "short", **arguments})
    assert env.max_turns == max_turns
    for index in range(len(env.load("test"))):
        turns = play_oracle(env, index)
        assert is_won(turns) and turns[-1][4]["metrics"] == {"gain": 0, "redundancy": 0, "coverage": 1, "invalid": 0}
        assert len(turns) == len(env.task.metadata["way"]) + 2 < max_turns + 1
        page_text = ""
        for message in env.dialogue:
            if message["role"] != "assistant":
                page_text += f" {message['content']}"
                continue
            function = message.get("tool_calls", [{}])[0].get("function")
            reply = function["arguments"] if function else message["content"]
            assert all(word in page_text for word in re.findall(r"[A-Z]\w+", reply))


def test_the_oracle_continues_from_any_state():
    for replies in (["s xyzzy"], ["r Kan"], ["s sad cook", "r Sor"]):
        env = OneWiki(style="short", spare=3)
        play_replies(env, replies)
        assert is_won(step_replies(env, env.oracle()))


def test_hops_are_drawn_evenly_between_the_two_bounds():
    lengths = [len(task.metadata["way"]) for task in Search(style="short", hops=3).load("test")]
    assert set(lengths) == {1, 2, 3} and all(40 <= lengths.count(hops) <= 95 for hops in (1, 2, 3))
    assert {len(task.metadata["way"]) for task in Search(style="short", hops=2, fewest=2).load("test")} == {2}


def test_the_answer_stands_on_the_last_page_of_the_path_and_on_none_before():
    for task in Search(style="short", hops=3).load("test"):
        pages = {page.title: page for page in wiki.pages_from_text(task.metadata["wiki"])}
        *before, (last, relation) = task.metadata["way"]
        assert pages[last].facts[relation] == task.answer
        assert all(task.answer not in f"{pages[title]} {last}" for title, _ in before)


def test_no_wiki_stands_in_two_splits_and_no_question_gives_its_answer_away():
    env = Search(style="short")
    wikis = {split: {task.metadata["wiki"] for task in env.load(split)[:200]} for split in ("train", "val", "test")}
    assert sum(map(len, wikis.values())) == len(set().union(*wikis.values())) == 500
    answers = {}
    for index in range(500):
        opening, info = env.reset(options={"split": "train", "index": index})
        answers.setdefault(opening[0]["content"], set()).add(info["answer"])
    repeats = [names for names in answers.values() if len(names) > 1]
    assert len(repeats) >= 10  # the same question has other answers in other wikis


def test_guessing_without_reading_hardly_ever_wins():
    assert random_win_rate(Search(style="short"), 200) < 0.1
    assert random_win_rate(Search(style="short", hops=2, fewest=2), 200) < 0.05


def test_a_default_episode_is_short_in_bytes():
    env = Search(style="short")
    for index in range(50):
        turns = play_oracle(env, index)
        assert max(len(obs_text(turn)) for turn in turns) <= 36 and sum(len(m["content"]) for m in env.dialogue) < 140


@pytest.mark.parametrize(
    "arguments, word",
    [({"hops": 4}, "hops 4 is outside 1..3"), ({"hops": 1, "fewest": 2}, "fewest 2 is outside 1..1"),
     ({"pages": 5}, "pages 5 is outside 6..100"), ({"found": 0}, "found 0"), ({"spare": -1}, "spare -1"),
     ({"hops": True}, "hops True")],
)  # fmt: skip
def test_arguments_out_of_range_are_refused(arguments, word):
    with pytest.raises(ValueError, match=re.escape(word)):
        Search(style="short", **arguments)


def test_prose_and_tools_keep_the_contract_too():
    arguments = {"style": "full", "hops": 3, "pages": 12}
    for check in (contract.splits, contract.info_keys, rewards.noop_and_junk, rewards.attacks, rewards.answer_leak):
        assert not list(check(EnvUnderTest("tools/Search-v0", arguments)))
