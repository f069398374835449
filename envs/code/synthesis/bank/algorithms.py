"""Level 3: well-known algorithms, and functions that need an idea."""

from envs.code.synthesis.bank.template import Template

MANY, SMALL = range(2, 60), range(2, 13)

TEMPLATES = (
    Template("merged", "spans: pairs", "the spans as a sorted list of pairs, those at most $k apart joined into one",
             """
joined = []
for start, end in sorted(spans):
    if joined and start - joined[-1][1] <= $k:
        joined[-1] = (joined[-1][0], max(joined[-1][1], end))
    else:
        joined.append((start, end))
return joined
""", {"k": range(30)}),
    Template("common_divisor", "xs: naturals",
             "the greatest common divisor of all numbers of xs above $k, or 0 if there are none",
             """
divisor = 0
for x in xs:
    if x > $k:
        a, b = divisor, x
        while b:
            a, b = b, a % b
        divisor = a
return divisor
""", {"k": range(2, 50)}),
    Template("pairs_with_sum", "xs: few", "how many pairs of places i < j have xs[i] + xs[j] equal to $k, plus $j",
             """
seen, found = {}, $j
for x in xs:
    found += seen.get($k - x, 0)
    seen[x] = seen.get(x, 0) + 1
return found
""", {"k": range(4, 15), "j": range(4)}),
    Template("longest_rise", "xs: numbers",
             "the length of the longest stretch of neighbours in xs in which each is at least the last plus $k",
             """
best = length = 0
for i, x in enumerate(xs):
    length = length + 1 if i and x >= xs[i - 1] + $k else 1
    best = max(best, length)
return best
""", {"k": range(-25, 11)}),
    Template("insertion_place", "xs: ascending",
             "the place in the ascending list xs at which $k has to be inserted, before equal ones, times $j",
             """
low, high = 0, len(xs)
while low < high:
    middle = (low + high) // 2
    if xs[middle] < $k:
        low = middle + 1
    else:
        high = middle
return low * $j
""", {"k": range(2, 60), "j": range(1, 6)}),
    Template("balanced", "s: marks",
             "whether the brackets ()[]{} in s fit each other and are nested at most $k deep, and s has at most $j"
             " characters",
             """
open_, pairs = [], {')': '(', ']': '[', '}': '{'}
for c in s:
    if c in pairs:
        if not open_ or open_.pop() != pairs[c]:
            return False
    else:
        open_.append(c)
        if len(open_) > $k:
            return False
return not open_ and len(s) <= $j
""", {"k": range(1, 5), "j": range(4, 16)}),
    Template("primes_with_rest", "n: natural", "the list of the primes up to n that leave rest $j when divided by $k",
             """
primes = []
for p in range(2, n + 1):
    for q in range(2, int(p ** 0.5) + 1):
        if p % q == 0:
            break
    else:
        if p % $k == $j:
            primes.append(p)
return primes
""", {"k": (3, 5, 7, 9, 11, 13), "j": (1, 2)}),
    Template("spiral_sum", "rows: grid",
             "the numbers of the table rows in a clockwise spiral from the top left, each times $k, as a list",
             """
rows, taken = [list(row) for row in rows], []
while rows:
    taken += rows.pop(0)
    rows = [list(row) for row in zip(*rows)][::-1]
return [x * $k for x in taken]
""", {"k": MANY}),
    Template("last_of_circle", "n: positive",
             "who is left of n in a circle, numbered from $j, when every ${k}th is sent away",
             """
left = 0
for size in range(2, n + 1):
    left = (left + $k) % size
return left + $j
""", {"k": (4, 5, 6, 7, 8, 9, 10), "j": range(9)}),
    Template("profit", "xs: naturals",
             "the largest profit from buying once and selling later at the prices xs, less a fee of $k; 0 if there"
             " is none",
             """
best, lowest = 0, None
for x in xs:
    if lowest is not None:
        best = max(best, x - lowest - $k)
    if lowest is None or x < lowest:
        lowest = x
return best
""", {"k": range(1, 40)}),
    Template("polynomial", "xs: signs, n: small",
             "the value at n of the polynomial with the coefficients xs, highest power first, modulo $k",
             """
value = 0
for x in xs:
    value = (value * n + x) % $k
return value
""", {"k": range(7, 99)}),
    Template("said", "n: small",
             "the text that comes from '$j' after n times saying aloud how many of which digit follow each other, "
             "as 11 becomes 21",
             """
said = '$j'
for _ in range(n):
    parts, i = [], 0
    while i < len(said):
        j = i
        while j < len(said) and said[j] == said[i]:
            j += 1
        parts.append(str(j - i) + said[i])
        i = j
    said = ''.join(parts)
return said
""", {"j": (*range(1, 22), *range(23, 60))}),  # 22 says itself
)  # fmt: skip
