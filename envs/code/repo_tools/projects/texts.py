"""Templates of projects about words, codes and series of numbers."""

from envs.code.repo_tools.projects.project import Project

WORDS = Project(
    "words",
    {
        "word": '''
def cleaned(word):
    """The word in small letters, without `.`, `,` and `!` at its ends."""
    return word.strip(".,!").lower()


def shortened(word):
    """The word, or its first $k letters and `$c` if it has more than that."""
    if len(word) <= $k:
        return word
    return word[:$k] + "$c"
''',
        "lines": '''
from word import cleaned, shortened


def words(text):
    """The list of the cleaned words of a text, without empty ones."""
    return [word for word in map(cleaned, text.split()) if word]


def wrapped(text):
    """The words of a text, cleaned, in lines of at most $w letters and blanks; a longer word has a line of its own."""
    found = []
    for word in words(text):
        if found and len(found[-1]) + 1 + len(word) <= $w:
            found[-1] += " " + word
        else:
            found.append(word)
    return found


def title(text):
    """The first two words of a text, each shortened and with a capital, joined by a blank."""
    return " ".join(shortened(word).capitalize() for word in words(text)[:2])
''',
        "counts": '''
from lines import words


def counted(text):
    """The dict from each word of a text to how often it stands there."""
    found = {}
    for word in words(text):
        found[word] = found.get(word, 0) + 1
    return found


def frequent(text):
    """The sorted words that stand at least $n times in a text."""
    return sorted(word for word, number in counted(text).items() if number >= $n)
''',
        "index": '''
from counts import counted, frequent
from lines import title


def entries(texts):
    """The list of `TITLE: NUMBER` for each text, with the number of its different words."""
    return [f"{title(text)}: {len(counted(text))}" for text in texts]


def common(texts):
    """The sorted words that are frequent in any of the texts."""
    found = set()
    for text in texts:
        found.update(frequent(text))
    return sorted(found)
''',
    },
    {
        "word.cleaned": "text",
        "word.shortened": "word",
        "lines.words": "text",
        "lines.wrapped": "text",
        "lines.title": "text",
        "counts.counted": "text",
        "counts.frequent": "text",
        "index.entries": "texts",
        "index.common": "texts",
    },
    {"k": range(2, 6), "c": "-_*~+#=:", "w": range(6, 26), "n": (1, 2, 3)},
)

CODES = Project(
    "codes",
    {
        "check": '''
def weighted(digits):
    """The sum of the digits of a text, the first times 1, the second times $k, the third times 1 again, and so on."""
    total = 0
    for place, digit in enumerate(digits):
        total += int(digit) * (1 if place % 2 == 0 else $k)
    return total


def check_digit(digits):
    """What is missing from the weighted sum plus $s to the next multiple of 10, from 0 to 9."""
    return -(weighted(digits) + $s) % 10
''',
        "seals": '''
from check import check_digit


def sealed(digits):
    """The digits with their check digit after them."""
    return digits + str(check_digit(digits))


def is_valid(digits):
    """Whether the last digit is the check digit of those before it, of which there must be at least one."""
    if len(digits) < 2:
        return False
    return digits == sealed(digits[:-1])


def masked(digits):
    """The digits with all but the last $g replaced by `$c`."""
    hidden = max(0, len(digits) - $g)
    return "$c" * hidden + digits[hidden:]
''',
        "labels": '''
from check import weighted
from seals import is_valid, masked, sealed


def label(digits):
    """The sealed digits, masked."""
    return masked(sealed(digits))


def shelf(digits):
    """The number of the shelf, from 1 to $n, that the weighted sum chooses."""
    return weighted(digits) % $n + 1


def note(digits):
    """`LABEL on SHELF`, the shelf being 0 if the digits are valid already."""
    if is_valid(digits):
        return f"{label(digits)} on 0"
    return f"{label(digits)} on {shelf(digits)}"
''',
    },
    {
        "check.weighted": "digits",
        "check.check_digit": "digits",
        "seals.sealed": "digits",
        "seals.is_valid": "digits",
        "seals.masked": "digits",
        "labels.label": "digits",
        "labels.shelf": "digits",
        "labels.note": "digits",
    },
    {"k": range(2, 8), "s": range(10), "g": (1, 2, 3, 4), "c": "*#x-", "n": range(3, 12)},
)

SERIES = Project(
    "series",
    {
        "basic": '''
def total(numbers):
    """The sum of the numbers, each above $k counted as $k."""
    return sum(min(number, $k) for number in numbers)


def middle(numbers):
    """The number in the middle once they are sorted, the lower of two; 0 without numbers."""
    if not numbers:
        return 0
    return sorted(numbers)[(len(numbers) - 1) // 2]


def spread(numbers):
    """The largest less the smallest number; 0 without numbers."""
    if not numbers:
        return 0
    return max(numbers) - min(numbers)
''',
        "changes": '''
from basic import spread


def steps(numbers):
    """The list of each number's change from the one before it."""
    return [other - one for one, other in zip(numbers, numbers[1:])]


def rises(numbers):
    """How many numbers are more than $r above the one before."""
    count = 0
    for step in steps(numbers):
        if step > $r:
            count += 1
    return count


def smooth(numbers):
    """The list of the sums of $w neighbours."""
    return [sum(numbers[i : i + $w]) for i in range(len(numbers) - $w + 1)]


def is_calm(numbers):
    """Whether the spread is at most $c."""
    return spread(numbers) <= $c
''',
        "report": '''
from basic import middle, total
from changes import is_calm, rises, smooth


def peak(numbers):
    """The place of the largest sum of neighbours, the first of equal ones; -1 without any."""
    sums = smooth(numbers)
    if not sums:
        return -1
    return sums.index(max(sums))


def grade(numbers):
    """`calm` for calm numbers, `up` for others with at least two rises, else `wild`."""
    if is_calm(numbers):
        return "calm"
    return "up" if rises(numbers) >= 2 else "wild"


def row(numbers):
    """The text `TOTAL/MIDDLE GRADE`."""
    return f"{total(numbers)}/{middle(numbers)} {grade(numbers)}"
''',
    },
    {
        "basic.total": "numbers",
        "basic.middle": "numbers",
        "basic.spread": "numbers",
        "changes.steps": "numbers",
        "changes.rises": "some",
        "changes.smooth": "some",
        "changes.is_calm": "numbers",
        "report.peak": "some",
        "report.grade": "some",
        "report.row": "numbers",
    },
    {"k": range(5, 19), "r": range(5), "w": (2, 3), "c": range(6, 24)},
)
