"""Templates of projects about places, times and paths."""

from envs.code.repo_tools.projects.project import Project

WALK = Project(
    "walk",
    {
        "points": '''
def distance(one, other):
    """The steps between two points (x, y), side by side only."""
    return abs(one[0] - other[0]) + abs(one[1] - other[1])


def inside(point):
    """Whether both coordinates lie from 0 to $k, both included."""
    x, y = point
    return 0 <= x <= $k and 0 <= y <= $k
''',
        "steps": '''
from points import inside

MOVES = {"N": (0, $s), "E": ($s, 0), "S": (0, -$s), "W": (-$s, 0)}


def step(point, letter):
    """The point after a step of $s to N (y grows), E (x grows), S or W; the same point where that is not inside."""
    x, y = point
    dx, dy = MOVES[letter]
    after = (x + dx, y + dy)
    return after if inside(after) else point


def walked(point, way):
    """The point after all steps of a way, such as `NNE`."""
    for letter in way:
        point = step(point, letter)
    return point
''',
        "tour": '''
from points import distance, inside
from steps import step, walked


def length(points):
    """The sum of the distances from each point to the next."""
    total = 0
    for one, other in zip(points, points[1:]):
        total += distance(one, other)
    return total


def nearest(point, points):
    """The point that is nearest to the first one, the first of equally near ones; None without points."""
    best = None
    for other in points:
        if best is None or distance(point, other) < distance(point, best):
            best = other
    return best


def bumps(way):
    """How many steps of a way that begins at (0, 0) do not move."""
    point, count = (0, 0), 0
    for letter in way:
        after = step(point, letter)
        if after == point:
            count += 1
        point = after
    return count


def far(way):
    """How far from (0, 0) a way from there ends, plus $p for each bump."""
    return distance((0, 0), walked((0, 0), way)) + $p * bumps(way)
''',
    },
    {
        "points.distance": "point, point",
        "points.inside": "point",
        "steps.step": "point, compass",
        "steps.walked": "point, way",
        "tour.length": "points",
        "tour.nearest": "point, points",
        "tour.bumps": "way",
        "tour.far": "way",
    },
    {"k": range(2, 10), "s": (1, 2), "p": range(2, 120)},
)

CLOCK = Project(
    "clock",
    {
        "minutes": '''
DAY = 24 * 60


def of_day(hour, minute):
    """The minutes since midnight, $k being added for a clock that is slow; a new day begins at 0."""
    return (hour * 60 + minute + $k) % DAY


def shown(minutes):
    """Minutes since midnight as `7:05`."""
    return f"{minutes // 60}:{minutes % 60:02d}"
''',
        "spans": '''
from minutes import DAY


def duration(start, end):
    """The minutes from start to end, which is of the next day if it is not later."""
    if end > start:
        return end - start
    return end + DAY - start


def overlap(one, other):
    """The minutes that two spans (start, end) of a day have in common."""
    return max(0, min(one[1], other[1]) - max(one[0], other[0]))


def joined(spans):
    """The sorted list of spans, with those that overlap or lie at most $g apart made one."""
    found = []
    for start, end in sorted(spans):
        if found and start - found[-1][1] <= $g:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
''',
        "plan": '''
from spans import duration, joined


def busy(spans):
    """The minutes that are covered by spans once they are joined."""
    return sum(duration(start, end) for start, end in joined(spans))


def breaks(spans):
    """The list of spans between the joined ones that last at least $b minutes."""
    found = joined(spans)
    gaps = [(one[1], other[0]) for one, other in zip(found, found[1:])]
    return [gap for gap in gaps if duration(gap[0], gap[1]) >= $b]
''',
        "poster": '''
from minutes import shown
from plan import breaks, busy


def line(span):
    """A span as `7:05-8:00`."""
    return f"{shown(span[0])}-{shown(span[1])}"


def text(spans):
    """The breaks as lines, joined by `; `, and then ` (busy N)` with the busy minutes."""
    return "; ".join(line(gap) for gap in breaks(spans)) + f" (busy {busy(spans)})"
''',
    },
    {
        "minutes.of_day": "hour, minute",
        "minutes.shown": "time",
        "spans.duration": "time, time",
        "spans.overlap": "span, span",
        "spans.joined": "spans",
        "plan.busy": "spans",
        "plan.breaks": "apart",
        "poster.line": "span",
        "poster.text": "apart",
    },
    {"k": range(1, 60), "g": range(0, 30, 5), "b": range(10, 120, 10)},
)

ROADS = Project(
    "roads",
    {
        "network": '''
def neighbours(edges, node):
    """The sorted nodes that an edge (a, b) joins with a node, in either direction, without the node itself."""
    found = {b for a, b in edges if a == node} | {a for a, b in edges if b == node}
    return sorted(found - {node})


def crowded(edges):
    """The sorted nodes with at least $k neighbours."""
    nodes = {node for edge in edges for node in edge}
    return sorted(node for node in nodes if len(neighbours(edges, node)) >= $k)
''',
        "reach": '''
from network import neighbours


def within(edges, node, steps):
    """The sorted nodes that can be reached in at most so many steps, the node itself included."""
    found = {node}
    for _ in range(steps):
        found |= {other for one in found for other in neighbours(edges, one)}
    return sorted(found)


def distance(edges, node, goal):
    """The fewest steps from a node to a goal; -1 if they are more than $m, or there is no way."""
    for steps in range($m + 1):
        if goal in within(edges, node, steps):
            return steps
    return -1
''',
        "trips": '''
from network import crowded
from reach import distance, within


def cost(edges, node, goal):
    """$c for each step of the way and $d for the trip; 0 for no steps, None where there is no way."""
    steps = distance(edges, node, goal)
    if steps == -1:
        return None
    return steps * $c + $d if steps else 0


def centre(edges):
    """The crowded node that reaches most nodes in $k steps, the first of equal ones; None if none is crowded."""
    best = None
    for node in crowded(edges):
        if best is None or len(within(edges, node, $k)) > len(within(edges, best, $k)):
            best = node
    return best
''',
    },
    {
        "network.neighbours": "edges, node",
        "network.crowded": "edges",
        "reach.within": "edges, node, small",
        "reach.distance": "edges, node, node",
        "trips.cost": "edges, node, node",
        "trips.centre": "edges",
    },
    {"k": (1, 2), "m": (2, 3, 4), "c": range(3, 30), "d": range(2, 30)},
)
