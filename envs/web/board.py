"""A board of tickets."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.board.tasks import count, duplicate, move_all, report, triage
from envs.web.web_env import WebEnv


class Board(WebEnv):
    """Triage, link, move, report and count tickets on a board.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: the tickets are what the goal
    asks for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is asked, or
    report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 40 turns, when the site is
    judged as it is.
    Kinds: triage, duplicate, move-all, report, count. About a tenth of triage cannot be reached, because there is
    no such ticket; at level 0 all can be.
    Arguments: `kind`; `level`, 1 to 3: more tickets and conditions, or 0 for a gentler board of triage (the column of
    one of 3 tickets) and count (3 tickets), which is for other kinds as level 1; `engine`, `view`, `max_chars`,
    `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the site's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Board-v0"
    kinds: ClassVar = {
        "triage": triage,
        "duplicate": duplicate,
        "move-all": move_all,
        "report": report,
        "count": count,
    }
    purpose = "Reach a goal on a board of tickets."
    max_turns = 40
