"""A register of customers."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.crm.tasks import edit, hand_over, look_up, note
from envs.web.web_env import WebEnv


class CRM(WebEnv):
    """Find customers in a register, and edit, annotate and hand them over.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: the records are what the goal
    asks for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is asked, or
    report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 40 turns, when the site is judged
    as it is.
    Kinds: edit, note, hand-over, look-up. About a tenth of edit cannot be reached, because there is no such customer;
    at level 0 all can be.
    Arguments: `kind`; `level`, 1 to 3: more customers, several of one name; or 0 for gentler edit and look-up: the job
    title of one of three customers, who are listed without a search; other kinds are as at level 1; `engine`, `view`,
    `max_chars`, `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the site's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/CRM-v0"
    kinds: ClassVar = {
        "edit": edit,
        "note": note,
        "hand-over": hand_over,
        "look-up": look_up,
    }
    purpose = "Reach a goal in a company's register of customers."
    max_turns = 40
