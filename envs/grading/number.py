r"""Parse number literals, in the notations that models use, as exact rationals. Evaluates nothing and uses no floats.

Accepted: `1,000` `$18.00` `18 dollars.` `**18**` `\$18` `$18$` `18\text{ cm}` `-18` `3.50` `1.8e1`
`1.8 \times 10^{1}` `36/2` `\frac{36}{2}` `1 1/2` `1\frac{1}{2}` `0.1\overline{6}`, `x = 18` and `9 + 9 = 18` (what
follows the last `=`).

Rejected (`parse_number` returns None):
- expressions that are not worked out (`9+9`, `2^3`, `\sqrt{4}`);
- several numbers (`17, 18`, `17 or 18`, `16-18`) and wrong digit grouping (`1,00`, `1 000`);
- digits outside ASCII (full-width, superscript, `½`) and invisible characters between digits;
- literals of more than 200 digits and exponents of more than three;
- words that change the value or retract it (`18 thousand`, `18 and a half`, `twice 18`, `not 18`, `18 or so`).

Units are dropped without a check: `18 cm` is 18, and so is `18%`. `%` never divides by 100: `50%` is not 1/2.
"""

from __future__ import annotations

import re
from fractions import Fraction

MAX_TEXT = 500  # characters of a declared answer
MAX_DIGITS = 200
MAX_EXPONENT = 200

_NUMBER_WORDS = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred hundreds thousand thousands k "
    "million millions billion billions trillion trillions bn mn dozen dozens half halves third thirds quarter fourths "
    "fifths sixths eighths tenths hundredths thousandths twice double triple"
)
_OPERATOR_WORDS = "plus minus times over squared cubed point negative root factorial modulo mod divided multiplied"
_DOUBT_WORDS = (
    "or nor not no never either neither maybe perhaps possibly unless wrong incorrect false instead except versus vs "
    "isn't aren't wasn't won't can't cannot couldn't don't doesn't didn't shouldn't without unequal"
)
_WORDS_BEFORE = frozenset(f"{_OPERATOR_WORDS} {_DOUBT_WORDS} than".split())
_WORDS_AFTER = frozenset(f"{_NUMBER_WORDS} {_OPERATOR_WORDS} {_DOUBT_WORDS}".split())

_FORMULA_WORDS = _WORDS_BEFORE | _WORDS_AFTER - {"k", "bn", "mn"}
_SCALES = re.compile(r"\b(?:twice|thrice|half|double|triple|at\s+(?:least|most))(?:\W+(?:of|the))*\W*$", re.IGNORECASE)
_TIMES = re.compile(r"\\times(?![A-Za-z])")  # an operator; the word `times` is something else

_UNITS = "mm cm dm m km in ft yd mi mg g kg lb lbs oz ml cl l L s sec min mins h hr hrs am pm mph kmh usd eur"
_UNITS_WITHOUT_SPACE = frozenset(_UNITS.split())
_POWERS = re.compile(r"\b(mm|cm|dm|m|km|in|ft|yd|mi|inch|inches|foot|feet|meters?|miles?|units?)\s*\^\s*\{?[23]\}?")
_DECIMAL = r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]*)?|\.[0-9]+)"
_EXPONENT = r"[+-]?[0-9]{1,3}"
_LITERAL = re.compile(
    rf"(?P<sign>[+-]?)\s*(?:(?P<whole>[0-9]+)\s+(?P<part>[0-9]+)\s*/\s*(?P<parts>[0-9]+)"
    rf"|(?P<top>{_DECIMAL})\s*/\s*(?P<bottom>[+-]?{_DECIMAL})"
    rf"|(?P<plain>{_DECIMAL})"
    rf"(?:\\(?:overline|bar)\s*(?:\{{(?P<period>[0-9]+)\}}|(?P<period1>[0-9]))"
    rf"|[eE](?P<e>{_EXPONENT})"
    rf"|\s*(?:\\times|\\cdot|[×*x])\s*10\s*\^\s*(?:\{{\s*(?P<power>{_EXPONENT})\s*\}}|(?P<power1>{_EXPONENT})))?)"
)
_PLAIN = re.compile(r"(-?[0-9]{1,18})(?:\.([0-9]{1,18}))?")
_DOUBTS_EQUALS = re.compile(r"\\n(?:eq?|eg|ot)|[!<>~:≠≈]\s*$|;|,(?![0-9]{3})|=.*\band\b")  # x \neq 18; 17, x = 18
_HAS_MARKUP = re.compile(r"[\\$€£¥{~°−*_`]")
_ARGUMENT = r"\s*(?:\{([^{}]*)\}|([0-9]))"
FRACTION = re.compile(rf"\\[dtc]?frac{_ARGUMENT}{_ARGUMENT}")  # groups: numerator 1 or 2, denominator 3 or 4
_MARKUP = [
    (re.compile(r"\\(?:left|right|displaystyle)\b|\\[()\[\]]"), ""),
    (re.compile(r"(?:\{,\}|,)\s*\\!\s*|\{,\}"), ","),
    (re.compile(r"(?<=[0-9])\\[,;:! ](?=[0-9]{3}(?![0-9]))"), ""),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"(?<=[0-9}])~"), " "),
    (re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s*\{([^{}]*)\}"), r" \1 "),
    (FRACTION, r" \1\2/\3\4 "),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})|°"), " degrees"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\?[$]|[€£¥]"), ""),
    (re.compile(r"−"), "-"),  # the typographic minus; other dashes are rejected
]


def strip_markup(text: str) -> str:
    """Remove Markdown emphasis, LaTeX spacing, LaTeX text commands and currency signs; write fractions as `a/b`."""
    if not _HAS_MARKUP.search(text):
        return text.strip()
    text = text.strip().strip("*_`").strip()
    for pattern, plain in _MARKUP:
        text = pattern.sub(plain, text)
    return text.strip().strip("*_`").strip()


def parse_number(text: str) -> Fraction | None:
    """Return the one number that `text` states, exactly; None if it states none, or not clearly.

    `$1,000.50`, `36/2`, `18 cm` and `x = 18` state one; `9+9`, `17 or 18`, `1 000` and `18 thousand` do not.
    """
    if len(text) > MAX_TEXT:
        return None
    if plain := _PLAIN.fullmatch(text):
        whole, part = plain.groups()
        return Fraction(int(whole + (part or "")), 10 ** len(part or ""))
    text = strip_markup(text)
    if "=" in text:
        left, text = text.rsplit("=", 1)
        if _DOUBTS_EQUALS.search(left) or not keeps_value(left, "") or _contradicts(left, text):
            return None
    text = _strip_brackets(text.strip().rstrip(",;: "))
    match = _LITERAL.match(text)
    if not match or not _is_unit(text[match.end() :]):
        return None
    return _value(match)


def keeps_value(before: str, after: str) -> bool:
    """Whether the words before and after a number leave its value as it is.

    They do not in "not 18", "minus 18", "18 thousand" and "18 or so".
    """
    if _SCALES.search(before):
        return False
    return _WORDS_BEFORE.isdisjoint(_words(before)) and _WORDS_AFTER.isdisjoint(_words(after))


def has_plain_words(formula: str) -> bool:
    """Whether no word in a formula changes its value or retracts it, as "thousand" and "not" do.

    `k` and `mn`, which elsewhere mean thousand and million, are variables here.
    """
    return _FORMULA_WORDS.isdisjoint(_words(formula))


def _contradicts(left: str, right: str) -> bool:
    """Whether an equation of two different whole numbers is stated: `17 = 18`, `x = 17 = 18`."""
    sides = [_PLAIN.fullmatch(side.strip()) for side in (left.rpartition("=")[2], right)]
    return all(side and not side[2] for side in sides) and int(sides[0][1]) != int(sides[1][1])  # type: ignore[index]


def _words(text: str) -> list[str]:
    return re.findall(r"[a-z]+(?:'[a-z]+)?", _TIMES.sub(" ", text).lower().replace("’", "'"))


def _strip_brackets(text: str) -> str:
    """Remove brackets or braces around all of `text`, except around a comma: `(1,234)` may be a pair of numbers."""
    plain = text.rstrip(". ").replace("\\{", "{").replace("\\}", "}")
    if len(plain) > 1 and plain[0] + plain[-1] in ("()", "{}") and not re.search(r"[(){},]", plain[1:-1]):
        return plain[1:-1].strip()
    return text


def _is_unit(tail: str) -> bool:
    """Whether the text after the digits is a unit or other words that leave the value as it is."""
    if not tail:
        return True
    has_no_space = tail[:1].isalpha()
    tail = _POWERS.sub(r"\1", re.sub(r"^/\s?(?=[A-Za-z]{2})", "per ", tail.strip().rstrip(".,;:")))
    if not re.fullmatch(r"[A-Za-z%' .,()/-]*", tail) or tail.startswith(("-", "/", ",", ".", "(", ")", "'")):
        return False
    first = re.match(r"[A-Za-z]*", tail).group()  # type: ignore[union-attr]
    first = first.lower() if len(first) > 1 else first  # 18M is no length
    if has_no_space and first not in _UNITS_WITHOUT_SPACE:
        return False
    if len(first) == 1 and first not in _UNITS_WITHOUT_SPACE and tail != "%":
        return False
    return keeps_value("", tail)


def _value(match: re.Match[str]) -> Fraction | None:
    if sum(char.isdigit() for char in match.group()) > MAX_DIGITS:
        return None
    sign = -1 if match["sign"] == "-" else 1
    if match["whole"]:
        part, parts = int(match["part"]), int(match["parts"])
        return sign * (int(match["whole"]) + Fraction(part, parts)) if part < parts else None
    if match["top"]:
        bottom = _decimal(match["bottom"])
        return sign * _decimal(match["top"]) / bottom if bottom else None
    if period := match["period"] or match["period1"]:
        point = match["plain"].find(".")
        places = len(match["plain"]) - point - 1
        repeating_part = Fraction(int(period), 10**places * (10 ** len(period) - 1))
        return sign * (_decimal(match["plain"]) + repeating_part) if point >= 0 else None
    exponent = int(match["e"] or match["power"] or match["power1"] or 0)
    if abs(exponent) > MAX_EXPONENT:
        return None
    value = sign * _decimal(match["plain"])
    return value * Fraction(10) ** exponent if exponent else value


def _decimal(text: str) -> Fraction:
    whole, _, part = text.replace(",", "").partition(".")
    return Fraction(int(whole + part), 10 ** len(part))
