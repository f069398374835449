"""Buy what a request describes, for a part of the reward where it fits in part."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from envs.episodes.guide import Guide
from envs.types import Messages, Outcome
from envs.web.purchase.tasks import request
from envs.web.web_env import WebEnv
from envs.web.wording import READING


class Purchase(WebEnv):
    """Search a shop and buy what a request describes; scored as WebShop does (Yao et al. 2022, arXiv:2207.01206).

    Observation and action: those of `web/Widgets-v0`.
    Tools: click, type, select, press, scroll, back, switch_tab, stop, answer, report_impossible; offered in
    `info["tools"]` in full style.
    Reward: at the end, r_type · (features + options + price met) / (features + options + 1), from 0 to 1. The features
    asked for are two or three, the options colour and size, the price is at most the one that is named; at level 0 the
    colour alone is asked for, so that there are no features to meet and any price is met. r_type is 0 if
    the name of what was bought has no word in common with that of the product that the request was made from; else 1
    within the kind or the category, or with more than a fifth of its words; else 0.5, below a tenth 0.1. Named parts:
    `type`, `features`, `options`, `price`, each from 0 to 1; the reward is not their product. Success is a reward of 1.
    Metrics: `calls` and `errors` of the turn; at the end `score`, the reward.
    Episode end: terminated by the first purchase, or by stop, answer or report_impossible without one, which earn 0;
    truncated after 30 turns.
    Arguments: `level`, 1 to 3: more products of a kind, and more kinds; or 0 for a gentler request: one of three
    products, which the home page lists, in one of two colours; `kind`, of which there is one, `request`; `engine`,
    `view`, `max_chars`, `browser` as in `web/Widgets-v0`.
    Splits: drawn from seeds; no goal on the same data is in two splits, at level 0 no opening.
    State: a digest of the shop's data and of the page as it stands.
    Source and licence: generated, none of WebShop's products. Version history: v0.
    """

    key = "web/Purchase-v0"
    kinds: ClassVar = {"request": request}
    parts = ("type", "features", "options", "price")
    purpose = "Buy what is asked for in a web shop."
    max_turns = 30

    def guide(self) -> Guide:
        """Say that the first purchase counts, and what it earns."""
        features = "with each feature, the colour, the size and a price that is not too high"
        asked = features if self.level else "in the colour that it names"
        return replace(
            super().guide(),
            goal=(
                f"{self.purpose} The first thing that you buy ends the episode. You succeed if it is what the request "
                f"describes, {asked}. What fits in part earns a part."
            ),
            rules=READING + self.point_rules(),
            ending="The episode ends when you press Buy now, or with nothing earned when you call stop, answer or "
            "report_impossible or your replies run out.",
        )

    def after_calls(self, results: Messages) -> Outcome:
        """End the episode once something has been bought."""
        if self.closing is None and self.site.state()["orders"]:
            self.closing = ("stop", "")
        return super().after_calls(results)

    def ending(self, outcome: Outcome) -> str:
        """Say what fits."""
        if not self.site.state()["orders"]:
            return "Nothing was bought."
        parts = ", ".join(f"{name} {share:.2f}" for name, share in outcome.rewards.items())
        return f"Bought; it fits by {outcome.reward:.2f} ({parts})."
