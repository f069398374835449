r"""Parse number literals, in the notations that models use, as exact rationals. Evaluates nothing and uses no floats.

Accepted: `1,000` `$18.00` `18 dollars.` `**18**` `\$18` `$18$` `18\text{ cm}` `-18` `3.50` `1.8e1`
`1.8 \times 10^{1}` `36/2` `36 ⁄ 2` `\frac{36}{2}` `1 1/2` `1\frac{1}{2}` `0.1\overline{6}`, `1 000 000`, `x = 18` and
`9 + 9 = 18` (what follows the last `=`); `negative 18` `minus 18` `–18`, `½`, `18 thousand` `one half` `eighteen`
`10^6` (`envs.grading.spelled`), `18 (eighteen)`, `18 ✓`, for a number with a decimal point `\approx 3.14`, and a
fraction with its value rounded, `4/9 ≈ 0.44`.

Rejected (`parse_number` returns None):
- expressions that are not worked out (`9+9`, `\sqrt{4}`, `2^{3^2}`), except for the power of one number, `2^3`;
- several numbers (`17, 18`, `17 or 18`, `16-18`), wrong equations of two (`17 = 18`) and wrong digit grouping (`1,00`);
- digits outside ASCII (full-width, superscript) and invisible characters between digits;
- literals of more than 200 digits and exponents of more than three;
- words that change the value or retract it (`twice 18`, `about 18`, `not 18`, `18 or so`; see `envs.grading.doubts`).

Units are dropped without a check: `18 cm` is 18, and so is `18%`. `%` never divides by 100: `50%` is not 1/2.
"""

from __future__ import annotations

import re
from fractions import Fraction

from envs.grading.doubts import is_disclaimed, keeps_value
from envs.grading.spelled import parse_spelled

MAX_TEXT = 500  # characters of a declared answer
MAX_DIGITS = 200
MAX_EXPONENT = 200

_UNWORKED = re.compile(  # an operator word in an equation, unless it stands before a number: `9 times 2 = 18`
    r"\b(?:plus|minus|times|over|point|negative|root|modulo|mod|(?:divided|multiplied)(?:\s+by)?)\b(?!\s*\$?[0-9])"
    r"|\b(?:squared|cubed|factorial)\b",
    re.IGNORECASE,
)
_GROUPS = re.compile(  # digits in groups of three with spaces between them
    r"(?<![0-9.,/])(?<![0-9][ \u00a0\u2009\u202f])([1-9][0-9]{0,2})((?:[ \u00a0\u2009\u202f][0-9]{3}){1,5})"
    r"(?![0-9]|[ \u00a0\u2009\u202f]*[0-9/])"
)
_SIGN_WORD = re.compile(r"(?:(?:negative|minus)\s+|[\u2012\u2013]\s?)(?=[^\W_]|[.$])(?!negative|minus)", re.IGNORECASE)
_APPROXIMATE = re.compile(r"(?:\\approx(?![A-Za-z])|≈)\s*(?=[-−]?\\?\$?[0-9]*\.[0-9])")
_ROUNDED = re.compile(  # behind a fraction, perhaps in brackets
    r"(?P<unit>\s*[A-Za-z]{1,20})?\s*(?P<open>\()?\s*(?:\\approx(?![A-Za-z])|≈|~|(?:about|approximately|roughly)\s)\s*"
    r"(?P<number>[-−]?[0-9]{0,18}\.[0-9]{1,18})(?:\s*[A-Za-z]{1,20})?\s*(?P<close>(?(open)\)))[.$*_`]*"
)
_SPACED_FRACTION = re.compile(
    r"(?<![^\s$(*_`=])(?P<top>[-−]?[0-9]{1,18})(?P<slash>\s*/\s*)(?P<bottom>[0-9]{1,18})(?![\w/^]|[.,][0-9]|\s*[-+*/^×÷·−][\s(]*[0-9])"
)
_HAS_OTHER_NOTATION = re.compile(r"[^\x00-\x7f]|(?<![\\A-Za-z])[A-Za-z]{3}|[0-9] ?\^|\\approx|[0-9] [0-9]{3}")
CHECK_MARKS = "\u2713\u2714\u2705\u2611\U0001f389\U0001f44d\ufe0f"

_UNITS = "mm cm dm m km in ft yd mi mg g kg lb lbs oz ml cl l L s sec min mins h hr hrs am pm mph kmh usd eur"
_UNITS_WITHOUT_SPACE = frozenset(_UNITS.split())
_BRACKETED_UNIT = re.compile(r"^\s*\(([A-Za-z]{2,20})\)[.]?$")  # 18 (dollars)
_AGAIN = re.compile(r"\s*\(\s*(?:or|=|which is|i\.e\.,?)\s*|,?\s+or\s+")
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
_DOUBTS_EQUALS = re.compile(
    r"^[-−]?[0-9][0-9.,/]*:\s|\\n(?:eq?|eg|ot)|[!<>~:≠≈]\s*$|;|,(?![0-9]{3})|=.*\band\b"
)  # x \neq 18; 17, x = 18
_HAS_MARKUP = re.compile(r"[\\$€£¥{~°−⁄*_`]")
_ARGUMENT = r"\s*(?:\{([^{}]*)\}|([0-9]))"
FRACTION = re.compile(rf"\\[dtc]?frac{_ARGUMENT}{_ARGUMENT}")  # groups: numerator 1 or 2, denominator 3 or 4
_MARKUP = [
    (re.compile(r"\\(?:left|right|displaystyle)\b|\\[()\[\]]"), ""),
    (re.compile(r"(?:\{,\}|,)\s*\\!\s*|\{,\}"), ","),
    (re.compile(r"(?<=[0-9])\\[,;:! ](?=[0-9]{3}(?![0-9]))"), ""),
    (re.compile(r"\\[,;:! ]"), " "),
    (re.compile(r"(?<=[0-9}{])~"), " "),
    (re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|boldsymbol|bm|underline)\s*\{([^{}]*)\}"), r" \1 "),
    (FRACTION, r" \1\2/\3\4 "),
    (re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})|°|\\degree(?![A-Za-z])"), " degrees"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\?[$]|[€£¥]"), ""),
    (re.compile(r"⁄"), "/"),
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

    `$1,000.50`, `36/2`, `18 cm`, `x = 18`, `minus 18` and `18 thousand` state one; `9+9`, `17 or 18` and `about 18` do
    not.
    """
    if len(text) > MAX_TEXT:
        return None
    if plain := _PLAIN.fullmatch(text):
        whole, part = plain.groups()
        return Fraction(int(whole + (part or "")), 10 ** len(part or ""))
    text = strip_markup(text)
    if "=" in text:
        left, text = text.rsplit("=", 1)
        if _DOUBTS_EQUALS.search(left) or _UNWORKED.search(left) or not keeps_value(left, "") or is_disclaimed(left):
            return None
        if contradicts(left, text):
            return None
    text = _strip_brackets(text.strip().rstrip(",;: "))
    match = _LITERAL.match(text)
    if match:
        tail = text[match.end() :]
        if not tail or _is_unit(tail):
            return _value(match)
        approximation = _ROUNDED.fullmatch(tail) if match["bottom"] or match["part"] else None
        if approximation and _is_rounded(_value(match), approximation["number"]):
            return _value(match)
        if not (tail.isascii() and tail[-1] not in ").") and _is_tail(tail, value := _value(match)):
            return value
    if _HAS_OTHER_NOTATION.search(text) and (other := _parse_other_notation(text)) is not None:
        return other
    return _value_of_both(text) if _AGAIN.search(text) else None


def _value_of_both(text: str) -> Fraction | None:
    """The value of a number that is written in two ways, `5/4 or 1 1/4` and `5/4 (= 1.25)`; None for two numbers."""
    first, *others = _AGAIN.split(text)
    value = parse_number(first)
    return value if value is not None and [parse_number(one.rstrip(") ")) for one in others] == [value] else None


def plain_fractions(text: str) -> str:
    """Write `4 / 9` as `4/9`, and leave out its rounded value, `≈ 0.44`.

    A quotient that is a whole number, `96 / 8`, is not changed: it is a calculation.
    """
    if "/" not in text and "⁄" not in text:
        return text
    text, plain, position = text.replace("⁄", "/"), "", 0
    for match in _SPACED_FRACTION.finditer(text):
        top, bottom = int(match["top"].replace("−", "-")), int(match["bottom"])
        approximation = _ROUNDED.match(text, match.end())
        if not bottom or not top % bottom:
            continue
        plain += f"{text[position : match.start()]}{match['top']}/{match['bottom']}"
        position = match.end()
        if approximation and _is_rounded(Fraction(top, bottom), approximation["number"]):
            plain, position = plain + (approximation["unit"] or ""), approximation.end("close")
    return plain + text[position:]


def _is_rounded(value: Fraction | None, number: str) -> bool:
    """Whether a number with a decimal point is `value` to the last of its digits."""
    near, places = _decimal(number.lstrip("-−")), len(number.partition(".")[2])
    return value is not None and abs(value - (-near if number[0] in "-−" else near)) < Fraction(1, 10**places)


def _parse_other_notation(text: str) -> Fraction | None:
    """Parse what is no literal: a sign in words, groups of digits, an approximation, a number in words."""
    text = text.rstrip(f"{CHECK_MARKS} ")
    if " " in text or not text.isascii():
        text = _GROUPS.sub(lambda match: match[1] + re.sub(r"\D", "", match[2]), text)
    if match := _APPROXIMATE.match(text):
        text = text[match.end() :]
    sign = _SIGN_WORD.match(text)
    text = text[sign.end() :] if sign else text
    spelled = parse_spelled(text)
    if spelled is not None:
        value, end = spelled
    elif match := _LITERAL.match(text):
        if sign and match["sign"]:
            return None
        end, literal = match.end(), _value(match)
        if literal is None:
            return None
        value = literal
    else:
        return None
    return (-value if sign else value) if _is_tail(text[end:], value) else None


def _is_tail(tail: str, value: Fraction | None) -> bool:
    """Whether what follows a number leaves its value: a unit, a check mark, or the number again in brackets."""
    if not tail or _is_unit(tail):
        return True
    tail = tail.strip(f"{CHECK_MARKS} .")
    if not tail:
        return True
    return (
        tail[0] + tail[-1] == "()" and "(" not in tail[1:] and value is not None and parse_number(tail[1:-1]) == value
    )


def contradicts(left: str, right: str) -> bool:
    """Whether an equation of two different number literals is stated: `17 = 18`, `x = 17 = 18`, `17 = 3/4`."""
    sides = [_LITERAL.fullmatch(side.strip()) for side in (left.rpartition("=")[2], right)]
    first, second = (_value(side) if side else None for side in sides)
    if first is None or second is None or first == second:
        return False
    places = len(right.rstrip().partition(".")[2])
    return not places or abs(first - second) >= Fraction(1, 10**places)  # 1/3 = 0.33 is rounded


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
    tail = _BRACKETED_UNIT.sub(r"\1", tail)
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


def is_false_equation(before: str, word: str) -> bool:
    """Whether the number after `before` stands on the right of another number: `17 = 18`, `so it is 17 = 18`."""
    side, equals, rest = before.rpartition("=")
    sides = side.rpartition("=")[2].split()
    is_number = len(sides) == 1 or (len(sides) > 1 and sides[-2].lower() in ("is", "are", "has", "have", "equals"))
    return bool(equals) and not rest.strip("$ ") and is_number and contradicts(sides[-1], word)
