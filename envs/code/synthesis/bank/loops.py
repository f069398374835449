"""Level 2: functions of one or two loops."""

from envs.code.synthesis.bank.inputs import LETTERS
from envs.code.synthesis.bank.template import Template

MANY, SMALL, TINY = range(2, 60), range(2, 13), range(2, 6)

TEMPLATES = (
    Template("digits_in_base", "n: large",
             "the digits of n in base $k, most significant first, $j added to each; [$j] for 0",
             """
digits = []
while True:
    digits.append(n % $k + $j)
    n //= $k
    if n == 0:
        return digits[::-1]
""", {"k": range(2, 13), "j": range(6)}),
    Template("caesar", "s: word", "s with each letter moved on by $k places in the alphabet, z being followed by a",
             """
moved = ''
for c in s:
    moved += chr((ord(c) - 97 + $k) % 26 + 97)
return moved
""", {"k": range(1, 26)}),
    Template("run_lengths", "s: word",
             "the runs of equal letters in s, each as the letter, '$c' and its length, joined by '$d'",
             """
runs = []
for c in s:
    if runs and runs[-1][0] == c:
        runs[-1][1] += 1
    else:
        runs.append([c, 1])
return '$d'.join(f'{c}$c{n}' for c, n in runs)
""", {"c": ":=*x#", "d": ",; -_|"}),
    Template("rotated", "xs: numbers", "the list xs turned left by $k places, with $j added to each number",
             """
if not xs:
    return []
k = $k % len(xs)
return [x + $j for x in xs[k:] + xs[:k]]
""", {"k": SMALL, "j": range(1, 9)}),
    Template("chunks", "xs: numbers",
             "the list of the sums of xs taken $k at a time, the last group perhaps shorter, each times $j",
             """
sums = []
for i in range(0, len(xs), $k):
    sums.append(sum(xs[i:i + $k]) * $j)
return sums
""", {"k": TINY, "j": range(1, 15)}),
    Template("first_above", "xs: numbers",
             "the place of the first number of xs above $k, counted from 0, or -$j if there is none",
             """
for i, x in enumerate(xs):
    if x > $k:
        return i
return -$j
""", {"k": MANY, "j": range(1, 4)}),
    Template("running_sums", "xs: numbers", "the list of the running sums of xs, starting from $k",
             """
total, sums = $k, []
for x in xs:
    total += x
    sums.append(total)
return sums
""", {"k": MANY}),
    Template("fizz", "n: natural", "the list of the numbers from 1 to n, but '$c' for those that $k divides",
             """
return [
    '$c' if i % $k == 0 else i
    for i in range(1, n + 1)
]
""", {"k": range(2, 10), "c": ("fizz", "bang", "hop", "-", "*")}),
    Template("frequent", "xs: few",
             "the dict from each number that occurs at least $k times in xs to how often it does, plus $j",
             """
counts = {}
for x in xs:
    counts[x] = counts.get(x, 0) + 1
return {x: n + $j for x, n in counts.items() if n >= $k}
""", {"k": (1, 2), "j": range(1, 30)}),
    Template("vowels_out", "s: text", "s with every vowel replaced by '$c', and a '$d' put after every space",
             """
changed = ''
for c in s:
    if c in 'aeiou':
        changed += '$c'
    else:
        changed += c
        if c == ' ':
            changed += '$d'
return changed
""", {"c": ".*?#@", "d": "123456789"}),
    Template("windows", "xs: numbers", "the list of the largest numbers of every $k neighbours in xs, each less $j",
             """
return [
    max(xs[i:i + $k]) - $j
    for i in range(len(xs) - $k + 1)
]
""", {"k": (1, 2, 3, 4), "j": range(1, 15)}),
    Template("halving", "n: positive",
             "how many steps it takes from n to 1 or below, taking away $k from odd and halving even numbers",
             """
steps = 0
while n > 1:
    n = n // 2 if n % 2 == 0 else n - $k
    steps += 1
return steps
""", {"k": range(1, 60, 2)}),
    Template("transposed", "rows: grid",
             "the columns of the table rows as a list of lists, with every $k replaced by $j",
             """
columns = []
for i in range(len(rows[0])):
    columns.append([$j if row[i] == $k else row[i] for row in rows])
return columns
""", {"k": range(10), "j": range(10, 16)}),
    Template("up_to_letter", "s: word", "the letters of s before the first '$c', backwards, then '$d'",
             """
taken = ''
for c in s:
    if c == '$c':
        break
    taken = c + taken
return taken + '$d'
""", {"c": LETTERS, "d": "!."}),
)  # fmt: skip
