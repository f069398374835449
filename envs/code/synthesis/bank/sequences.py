"""Level 1: one expression over a list or a text."""

from envs.code.synthesis.bank.inputs import LETTERS
from envs.code.synthesis.bank.template import Template

MANY, SMALL = range(2, 60), range(2, 13)
CONSONANTS, VOWELS = "bcdfghjklmnpqrstvwxyz", "aeiou"

TEMPLATES = (
    Template("sum_plus", "xs: numbers", "the sum of xs, plus $k", "sum(xs) + $k", {"k": MANY}),
    Template("count_above", "xs: numbers", "how many of xs are above $k", "sum(x > $k for x in xs)", {"k": MANY}),
    Template("without", "xs: numbers", "the list xs without every $k", "[x for x in xs if x != $k]", {"k": MANY}),
    Template("scaled", "xs: numbers", "the list of each of xs times $k", "[x * $k for x in xs]", {"k": MANY}),
    Template("nearest", "xs: numbers", "xs sorted by distance from $k, equally near ones in the order of xs",
             "sorted(xs, key=lambda x: abs(x - $k))", {"k": MANY}),
    Template("largest", "xs: numbers", "the list of the $k largest of xs, largest first, or all if there are fewer",
             "sorted(xs, reverse=True)[:$k]", {"k": SMALL}),
    Template("divisible", "a: natural", "whether $k divides a times $j", "a * $j % $k == 0",
             {"j": (3, 5, 7, 11), "k": (4, 6, 8, 9, 10, 12, 14, 15)}),
    Template("replaced", "s: word", "s with every '$c' replaced by '$d'", "s.replace('$c', '$d')",
             {"c": LETTERS, "d": "XYZ-"}),
    Template("count_letter", "s: word", "how often '$c' or '$d' occurs in s", "s.count('$c') + s.count('$d')",
             {"c": CONSONANTS, "d": VOWELS}),
    Template("longer_words", "s: text",
             "the list of the words of s that have more than $k letters, each followed by '$c'",
             "[w + '$c' for w in s.split() if len(w) > $k]", {"k": range(1, 6), "c": "!?;:+"}),
    Template("padded", "s: word", "s, with '$c' put before it until it has $k characters",
             "s.rjust($k, '$c')", {"k": range(3, 13), "c": "-+*=_"}),
    Template("clipped", "xs: numbers",
             "the list xs with what is below $j raised to $j and what is above $k lowered to $k",
             "[min(max(x, $j), $k) for x in xs]", {"j": range(-9, 9), "k": range(10, 40)}),
    Template("rests", "xs: naturals", "the list of the pairs (x, rest of x divided by $k) for each x of xs",
             "[(x, x % $k) for x in xs]", {"k": MANY}),
    Template("mean_plus", "xs: several",
             "the mean of xs, plus $k, as a float",
             "sum(xs) / len(xs) + $k", {"k": MANY}, 1e-9),
    Template("stepped", "xs: numbers",
             "the sum of the numbers of xs at the places 0, $k, 2 times $k and so on, times $j",
             "sum(xs[::$k]) * $j", {"k": range(2, 6), "j": range(2, 20)}),
    Template("distinct_below", "xs: numbers", "the set of the numbers of xs below $k, each plus $j",
             "{x + $j for x in xs if x < $k}", {"k": range(10, 60), "j": range(1, 5)}),
)  # fmt: skip
