"""Templates of projects about shops, stocks and accounts."""

from envs.code.repo_tools.projects.project import Project

SHOP = Project(
    "shop",
    {
        "prices": '''
def with_tax(price):
    """The price with $k percent of tax, rounded down."""
    return price + price * $k // 100


def discounted(price, pieces):
    """The price less $j percent if there are at least $n pieces, the discount being rounded down."""
    if pieces < $n:
        return price
    return price - price * $j // 100
''',
        "cart": '''
from prices import discounted, with_tax


def subtotal(items):
    """The sum of price times pieces of pairs (price, pieces), each of these products discounted."""
    total = 0
    for price, pieces in items:
        total += discounted(price * pieces, pieces)
    return total


def dearest(items):
    """The place of the pair with the highest price, the first of equal ones; -1 without any pair."""
    best = -1
    for place, (price, _) in enumerate(items):
        if best < 0 or price > items[best][0]:
            best = place
    return best


def to_pay(items):
    """The subtotal with tax, and $s for shipping unless that is at least $t; 0 without any item."""
    if not items:
        return 0
    total = with_tax(subtotal(items))
    if total < $t:
        total += $s
    return total
''',
        "receipt": '''
from cart import dearest, to_pay


def lines(items):
    """A list with `PRICE x PIECES` for each item and `total N` last, N being what is to pay."""
    made = [f"{price} x {pieces}" for price, pieces in items]
    made.append(f"total {to_pay(items)}")
    return made


def highlight(items):
    """The receipt's line of the dearest item, '' without items."""
    place = dearest(items)
    return lines(items)[place] if place >= 0 else ""
''',
    },
    {
        "prices.with_tax": "natural",
        "prices.discounted": "natural, small",
        "cart.subtotal": "items",
        "cart.dearest": "items",
        "cart.to_pay": "items",
        "receipt.lines": "items",
        "receipt.highlight": "items",
    },
    {"k": range(5, 30), "j": range(10, 50), "n": range(2, 6), "s": range(3, 20), "t": range(80, 200, 10)},
)

STORE = Project(
    "store",
    {
        "entry": '''
def parsed(line):
    """The pair (name, change) of an entry: `in fig 5` adds 5 of fig, `out fig 5` takes 5 away."""
    kind, name, number = line.split()
    change = int(number)
    if kind == "out":
        change = -change
    return name, change
''',
        "stock": '''
from entry import parsed


def levels(lines):
    """The dict from each name in the entries to what is there after all of them; nothing falls below 0."""
    held = {}
    for line in lines:
        name, change = parsed(line)
        held[name] = max(0, held.get(name, $z) + change)
    return held


def level(lines, name):
    """What is there of one name after all entries, $z if none names it."""
    return levels(lines).get(name, $z)
''',
        "orders": '''
from stock import level, levels


def scarce(lines):
    """The sorted names of which less than $k are there."""
    return sorted(name for name, number in levels(lines).items() if number < $k)


def needed(lines, name):
    """How many of a name must be ordered to have $n, in packs of $p; 0 if there are enough."""
    missing = $n - level(lines, name)
    if missing <= 0:
        return 0
    return (missing + $p - 1) // $p * $p
''',
        "letter": '''
from orders import needed, scarce


def order(lines):
    """The text `NAME xNUMBER`, joined by `, `, of all scarce names with what is needed of each."""
    parts = [f"{name} x{needed(lines, name)}" for name in scarce(lines)]
    return ", ".join(parts)
''',
    },
    {
        "entry.parsed": "entry",
        "stock.levels": "entries",
        "stock.level": "entries, noun",
        "orders.scarce": "entries",
        "orders.needed": "entries, noun",
        "letter.order": "entries",
    },
    {"k": range(5, 25), "n": range(20, 50), "p": range(2, 8), "z": range(4)},
)

LEDGER = Project(
    "ledger",
    {
        "money": '''
def written(cents):
    """An amount of cents as `12.05`, with `-` before it if it is negative."""
    sign = "-" if cents < 0 else ""
    cents = abs(cents)
    return f"{sign}{cents // 100}.{cents % 100:02d}"


def shared(cents, people):
    """The list of what each pays of a sum: equal parts, and a cent more for the first ones where it does not divide."""
    part, rest = divmod(cents, people)
    return [part + 1 if place < rest else part for place in range(people)]
''',
        "account": '''
def balances(changes):
    """The list of balances after each change, from $k on."""
    balance, found = $k, []
    for change in changes:
        balance += change
        found.append(balance)
    return found


def lowest(changes):
    """The lowest balance there was, the $k at the start included."""
    return min([$k] + balances(changes))


def fee(changes):
    """$f for each balance below $m."""
    return $f * len([balance for balance in balances(changes) if balance < $m])
''',
        "statement": '''
from account import balances, fee, lowest
from money import shared, written


def closing(changes):
    """The last balance less the fee, written; that of the start if nothing changed."""
    found = balances(changes)
    if not found:
        return written($k)
    return written(found[-1] - fee(changes))


def summary(changes):
    """The text `low LOWEST, end CLOSING`, both written."""
    return f"low {written(lowest(changes))}, end {closing(changes)}"


def split_fee(changes, people):
    """The fee shared among people, each part written."""
    return [written(part) for part in shared(fee(changes), people)]
''',
    },
    {
        "money.written": "number",
        "money.shared": "large, small",
        "account.balances": "numbers",
        "account.lowest": "numbers",
        "account.fee": "numbers",
        "statement.closing": "numbers",
        "statement.summary": "numbers",
        "statement.split_fee": "numbers, small",
    },
    {"k": range(1, 40), "f": range(11, 99), "m": range(5, 40)},
)
