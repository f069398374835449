"""The customer of a tau2 task as a script, which tells the instructions when the agent's words call for them.

tau2 has a language model in this seat. The script stands in for it where there is none: it is free and always the same,
but it understands a few words only. Scores with it are not comparable with published ones.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from envs.types import Message, text

STOP = "###STOP###"
END_MARKS = (STOP, "###TRANSFER###", "###OUT-OF-SCOPE###")  # tau2's, of a message that ends the conversation
MAX_READ = 10_000  # characters of a message that the customer reads
Seat = Callable[[Mapping[str, Any], Sequence[Message]], str]  # scenario, conversation -> next message of the customer

_SENTENCE = re.compile(r"(?<=[.!?;])\s+(?=[A-Z(])")
_SECRET = re.compile(r"\s*\([^()]*\b(?:reveal|mention it)\b[^()]*\)\.?", re.I)
_STYLE = re.compile(
    r"^(?:you are (?!.*\b(?:return|exchang|cancel)\w*)|make (?:every|sure)|try to|be |you like to )", re.I
)
_SAY = re.compile(r"^(?:then )?(?:(?:you )?(?:can )?say|tell (?:it|the agent)|mention|answer)(?: that)?\s+")
_CONDITION = re.compile(
    r"(?:but |then |if and only )?(?:if|once|when|after) "
    r"(?:the agent (?!can\b|could\b|is\b)\w+|it (?:ask|sa[yi]|tell|mention))[^,]*",
    re.I,
)
_IDENTITY = re.compile(r"\be-?mail|\bzip|\bname\b|\bverify|\bauthenticat|\bidentity|\buser id\b", re.I)
_CONFIRM = re.compile(
    r"\bplease confirm|\bconfirm\w*[^.!?]*\?|\bproceed[^.!?]*\?|\bgo ahead[^.!?]*\?|\bcorrect\?|\(yes"
    r"|\b(?:say|reply|answer)[^.!?]{0,20}\byes\b|\b(?:shall|should) i\b[^.!?]*\?"
    r"|\bwould you like (?:me )?to\b[^.!?]*\?|\bdo you want me\b",
    re.I,
)
_REFUSAL = re.compile(
    r"\bcan(?:not|['’]?t)\b|\bunable\b|\bnot (?:possible|available|allowed|able)|\bunavailable\b|\bunfortunately\b"
    r"|\bsorry\b|\bout of stock\b|\bno longer\b",
    re.I,
)
_CLOSING = re.compile(r"\b(?:any|some)thing else\b[^.!]*\?|\belse i can\b[^.!]*\?", re.I)
_AGENT = "\0"  # stands for the agent until the other words for "you" are replaced
_FIRST_PERSON = (
    (r"\b(?:ask|tell) (?:it|the agent) (?:explicitly )?to\b", "please"),
    (r"\bask (?:it|the agent)\b", "please tell me"),
    (r"\btell (?:it|the agent)(?: that)?\s", ""),
    (r"\bthe agent (ask|tell|say|mention|provide|offer|confirm)s\b", rf"{_AGENT} \1"),
    (r"\bthe agent\b", _AGENT),
    (r"\byou name is\b", "my name is"),
    (r"\byou are\b", "I am"),
    (r"\byou['’](?=d\b|ve\b|ll\b)", "I'"),
    (r"\byou['’]re\b", "I am"),
    (r"\byou were\b", "I was"),
    (r"\byourself\b", "myself"),
    (r"\byours\b", "mine"),
    (r"\byour\b", "my"),
    (r"\b(asks?|tells?|gives?|offers?|lets?|charges?|sends?|informs?|helps?|for|to|with|of|from) you\b", r"\1 me"),
    (r"\byou\b", "I"),
    (_AGENT, "you"),
)


class Script(NamedTuple):
    """What a customer says, in the first person, and when.

    Attributes:
        opening: The wish, at the beginning.
        identity: Who the customer is, when the agent asks.
        unknown: What the customer does not know, when the agent asks for an e-mail address; "" for nothing.
        at_confirmation: Sentences for the times when the agent asks for confirmation.
        at_question: Sentences for other questions.
        at_refusal: Sentences for the times when something is not possible.
        at_closing: Sentences for the end, when the agent asks whether there is anything else.
    """

    opening: str
    identity: str
    unknown: str
    at_confirmation: tuple[str, ...]
    at_question: tuple[str, ...]
    at_refusal: tuple[str, ...]
    at_closing: tuple[str, ...]


def write_script(scenario: Mapping[str, Any]) -> Script:
    """Write the script of a scenario: sentences that begin with a condition wait for it, others are said at once."""
    instructions = scenario["instructions"]
    if isinstance(instructions, str):
        instructions = {"reason_for_call": instructions}
    at_once: list[str] = []
    waiting: dict[str, list[str]] = {"confirmation": [], "question": [], "refusal": [], "closing": []}
    for sentence in _sentences(instructions):
        before, condition, rest = _split_condition(sentence)
        if before:
            at_once.append(first_person(before))
        if rest:
            waiting[_moment(condition)].append(first_person(_SAY.sub("", rest)))
    unknown = _SENTENCE.split(instructions.get("unknown_info") or "")[0].strip(". ")
    return Script(
        f"Hello. {' '.join(at_once)}".strip(),
        first_person(instructions.get("known_info") or "You have no more to say of yourself."),
        first_person(f"{unknown}.") if unknown else "",
        *(tuple(waiting[kind]) for kind in ("confirmation", "question", "refusal", "closing")),
    )


def scripted_customer(scenario: Mapping[str, Any], conversation: Sequence[Message]) -> str:
    """Return what the customer says next: the wish at first, then answers to what the agent says. A `Seat`.

    It depends on its arguments alone, so that an episode can be forked anywhere.
    """
    script = _script_of(json.dumps(scenario))
    said = {text(message) for message in conversation if message["role"] == "user"}
    if not conversation:
        return script.opening
    words = text(conversation[-1])[:MAX_READ]
    if _CONFIRM.search(words):
        return _next_unsaid(script.at_confirmation, said) or "Yes, please go ahead."
    if _REFUSAL.search(words) and (more := _next_unsaid(script.at_refusal, said)):
        return more
    if _CLOSING.search(words):
        return _next_unsaid(script.at_closing, said) or f"No, that is all. Thank you. {STOP}"
    if _IDENTITY.search(words) and ("?" in words or re.search(r"\b(?:please|need|provide)\b", words, re.I)):
        has_mail = re.search(r"\be-?mail", words, re.I)
        return f"{script.identity} {script.unknown}".strip() if has_mail else script.identity
    if "?" in words:
        return _next_unsaid(script.at_question, said) or f"As I said: {script.opening.removeprefix('Hello. ')}"
    return "All right."


@lru_cache(maxsize=1024)
def _script_of(scenario: str) -> Script:
    return write_script(json.loads(scenario))


def first_person(sentence: str) -> str:
    """Turn a sentence that is addressed to the customer into the customer's own: "You want" becomes "I want"."""
    for pattern, words in _FIRST_PERSON:
        sentence = re.sub(pattern, words, sentence, flags=re.I)
    sentence = sentence.strip()
    return sentence[:1].upper() + sentence[1:]


def _sentences(instructions: Mapping[str, Any]) -> list[str]:
    """The sentences of the reason for the call, and of the further instructions those that are not about style."""
    reason, further, unknown = (
        _SENTENCE.split(_SECRET.sub("", instructions.get(key) or ""))
        for key in ("reason_for_call", "task_instructions", "unknown_info")
    )
    sentences = [*reason, *(each for each in [*further, *unknown[1:]] if not _STYLE.search(each))]
    return [each.strip() for each in sentences if each.strip(" .")]


def _split_condition(sentence: str) -> tuple[str, str, str]:
    """What a sentence says before a condition about the agent's words, the condition, and what is said if it is met."""
    match = _CONDITION.search(sentence)
    if not match:
        return sentence, "", ""
    before, rest = sentence[: match.start()].rstrip(" ,"), sentence[match.end() :].lstrip(" ,")
    if not rest:  # the condition stands behind
        return "", match[0], before
    return f"{before}." if before else "", match[0], rest


def _moment(condition: str) -> str:
    """When a sentence with a condition is said."""
    if re.search(r"\b(?:once|after)\b", condition, re.I):
        return "closing"
    if re.search(r"\bconfirm", condition, re.I):
        return "confirmation"
    return "question" if re.search(r"\bask", condition, re.I) else "refusal"


def _next_unsaid(sentences: Sequence[str], said: set[str]) -> str:
    return next((sentence for sentence in sentences if sentence not in said), "")
