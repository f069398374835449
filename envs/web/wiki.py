"""A wiki."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.wiki import correct, hops
from envs.web.web_env import WebEnv


class Wiki(WebEnv):
    """Follow links in a wiki to answer a question, or correct an article.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: the articles are what the goal
    asks for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is asked, or
    report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 25 turns, when the site is judged
    as it is.
    Kinds: hops, correct.
    Arguments: `kind`; `level`, 1 to 3: more articles, and one more link to follow; or 0 for both kinds in a wiki of
    three short articles, which the main page lists: hops asks for a river, correct for a number of two digits;
    `engine`, `view`, `max_chars`, `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the site's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Wiki-v0"
    kinds: ClassVar = {
        "hops": hops,
        "correct": correct,
    }
    purpose = "Reach a goal in a wiki about invented places."
    max_turns = 25
