"""Level 0: short expressions of one or two numbers, or of a text. Names and constants have one character each."""

from envs.code.synthesis.bank.template import Template

DIGITS, NAMES, TEXTS, LEFT, RIGHT = range(2, 7), "abcnmxyz", "qrstuvw", "abc", "xyz"
ONE = {"v": NAMES, "k": DIGITS}
TWO = {"v": LEFT, "w": RIGHT, "k": DIGITS}
TEXT = {"v": TEXTS, "k": DIGITS}


def _one(name: str, description: str, code: str, sentence: str, kind: str = "number") -> Template:
    ranges = TEXT if kind in ("word", "long") else ONE
    return Template(name, f"$v: {kind}", description, code, ranges, sentence=sentence)


def _two(name: str, description: str, code: str, sentence: str) -> Template:
    return Template(name, "$v: number, $w: number", description, code, TWO, sentence=sentence)


TEMPLATES = (
    _one("add", "$v plus $k", "$v+$k", "the sum of $v and $k"),
    _one("less", "$v less $k", "$v-$k", "$v minus $k"),
    _one("from", "$k less $v", "$k-$v", "$k minus $v"),
    _one("times", "$v times $k", "$v*$k", "$v times $k"),
    _one("rest", "$v mod $k", "$v%$k", "the rest of $v divided by $k", "natural"),
    _one("share", "$v over $k, whole", "$v//$k", "$v divided by $k, rounded down", "large"),
    _one("power", "$v to the $k", "$v**$k", "$v to the power of $k", "small"),
    _one("larger", "larger of $v, $k", "max($v,$k)", "the larger one of $v and $k"),
    _one("smaller", "smaller of $v, $k", "min($v,$k)", "the smaller one of $v and $k"),
    _one("above", "is $v above $k", "$v>$k", "whether $v is greater than $k"),
    _two("sum", "$v plus $w plus $k", "$v+$w+$k", "the sum of $v, $w and $k"),
    _two("product", "$v times $w less $k", "$v*$w-$k", "the product of $v and $w, minus $k"),
    _two("mix", "$k times $v plus $w", "$k*$v+$w", "$k times $v, plus $w"),
    _one("again", "text $v, $k times", "$v*$k", "the text $v repeated $k times", "word"),
    _one("letter", "$v at index $k", "$v[$k]", "the letter of the text $v at index $k", "long"),
    _one("head", "$v up to index $k", "$v[:$k]", "the first $k letters of the text $v", "long"),
    _one("tail", "$v from index $k", "$v[$k:]", "the text $v from index $k to its end", "long"),
)
