r"""Parse formulas in LaTeX or plain text as exact values. Nothing is run as code.

Accepted: whole numbers and decimals, letters and Greek letters, + - and * in all their forms (`\cdot`, `\times`,
side by side), fractions, whole powers, roots of rationals, brackets, mixed numbers. `π √ × ÷ · −` stand for their
commands. A unit in `\text{...}` at the end is dropped. In a formula with letters it must be a unit listed here, because
`n \text{ odd}` is not `n`.
Undecided: everything else (functions, equations, absolute values, powers with letters, words) and what is ambiguous
(`1/2x`, `\frac123`, `x2`, `a!`).
"""

from __future__ import annotations

import re
from fractions import Fraction

from envs.grading.number import parse_number
from envs.grading.polynomial import MAX_POWER, Undecided, Value, constant, variable
from envs.grading.units import UNITS

MAX_DEPTH = 12
_GREEK = "alpha beta gamma delta epsilon varepsilon theta lambda mu rho sigma tau phi varphi omega Delta Omega pi"
_LETTERS = frozenset(f"\\{name}" for name in _GREEK.split())
_TIMES = frozenset(("*", "\\cdot", "\\times"))
_OVER = frozenset(("/", "\\div"))
_FRACTIONS = frozenset(("\\frac", "\\dfrac", "\\tfrac", "\\cfrac"))
_CLOSING = {"(": ")", "{": "}", "[": "]"}
_MEASURES = frozenset(("square", "cubic", "unit", "units", "degree", "degrees", "inch", "inches", "in"))
_UNIT_WORDS = frozenset(
    ["mm", "cm", "dm", "km", "in", "ft", "yd", "mi", "mg", "kg", "lb", "oz", "ml", "cl", "hr", "am", "pm", "ln", "pi"]
)
_WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_TOKEN = re.compile(
    r"\s*(?:(?P<number>[0-9]+(?:,[0-9]{3})+(?![0-9,])(?:\.[0-9]+)?|[0-9]+(?:\.[0-9]+)?|\.[0-9]+)"
    r"|(?P<sign>\\[A-Za-z]+|\*\*|[A-Za-z]|[-+*/^(){}\[\]]))"
)
_PLAIN_SIGNS = {"π": r"\pi ", "×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-", "√": r"\surd "}
_LAYOUT = re.compile(r"\\(?:left|right|displaystyle|limits)\b|\\[,;:! ]|[$~]")
_UNIT = re.compile(r"\\(?:text|textrm|mathrm|mbox)\s*\{([A-Za-z /.]*)\}(?:\s*\^\s*(?:[23]|\{[23]\}))?\s*$")

_SPELLINGS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"(?<!\\)\\(?:[,;:! ]|q?quad(?![A-Za-z]))|~"), " "),
    (re.compile(r"\\(?:left|right|big|Big|bigl|bigr|Bigl|Bigr)(?![A-Za-z])\s*(?=[\\(\[{}\])|.])"), ""),
    (re.compile(r"\\lbrace(?![a-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![a-z])"), r"\\}"),
    (re.compile(r"\\(?:varnothing|emptyset)(?![a-z])|∅|\\?\{\s*\\?\}"), r"\\emptyset "),
    (re.compile(r"∞"), r"\\infty "),
    (re.compile(r"∪"), r"\\cup "),
    (re.compile(r"\\(?:text|mathrm|mbox)\s*\{\s*(and|or)\s*\}"), r" \1 "),
    (re.compile(r",\s*and\s+|(?<=[0-9])\s+and\s+(?=[-−]?[0-9]+\s*\\?\})"), ", "),
    (re.compile(r"\(\s*\\begin\{array\}\{[^{}]*\}|\\begin\{bmatrix\}"), r"\\begin{pmatrix}"),
    (re.compile(r"\\end\{array\}\s*\)|\\end\{bmatrix\}"), r"\\end{pmatrix}"),
    (
        re.compile(
            r"(?<=\S)\s*(?:\\approx(?![A-Za-z])|≈)\s*[-−]?[0-9]{0,18}\.[0-9]{1,18}(?:\\l?dots|…|\.\.\.)?\s*\$?\s*$"
        ),
        "",
    ),
    (re.compile(r"^\s*\\\(|\\\)\s*$|^\s*\\\[|\\\]\s*$|\$"), ""),
]


def normalize(text: str) -> str:
    """Replace equivalent LaTeX commands and signs by one spelling; remove emphasis and a final point."""
    text = text.rstrip(". ").strip("*_` \n")
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text.strip().rstrip(".").strip()


def parse(text: str) -> Value:
    r"""Parse a formula in LaTeX or plain text, such as `\frac{3x}{2}` or `2\sqrt{3}`, to its exact value.

    Raises Undecided for functions, equations, words, ambiguous texts and whatever else is outside the accepted forms.
    """
    for sign, plain in _PLAIN_SIGNS.items():
        text = text.replace(sign, plain)
    text, unit = without_unit(_LAYOUT.sub(" ", text))
    if any(len(word) > 2 or word in _UNIT_WORDS for word in _WORD.findall(text)):
        raise Undecided("a word in a formula")
    parser = _Parser(_tokenize(text))
    value = parser.parse_sum()
    if parser.next is not None:
        raise Undecided(f"{parser.next!r} after the end of a formula")
    if unit and not _keeps_value(unit, value):
        raise Undecided("words that are not a unit")
    return value


def _keeps_value(unit: str, value: Value) -> bool:
    """Whether words after a formula leave its value as it is. After letters only units do: `n` is not `n` odd."""
    is_unit = set(unit.lower().split()) <= UNITS.keys() | _MEASURES
    return parse_number(f"1 {unit}") is not None and (is_unit or value.variables() <= {"\\pi"})


def without_unit(text: str) -> tuple[str, str]:
    r"""Split off the `\text{...}` at the end of `text`; return the rest and its content ("" if there is none)."""
    match = _UNIT.search(text)
    return (text[: match.start()], match[1].strip()) if match else (text, "")


def _tokenize(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if not match:
            raise Undecided(f"{text[position]!r} in a formula")
        tokens.append("^" if match["sign"] == "**" else match["sign"] or match["number"])
        position = match.end()
    return tokens


class _Parser:
    """Recursive-descent parser over tokens. Every method raises Undecided for what it does not accept."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.position, self.depth = tokens, 0, 0

    @property
    def next(self) -> str | None:
        return self.tokens[self.position] if self.position < len(self.tokens) else None

    def take(self) -> str:
        token = self.next
        if token is None:
            raise Undecided("a formula that ends too early")
        self.position += 1
        return token

    def parse_sum(self) -> Value:
        total = self._term()
        while self.next in ("+", "-"):
            total = total.plus(self._term())
        return total

    def _term(self) -> Value:
        sign = -1 if self.next == "-" else 1
        if self.next in ("+", "-"):
            self.position += 1
        value = self._product()
        return value.times(constant(-1)) if sign < 0 else value

    def _product(self) -> Value:
        value = self._power()
        is_after_division = False
        while (token := self.next) is not None and token not in ("+", "-") and token not in _CLOSING.values():
            if token in _TIMES or token in _OVER:
                self.position += 1
                factor = self._power()
                value = value.times(factor if token in _TIMES else factor.inverse())
                is_after_division = token in _OVER
            else:
                follows_number = _is_number(self.tokens[self.position - 1])
                if is_after_division or _is_number(token) or (follows_number and token in _FRACTIONS):
                    raise Undecided("an ambiguous product without a sign")
                value = value.times(self._power())
        return value

    def _power(self) -> Value:
        base = self._mixed_number() if self._is_mixed() else self._atom()
        if self.next != "^":
            return base
        self.position += 1
        exponent = self._argument().rational()
        if exponent is None or exponent.denominator != 1 or abs(exponent) > MAX_POWER or self.next == "^":
            raise Undecided("a power that is not a small whole number")
        return base.power(int(exponent))

    def _is_mixed(self) -> bool:
        after = self.tokens[self.position + 1] if self.position + 1 < len(self.tokens) else None
        return self.next is not None and self.next.isdecimal() and after in _FRACTIONS

    def _mixed_number(self) -> Value:
        whole, part = constant(int(self.take())), self._atom()
        fraction = part.rational()
        if fraction is None or not 0 < fraction < 1:
            raise Undecided("a number before a fraction of 1 or more")
        return whole.plus(part)

    def _atom(self) -> Value:
        token = self.take()
        if _is_number(token):
            return constant(Fraction(token.replace(",", "")))
        if token in _CLOSING:
            return self._group(token)
        if token in _FRACTIONS:
            top, bottom = self._argument(), self._argument()
            if self.next is not None and _is_number(self.next):
                raise Undecided("digits after a fraction")
            return top.times(bottom.inverse())
        if token == "\\sqrt":
            degree = self._degree() if self.next == "[" else 2
            return self._argument().root(degree)
        if token == "\\surd":
            return self._atom().root(2)
        if token in _LETTERS or (len(token) == 1 and token.isalpha()):
            return variable(token)
        raise Undecided(f"{token!r} in a formula")

    def _group(self, opening: str) -> Value:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Undecided("brackets too deep")
        value = self.parse_sum()
        if self.take() != _CLOSING[opening]:
            raise Undecided("brackets that do not match")
        self.depth -= 1
        return value

    def _degree(self) -> int:
        self.position += 1
        degree = self.take()
        if not degree.isdecimal() or len(degree) > 2 or self.take() != "]":
            raise Undecided("a root whose degree is not a small number")
        return int(degree)

    def _argument(self) -> Value:
        """Argument of a command or of `^`: a group in braces, a letter, a signed number, or one digit of a number."""
        token = self.take()
        if token == "{" or token in _LETTERS or (len(token) == 1 and (token.isalnum() or token == "(")):
            self.position -= 1
            return self._atom()
        if token == "-" and self.next is not None and self.next.isdecimal():
            return constant(-int(self.take()))
        if token.isdecimal() and self.position > 1 and self.tokens[self.position - 2] in _FRACTIONS and len(token) == 2:
            self.tokens.insert(self.position, token[1])
            return constant(int(token[0]))
        if token.isdecimal() and self.tokens[self.position - 2] == "^" and len(token) <= 2:
            return constant(int(token))
        raise Undecided(f"{token!r} as an argument")


def _is_number(token: str) -> bool:
    return token[0] in "0123456789."
