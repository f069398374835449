"""The words that an employee at the travel desk understands."""

from __future__ import annotations

import re

from envs.tools.desk.customer import Cue, Vocabulary


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
            r"|\bwhat (?:would you like|do you want|should I|shall I)\b[^?]*\bdo\b|\bhow\b[^?]*\bproceed\b",
            *("instead", "alternativ", "other", "differ", "which", "what would", "what do", "what sh", "proceed"),
            *("later", "earlier"),
        ),
        "day": _cue(
            r"\b(?:which|what|new|travel|preferred|(?<!of )the) (?:new |travel |preferred )?(?:day|date)\b|\bwhen\b",
            *("day", "date", "when"),
        ),
        "time": _cue(
            r"\b(?:what|which|new|preferred|your) (?:new |preferred |departure |start )?(?:time|hour)\b"
            r"|\band (?:the )?time\b|\btime of (?:the )?day|\bwhen\b|\b(?:how|too) (?:early|late)|\bdepart|\bleave\b",
            *("time", "hour", "when", "early", "late", "depart", "leave"),
        ),
        "ticket": _cue(r"\b(?:saver|flex\w*|ticket|fare)\b", "saver", "flex", "ticket", "fare"),
        "nights": _cue(r"\bnights?\b|\bhow long\b[^?]*\bstay", "night", "long"),
        "breakfast": _cue(r"\bbreakfast", "breakfast"),
        "colleague": _cue(
            r"\b(?:which|what|whose)\b[^?]*\b(?:colleague|person|employee)|\bwhom?\b|\b(?:full|last|family) name"
            r"|\bsurname|\bwhich (?:of|one of)\b|\bdo you mean\b|\bis (?:that|it|this) \w+ \w+ or\b",
            *("colleague", "person", "employee", "who", "last name", "full name", "family name", "surname", "which"),
            *("mean", "is that", "is it", "is this"),
        ),
        "length": _cue(
            r"\bhow long|\blength\b|\bduration\b|\bhow many minutes", "long", "length", "duration", "minutes"
        ),
        "title": _cue(
            r"\btitle|\bsubject of\b|\btopic|\bwhat (?:is|should) (?:it|the meeting)\b",
            *("title", "subject", "topic", "what is", "what should"),
        ),
        "reason": _cue(r"\b(?:reason|why|ill|sick)\b", "reason", "why", "ill", "sick"),
        "answer": _cue(
            r"\baccept|\bdecline|\battend\b|\bwill you come|\banswer\b|\brespond\b|\bgo to\b",
            *("accept", "decline", "attend", "come", "answer", "respond", "go to"),
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
