"""The support desk: the oracle, each part of the reward, the customer, traps, hostile replies, forks."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import envs
from envs.checks import contract, isolation, rewards
from envs.checks.env_under_test import EnvUnderTest, oracle_replies, play
from envs.tools.desk.case import Case
from envs.tools.desk.customer import MAX_VALUES, Conversation, RuleCustomer
from envs.tools.support.cases import KINDS, TRAPS, SupportCase, sample_case
from envs.tools.support.support import Support
from envs.tools.support.vocabulary import VOCABULARY
from envs.types import Message, assistant, text

SEEDS = range(400)


def close(outcome: str) -> Message:
    return assistant(tool_calls=[("close_case", {"outcome": outcome})])


@cache
def held_out_cases() -> list[SupportCase]:
    return [sample_case(task.metadata["seed"]) for task in Support().load("test")[:300]]


def find(kind: str, trap: str, **wanted: Any) -> int:
    """The index of a test task with this kind and trap."""
    for index, case in enumerate(held_out_cases()):
        if (case.kind, case.trap) == (kind, trap) and all(bool(getattr(case, k)) == v for k, v in wanted.items()):
            return index
    raise LookupError(f"{kind} {trap}")


@pytest.fixture
def env() -> Iterator[Any]:
    env = envs.make("tools/Support-v0").unwrapped
    yield env
    env.close()


def begin(env: Any, kind: str, trap: str, **wanted: Any) -> list[Message]:
    """Reset to such a case and return the oracle's replies with their results already drawn one by one."""
    env.reset(seed=0, options={"split": "test", "index": find(kind, trap, **wanted)})
    return env.oracle()


def play_but(
    env: Any, replies: Any, skip: Any = lambda reply: False, before_close: tuple[Message | str, ...] = ()
) -> dict[str, Any]:
    """Play the oracle's replies without those that `skip` takes, and `before_close` before the last; the last info."""
    for reply in replies:
        if skip(reply):
            continue
        calls = [call["function"]["name"] for call in reply.get("tool_calls", ())]
        if calls == ["close_case"]:
            for extra in before_close:
                env.step(extra)
        *_, terminated, truncated, info = env.step(reply)
        if terminated or truncated:
            return dict(info)
    raise AssertionError("the episode goes on")


def test_cases_of_every_kind_and_trap_occur_and_are_equal_for_equal_seeds() -> None:
    cases = [sample_case(seed) for seed in SEEDS]
    assert {(case.kind, case.trap) for case in cases} == {(kind, trap) for kind in KINDS for trap in TRAPS[kind]}
    assert sum(case.second is not None for case in cases) > 40
    assert sum(bool(case.order.note or case.item.note) for case in cases) > 40
    assert [sample_case(7).shop.image(), sample_case(7).facts] == [sample_case(7).shop.image(), sample_case(7).facts]


@pytest.mark.parametrize("kind", KINDS)
def test_one_kind_only(kind: str) -> None:
    env = Support(case=kind)  # type: ignore[arg-type]
    assert {task.metadata["case"] for task in env.load("val")} == {kind}
    assert not list(rewards.oracle(EnvUnderTest("tools/Support-v0", {"case": kind}, tasks=8)))


def test_an_unknown_kind_is_named() -> None:
    with pytest.raises(ValueError, match="case 'refund' is not one of any, cancel"):
        Support(case="refund")  # type: ignore[arg-type]


def test_short_style_keeps_the_contract() -> None:
    under_test = EnvUnderTest("tools/Support-v0", {"style": "short"}, tasks=10)
    parts = (contract.info_keys, contract.limits, rewards.oracle, rewards.thinking_aloud, rewards.noop_and_junk)
    for check in (*parts, rewards.attacks, rewards.random_floor, isolation.determinism, isolation.pickling):
        assert not list(check(under_test))


def test_the_reward_is_the_product_of_its_named_parts(env: Any) -> None:
    replies = begin(env, "return", "none", second=False)
    info = play_but(env, replies)
    assert info["rewards"] == {"state": 1.0, "facts": 1.0, "policy": 1.0} and info["success"]


def test_a_change_without_a_yes_is_forbidden(env: Any) -> None:
    replies = begin(env, "late", "none", second=False)
    for reply in replies:
        if "confirm" in text(reply):
            break
        env.step(reply)
    ((name, arguments),) = env.case.writes
    env.step(assistant(tool_calls=[(name, arguments)]))
    env.step(f"Your store credit is now {env.case.facts[0][1]}.")
    _, reward, terminated, _, info = env.step(close("solved"))
    assert (reward, terminated) == (0.0, True) and not info["success"]
    assert info["rewards"] == {"state": 1.0, "facts": 1.0, "policy": 0.0}


def test_a_wrong_change_counts_even_if_the_right_one_follows(env: Any) -> None:
    replies = begin(env, "address", "none", second=False)
    wrong = {**begin_write(env), "street": "1 Wrong Road"}
    steps = iter(replies)
    for reply in steps:
        if reply.get("tool_calls") and reply["tool_calls"][0]["function"]["name"] == "change_address":
            env.step(assistant(tool_calls=[("change_address", wrong)]))
        *_, terminated, _, info = env.step(reply)
        if terminated:
            break
    assert info["rewards"] == {"state": 1.0, "facts": 1.0, "policy": 0.0}


def begin_write(env: Any) -> dict[str, Any]:
    return dict(env.case.writes[0][1])


def test_a_fact_that_is_not_told_or_only_guessed_among_many_does_not_count(env: Any) -> None:
    silent = play_but(env, begin(env, "track", "none", second=False), lambda reply: "tracking code is" in text(reply))
    assert silent["rewards"] == {"state": 1.0, "facts": 0.0, "policy": 1.0}
    many = "Perhaps " + " ".join(f"TR{number}" for number in range(100_000, 100_000 + MAX_VALUES))
    info = play_but(env, begin(env, "track", "none", second=False), before_close=(many,))
    assert info["rewards"]["facts"] == 0.0


def test_refusing_needs_the_check_of_the_identity_and_the_rule(env: Any) -> None:
    begin(env, "cancel", "rule", second=False)
    env.step("I cannot do that, by rule 3.")
    info = env.step(close("refused"))[4]
    assert info["rewards"] == {"state": 1.0, "facts": 1.0, "policy": 0.0}
    info = play_but(env, begin(env, "cancel", "rule", second=False), before_close=("See rule 4.",))
    assert info["success"]  # one more rule is no guess
    info = play_but(
        env, begin(env, "cancel", "rule", second=False), before_close=("See rule 1, rule 2, rule 5, rule 6.",)
    )
    assert info["rewards"]["facts"] == 0.0


def test_a_case_is_not_withdrawn_before_the_customer_says_so(env: Any) -> None:
    replies = begin(env, "cancel", "withdraw", second=False)
    for reply in replies:
        if "confirm" in text(reply):
            break
        env.step(reply)
    info = env.step(close("withdrawn"))[4]
    assert info["rewards"] == {"state": 1.0, "facts": 1.0, "policy": 0.0}


def test_a_second_wish_is_found_only_by_asking(env: Any) -> None:
    replies = begin(env, "late", "rule", second=True)
    info = play_but(
        env,
        replies,
        lambda reply: "else" in text(reply) or (env.case.second and env.case.second.tracking in text(reply)),
    )
    assert info["rewards"] == {"state": 1.0, "facts": 0.0, "policy": 1.0}


def test_nothing_can_be_done_after_the_end(env: Any) -> None:
    replies = begin(env, "cancel", "rule", second=False)
    number = env.case.order.number
    del replies
    calls = [("close_case", {"outcome": "refused"}), ("cancel_order", {"order": number})]
    info = env.step(assistant(tool_calls=calls))[4]
    assert info["rewards"]["state"] == 1.0 and info["metrics"]["errors"] == 1.0


@pytest.mark.parametrize("style", ["full", "short"])
def test_the_customer_answers_what_is_asked_and_nothing_else(style: str) -> None:
    case = next(case for case in map(sample_case, SEEDS) if (case.kind, case.trap) == ("return", "change"))
    customer, memory = RuleCustomer(case, VOCABULARY, is_short=style == "short"), Conversation()

    def say(full: str, short: str) -> str:
        return customer.answer(short if style == "short" else full, memory)

    assert case.owner.email in say("May I have your e-mail address?", "ask email")
    assert case.owner.postcode not in say("Why do you return it?", "ask reason")
    several = say("Your e-mail, postcode, reason and new address, please?", "ask email postcode reason address")
    assert "address" not in memory.questions and several
    assert not memory.confirmations and say("Do you confirm?", "confirm") and not memory.confirmations
    first = say(f"Order {case.order.number}: do you confirm?", f"confirm {case.order.number}")
    assert memory.has_changed and not memory.confirmations and first
    say(f"Order {case.order.number}: do you confirm?", f"confirm {case.order.number}")
    assert memory.confirmations == [case.order.number]


def test_only_the_last_line_reaches_the_customer(env: Any) -> None:
    begin(env, "cancel", "none")
    messages, *_ = env.step("I will ask for the e-mail address.\nHello, what is your postcode?")
    assert "postcode is" in text(messages[0]) and "@" not in text(messages[0])


def test_the_gain_of_a_turn_is_where_hidden_facts_are_revealed(env: Any) -> None:
    gains = []
    for reply in begin(env, "return", "none", second=False):
        *_, info = env.step(reply)
        gains.append((bool(reply.get("tool_calls")), info["metrics"]["gain"]))
    assert sum(gain for _, gain in gains) > 0.5 and not any(gain for is_call, gain in gains if is_call)


def test_an_episode_of_the_desk_forks(env: Any) -> None:
    env.reset(seed=0, options={"split": "test", "index": 3})
    oracle = env.oracle()
    for _ in range(3):
        env.step(next(oracle))
    moment = env.snapshot()
    ends = []
    for fork in (env, Support()):
        fork.reset(seed=0, options={"split": "test", "index": 3})
        fork.restore(moment)
        ends.append([fork.step(reply) for reply in ("Why?", "Anything else?", close("solved"))])
    assert ends[0] == ends[1]


def test_instructions_in_the_records_change_nothing(env: Any) -> None:
    indices = [
        index
        for index, case in enumerate(held_out_cases())
        if "<|im_end|>" in case.order.note or "tool_response" in case.order.note
    ]
    assert indices
    for index in indices:
        episode = play(env, oracle_replies, index=index)
        assert episode.success
        assert json.dumps(episode.turns)  # data stay within the contents of tool messages
        assert {message["role"] for turn in episode.turns for message in turn[0]} <= {"user", "tool"}


@pytest.mark.parametrize(
    ("message", "topics"),
    [
        ("Please tell me your order number.", ["order"]),
        ("Give me your order number and the e-mail address.", ["email", "order"]),
        ("I would like to know your postcode.", ["postcode"]),
        ("Let me know the order number", ["order"]),
        ("Your order number has been found.", []),
        ("We received your e-mail.", []),
    ],
)
def test_a_request_without_a_question_mark_is_answered(message: str, topics: list[str]) -> None:
    customer = RuleCustomer(sample_case(3), VOCABULARY, is_short=False)
    conversation = Conversation()
    answer = customer.answer(message, conversation)
    assert sorted(conversation.questions) == sorted(topics)
    assert (answer == "All right.") == (not topics)


@pytest.mark.parametrize(
    ("question", "topics"),
    [
        ("Which of the items is it about?", "item"),
        ("What would you like to return?", "item"),
        ("How would you like to be refunded?", "refund"),
        ("Do you want the money on the original payment method?", "refund"),
        ("Blue or green?", "colour"),
        ("The blue one is not available. What now?", "fallback"),
        ("Where should we send it?", "address"),
        ("Could you give me the address?", "address"),
    ],
)
def test_ordinary_questions_are_understood(question: str, topics: str) -> None:
    answers = {topic: [("", "")] for topic in VOCABULARY.topics}
    case = Case(kind="", trap="", owner=None, answers=answers)
    assert RuleCustomer(case, VOCABULARY, is_short=False).topics(question) == topics.split()


def test_the_customer_is_not_asked_to_confirm_a_change_by_other_uses_of_the_word() -> None:
    customer = RuleCustomer(sample_case(3), VOCABULARY, is_short=False)
    conversation = Conversation()
    assert "Which order is that about" not in customer.answer("Could you confirm your e-mail address?", conversation)
    assert customer.answer("I confirm that the order O1234 has been cancelled.", conversation) == "All right."
    assert not conversation.confirmations


def test_the_customer_knows_what_the_wish_has_nothing_to_do_with() -> None:
    case = next(case for seed in SEEDS if (case := sample_case(seed)).kind == "track")
    answer = RuleCustomer(case, VOCABULARY, is_short=False).answer(
        "Do you want the refund on your card?", Conversation()
    )
    assert answer == "I have not asked for a refund."


def test_a_settled_second_wish_is_not_made_again() -> None:
    case = next(case for seed in SEEDS if (case := sample_case(seed)).second_wish is not None and case.facts)
    customer, conversation = RuleCustomer(case, VOCABULARY, is_short=False), Conversation()
    assert "tracking code" in customer.answer("Is there anything else?", conversation)
    customer.answer(". ".join(value for _, value in case.facts), conversation)
    assert customer.answer("Is there anything else?", conversation) == "No, that is all. Thank you."


def test_a_failed_check_of_the_identity_is_a_valid_reply(env: Any) -> None:
    env.reset(seed=0, options={"split": "test", "index": 0})
    call = ("verify_customer", {"email": "nobody@example.org", "postcode": "00000"})
    messages, *_, info = env.step(assistant(tool_calls=[call]))
    assert "there is no customer" in text(messages[0])
    assert info["valid"] and info["metrics"]["errors"] == 0.0
    wrong = assistant(tool_calls=[("verify_customer", {"email": "nobody@example.org"})])
    assert env.step(wrong)[4]["valid"] is False
