"""A shared calendar."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.calendar.tasks import cancel, free_hours, move, schedule
from envs.web.web_env import WebEnv


class Calendar(WebEnv):
    """Schedule, move and cancel meetings in a shared calendar.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: the meetings are what the goal asks
    for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is
    asked, or report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 25 turns, when the site is
    judged as it is.
    Kinds: schedule, move, cancel, free-hours. About a tenth of schedule and cancel cannot be reached: there is
    no common time, or no such meeting; at level 0 all of cancel can be.
    Arguments: `kind`; `level`, 1 to 3: more people, or 0 for a gentler calendar of move and cancel (one person, one day
    with 3 meetings), which is for other kinds as level 1; `engine`, `view`, `max_chars`, `browser` as in
    `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the site's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Calendar-v0"
    kinds: ClassVar = {
        "schedule": schedule,
        "move": move,
        "cancel": cancel,
        "free-hours": free_hours,
    }
    purpose = "Reach a goal in a shared calendar."
    max_turns = 25
