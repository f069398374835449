"""A console of accounts and roles."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.access.tasks import audit, grant, invite, revoke
from envs.web.web_env import WebEnv


class Access(WebEnv):
    """Give and take roles in projects, invite people, and look up who has access to what.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: accounts and roles are what the goal
    asks for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is asked, or
    report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 25 turns, when the site is
    judged as it is.
    Kinds: grant, revoke, invite, audit. About a tenth of grant cannot be reached, because a rule
    forbids it.
    Arguments: `kind`; `level`, 1 to 3: more people and projects, or 0 for a gentler console of revoke (3 projects with
    one member each) and audit (3 people and projects), which is for other kinds as level 1; `engine`, `view`,
    `max_chars`, `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the site's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Access-v0"
    kinds: ClassVar = {
        "grant": grant,
        "revoke": revoke,
        "invite": invite,
        "audit": audit,
    }
    purpose = "Reach a goal in a console for accounts and roles."
    max_turns = 25
