"""Level 4: small algorithms over tables, graphs and texts."""

from envs.code.synthesis.bank.template import Template

MANY, SMALL = range(2, 60), range(2, 13)

TEMPLATES = (
    Template("edit_distance", "s: word, t: word",
             "the least cost of turning s into t, where putting in or leaving out a letter costs $j and replacing "
             "one costs $k",
             """
row = [$j * i for i in range(len(t) + 1)]
for i, a in enumerate(s, 1):
    last, row = row, [$j * i]
    for j, b in enumerate(t, 1):
        change = last[j - 1] + (0 if a == b else $k)
        row.append(min(change, last[j] + $j, row[j - 1] + $j))
return row[-1]
""", {"j": range(1, 7), "k": range(1, 8)}),
    Template("fewest_coins", "n: natural", "the least number of coins worth 1, $j and $k that make n",
             """
best = [0]
for amount in range(1, n + 1):
    best.append(1 + min(best[amount - c] for c in (1, $j, $k) if c <= amount))
return best[n]
""", {"j": range(3, 9), "k": range(9, 17)}),
    Template("knapsack", "items: pairs",
             "the largest sum of second numbers of pairs that can be chosen so that their first numbers sum up to "
             "at most $k",
             """
best = [0] * ($k + 1)
for weight, worth in items:
    for room in range($k, weight - 1, -1):
        best[room] = max(best[room], best[room - weight] + worth)
return best[$k]
""", {"k": range(40, 99)}),
    Template("cheapest_path", "rows: grid",
             "the least cost of a way from the top left to the bottom right of the table rows, steps going right "
             "or down, where a cell costs its number plus $k and the start costs nothing",
             """
best = []
for y, row in enumerate(rows):
    line = []
    for x, cell in enumerate(row):
        ways = ([line[-1]] if x else []) + ([best[x]] if y else [])
        line.append(min(ways) + cell + $k if ways else 0)
    best = line
return best[-1]
""", {"k": MANY}),
    Template("common_subsequence", "s: word, t: word",
             "the length of the longest sequence of letters that stands in s and in t in the same order, times $k,"
             " plus $j",
             """
row = [0] * (len(t) + 1)
for a in s:
    last, row = row, [0]
    for j, b in enumerate(t, 1):
        row.append(last[j - 1] + 1 if a == b else max(last[j], row[j - 1]))
return row[-1] * $k + $j
""", {"k": range(1, 10), "j": range(10)}),
    Template("islands", "rows: cells",
             "how many groups of at least $k cells # there are, cells being neighbours above, below, left and "
             "right, plus $j",
             """
left = {(y, x) for y, row in enumerate(rows) for x, c in enumerate(row) if c == '#'}
found = $j
while left:
    todo, size = [left.pop()], 0
    while todo:
        y, x = todo.pop()
        size += 1
        for near in ((y + 1, x), (y - 1, x), (y, x + 1), (y, x - 1)):
            if near in left:
                left.remove(near)
                todo.append(near)
    found += size >= $k
return found
""", {"k": (1, 2, 3), "j": range(20)}),
    Template("apart", "xs: numbers",
             "the largest sum of numbers of xs that are pairwise more than $k places apart, 0 for none, plus $j",
             """
best = []
for i, x in enumerate(xs):
    before = best[i - $k - 1] if i > $k else 0
    best.append(max(best[-1] if best else 0, before + x))
return (best[-1] if best else 0) + $j
""", {"k": (1, 2, 3), "j": range(20)}),
    Template("stairs", "n: small", "how many ways there are to climb n stairs in steps of 1 to $k, modulo $j",
             """
ways = [1]
for _ in range(n):
    ways.append(sum(ways[-$k:]))
return ways[n] % $j
""", {"k": range(2, 7), "j": range(50, 99)}),
    Template("cache_misses", "xs: few",
             "how often a number of xs, asked for one after the other, is not among the last $k different ones "
             "asked for before, times $j",
             """
kept, misses = [], 0
for x in xs:
    if x in kept:
        kept.remove(x)
    else:
        misses += 1
    kept = [x, *kept][:$k]
return misses * $j
""", {"k": (1, 2, 3, 4), "j": range(1, 16)}),
    Template("life", "rows: cells",
             "the rows after $k rounds of the game of life inside the table, where a cell is # in the next round with"
             " exactly $j of its 8 neighbours #, or with 2 or 3 if it is #, and else .",
             """
for _ in range($k):
    old, rows = rows, []
    for y in range(len(old)):
        line = ''
        for x in range(len(old[0])):
            near = [r[max(0, x - 1):x + 2] for r in old[max(0, y - 1):y + 2]]
            lives = ''.join(near).count('#') - (old[y][x] == '#')
            line += '#' if lives == $j or old[y][x] == '#' and lives in (2, 3) else '.'
        rows.append(line)
return rows
""", {"k": range(1, 13), "j": (1, 2, 3, 4)}),
    Template("reachable", "links: links",
             "the sorted list of the numbers that can be reached from $k in at most $j steps along the links, "
             "which are pairs and go both ways, $k among them",
             """
reached = {$k}
for _ in range($j):
    reached |= {b for pair in links for a, b in (pair, pair[::-1]) if a in reached}
return sorted(reached)
""", {"k": range(8), "j": range(1, 6)}),
)  # fmt: skip
