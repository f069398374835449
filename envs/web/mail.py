"""A mailbox."""

from __future__ import annotations

from typing import ClassVar

from envs.web.sites.mail.tasks import archive, forward, label, look_up, reply
from envs.web.web_env import WebEnv


class Mail(WebEnv):
    """Reply, forward, label, archive and look things up in a mailbox.

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, the product of two named parts, each 0 or 1. `state`: folders, labels and what was sent are
    what the goal asks for, and nothing else has changed. `answer`: the right ending: stop, the answer where one is
    asked, or report_impossible.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the share of the expected and the actual changes that
    are both.
    Episode end: terminated by stop, answer or report_impossible; truncated after 30 turns, when the site is judged
    as it is.
    Kinds: reply, forward, label, archive, look-up. About a tenth of archive cannot be reached, because nobody has that
    name; at level 0 all can be.
    Arguments: `kind`; `level`, 1 to 3: more messages with more in common, or 0 for a gentler mailbox of archive (one of
    3 messages, by its subject) and look-up (3 messages with a digit each), which is for other kinds as level 1;
    `engine`, `view`, `max_chars`, `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the site's data and of the page as it stands.
    Source and licence: generated. Version history: v0.
    """

    key = "web/Mail-v0"
    kinds: ClassVar = {
        "reply": reply,
        "forward": forward,
        "label": label,
        "archive": archive,
        "look-up": look_up,
    }
    purpose = "Reach a goal in a mailbox."
    max_turns = 30
