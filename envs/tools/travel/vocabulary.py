"""The words that an employee at the travel desk understands."""

from __future__ import annotations

import re

from envs.tools.desk.customer import Cue, Vocabulary

_CLOCK = r"\b\d\d?(?::\d\d|(?::\d\d)? ?[ap]\.?m\b)"
_PART = r"\b(?:morning|noon|afternoon|evening)"
_DAY = r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day"
_NAME = r"[A-Z][a-z]+"  # in a part of a pattern that heeds case


def _choice(value: str) -> str:
    """Fit two values between which somebody is to choose: `10:00 or 14:00`, `10:00 and 14:00; which one`."""
    return rf"{value}\b[^?]{{0,30}}\b(?:or\b[^?]{{0,30}}{value}|and\b[^?]{{0,30}}{value}\b[^?]{{0,60}}\bwhich\b)"


def _cue(pattern: str, *hints: str) -> Cue:
    return Cue(re.compile(pattern, re.I), hints)


VOCABULARY = Vocabulary(
    topics={
        "email": _cue(r"\be-?mail", "mail"),
        "badge": _cue(r"\bbadge", "badge"),
        "booking": _cue(
            r"\bbooking (?:number|no\b|id\b|reference)|\bwhich booking|\bnumber of (?:the|your) booking", "booking"
        ),
        "fallback": _cue(
            r"\binstead\b|\balternativ|\botherwise\b|\b(?:another|different|other|later|earlier) (?:"
            r"day|date|time|hour|slot|flight|hotel|option|preference)"
            r"|\bwhich (?:one|of|meeting|two)\b[^?]*\b(?:keep|prefer|rather|attend)\b"
            r"|\bprefer (?:to \w+ )?(?:the )?(?:meeting )?(?:[\"“]|M\d)|\bother way (?:a)?round\b"
            r"|\bwould (?:an?|one)\b[^?]*\b(?:be (?:fine|ok|okay|all right|acceptable)|work|do|suit)\b"
            r"|\bwhat (?:would|do) you prefer\b"
            r"|\bwhat (?:would you like|do you want|should I|shall I)\b[^?]*\bdo\b|\bhow\b[^?]*\bproceed\b",
            *("instead", "alternativ", "other", "differ", "which", "what would", "what do", "what sh", "proceed"),
            *("later", "earlier", "prefer", "would"),
        ),
        "day": _cue(
            r"\b(?:which|what|new|travel|preferred|(?<!of )the) (?:new |travel |preferred )?(?:week)?(?:day|date)\b"
            rf"|\bwhich of (?:the|these|those) (?:two )?(?:days|dates)\b|\bwhen\b|{_choice(_DAY)}",
            *("day", "date", "when"),
        ),
        "time": _cue(
            r"\b(?:what|which|new|preferred|your|one) (?:new |preferred |departure |start )?(?:time|hour)\b"
            r"|\bwhich of (?:the|these|those) (?:two )?(?:start )?(?:times|hours)\b|\bpart of the day\b"
            r"|\band (?:the )?time\b|\btime of (?:the )?day|\bwhen\b|\b(?:how|too) (?:early|late)|\bdepart|\bleave\b"
            rf"|{_choice(_CLOCK)}|{_choice(_PART)}",
            *("time", "hour", "when", "early", "late", "depart", "leave", " or ", "which", "part of"),
        ),
        "ticket": _cue(r"\b(?:saver|flex\w*|ticket|fare)\b", "saver", "flex", "ticket", "fare"),
        "nights": _cue(r"\bnights?\b|\bhow long\b[^?]*\bstay|\buntil when\b", "night", "long", "until"),
        "breakfast": _cue(r"\bbreakfast", "breakfast"),
        "colleague": _cue(
            r"\b(?:which|what|whose)\b[^?]*\b(?:colleague|person|employee)|\bwhom?\b|\b(?:full|last|family) name"
            r"|\bsurname|\bwhich (?:one )?of them\b|\bdo you mean\b|\bis (?:that|it|this) \w+ \w+ or\b"
            rf"|\bwhich (?!{_DAY})(?-i:{_NAME})\b"
            rf"|(?-i:\b({_NAME}) {_NAME}\b[^?]{{0,40}}\b(?:or|and)\b[^?]{{0,40}}\b\1 {_NAME})",
            *("colleague", "person", "employee", "who", "last name", "full name", "family name", "surname", "which"),
            *("mean", "is that", "is it", "is this", " or "),
        ),
        "length": _cue(
            r"\bhow long|\blength\b|\bduration\b|\bhow many minutes", "long", "length", "duration", "minutes"
        ),
        "title": _cue(
            r"\btitle|\bsubject of\b|\btopic|\bwhat (?:is|should) (?:it|the meeting)\b|\bname (?:of|for) the meeting\b"
            r"|\b(?:what|how)\b[^?]*\bcall(?:ed)?\b",
            *("title", "subject", "topic", "what is", "what should", "name", "call"),
        ),
        "reason": _cue(r"\b(?:reason|why|ill|sick)\b", "reason", "why", "ill", "sick"),
        "answer": _cue(
            r"\baccept|\bdecline|\battend\b|\bwill you (?:come|be there)|\banswer\b|\brespond\b|\bgo to\b"
            r"|\bwant to (?:go|come)\b|\bjoin\b|\btake part\b|\b(?:say|reply) yes\b|\byes or no\b",
            *(
                "accept",
                "decline",
                "attend",
                "come",
                "answer",
                "respond",
                "to go",
                "go to",
                "you be",
                "join",
                "take part",
                "yes",
            ),
        ),
        "else": _cue(r"\b(?:any|some)thing else|\belse I can|\bother (?:wish|question|request)", "else", "other"),
    },
    values={
        "amount": _cue(r"(?<![\d.,])\d{1,6}\.\d\d(?!\d|\.\d)", "."),
        "code": _cue(r"\bCK\d{6}\b", "ck"),
        "time": Cue(re.compile(r"\b\d\d:\d\d in [A-Z][a-z]+\b"), (":",), limit=3),
        "rule": Cue(re.compile(r"\brule (?:no\. |number )?([1-9]\d?)\b", re.I), ("rule",), limit=3),
    },
    numbers=re.compile(r"\b[BFHMT]\d{3,4}\b"),
    unclear=(
        "What is that about? Please name the numbers of the flight, booking, hotel, meeting or colleague.",
        "number?",
    ),
)
