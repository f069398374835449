"""The words that the customer at the support desk understands."""

from __future__ import annotations

import re

from envs.tools.desk.customer import Cue, Vocabulary

_COLOUR = r"\b(?:black|blue|green|pink|red|white)"
_RETURN = r"(?:return|exchange|swap|cancel|send back)"

VOCABULARY = Vocabulary(
    topics={
        "email": Cue(re.compile(r"\be-?mail", re.I), ("mail",)),
        "postcode": Cue(re.compile(r"\b(?:post ?code|zip|postal code)", re.I), ("code", "zip")),
        "order": Cue(
            re.compile(r"\border (?:number|no\b|id\b)|\bwhich order|\bnumber of (?:the|your) order", re.I), ("order",)
        ),
        "item": Cue(
            re.compile(
                r"\b(?:which|what) (?:one )?(?:of (?:the|your|these) )?(?:item|product|article|goods)"
                rf"|\bwhat (?:would you like|do you want) (?:me |us )?to {_RETURN}\b",
                re.I,
            ),
            ("item", "product", "article", "goods", "what"),
        ),
        "reason": Cue(
            re.compile(r"\b(?:reason|why|damaged|broken|fault\w*|defect\w*)\b|\bwrong with", re.I),
            ("reason", "why", "damaged", "broken", "fault", "defect", "wrong"),
        ),
        "refund": Cue(
            re.compile(
                r"\b(?:card|(?:store|as) credit|refund method|payment method|paid back|money back)\b"
                r"|\bhow\b[^?]*\brefund",
                re.I,
            ),
            ("card", "credit", "refund", "paid", "pay", "money"),
        ),
        "colour": Cue(
            re.compile(
                rf"\b(?:which|what|wanted|desired|new) colou?r|{_COLOUR}\b[^?]{{0,30}}\bor\b[^?]{{0,30}}{_COLOUR}\b",
                re.I,
            ),
            ("colo", " or "),
        ),
        "fallback": Cue(
            re.compile(
                r"\bsold out|\bout of stock|\bno longer in stock|\bnot available|\bunavailable|\binstead|\balternativ",
                re.I,
            ),
            ("sold", "stock", "available", "instead", "alternativ"),
        ),
        "address": Cue(
            re.compile(
                r"\b(?:new|which|what|full|exact|delivery|shipping) (?:delivery |shipping )?address"
                r"|\b(?:give|tell|send) (?:me|us) (?:the|your) address|\bwhere\b[^?]*\b(?:deliver|ship|send\b|sent\b)",
                re.I,
            ),
            ("address", "where"),
        ),
        "else": Cue(
            re.compile(r"\b(?:any|some)thing else|\belse I can|\bother (?:wish|question|request)", re.I),
            ("else", "other"),
        ),
    },
    values={
        "amount": Cue(re.compile(r"(?<![\d.,])\d{1,6}\.\d\d(?!\d|\.\d)"), (".",)),
        "tracking": Cue(re.compile(r"\bTR\d{6}\b"), ("tr",)),
        "rule": Cue(re.compile(r"\brule (?:no\. |number )?([1-9]\d?)\b", re.I), ("rule",)),
    },
    numbers=re.compile(r"\bO\d{4}\b"),
    unclear=("Which order is that about? Please name its number and the change.", "order?"),
    unasked={
        "reason": "There is no special reason.",
        "refund": "I have not asked for a refund.",
        "colour": "I have not asked for another colour.",
        "fallback": "I do not know what else there is. That is up to you.",
        "address": "I have not asked for a new address; the old one is right.",
    },
)
