"""When groups start, which of them an update takes, and what new weights mean for replies in flight: knobs and presets.

Also how a run begins and when it ends.

Synchronous, one-step-off, partial, asynchronous and multi-version training are settings of one loop
(`rl.train.loop`), not loops of their own. A mode only names a combination of these settings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rl.cli import real_number, whole_number
from rl.flag_fields import flag as _flag
from rl.flag_fields import switch as _switch
from rl.spec_paths import absolute_model

ORDERS = ("admission", "completion")
IN_FLIGHT = ("continue", "drain-turns", "drain", "pin")
STALE = ("requeue", "drop", "mask", "accept")
MODES: Mapping[str, Mapping[str, Any]] = {
    "sync": {"lag": 0, "overlap": False, "over_provision": 1.0, "order": "admission", "in_flight": "continue"},
    "one-step-off": {"lag": 1, "overlap": True, "over_provision": 1.0, "order": "admission", "in_flight": "drain"},
    "partial": {"lag": 0, "overlap": False, "over_provision": 1.5, "order": "completion", "in_flight": "continue"},
    "async": {"lag": 2, "overlap": True, "over_provision": 1.0, "order": "completion", "in_flight": "continue"},
    "pinned": {"lag": 3, "overlap": True, "over_provision": 1.0, "order": "admission", "in_flight": "pin"},
}
MOST_UPDATES = 10**9
MOST_LAG = 100  # updates; with more, playing as many groups takes longer than any run
LEAST_BOUND = 4  # of the lag, where groups are used in the order in which they end


@dataclass(frozen=True)
class Beginning:
    """How a run begins: with a cold start (`rl.train.cold_start`). Each is a flag."""

    cold_start: int | None = _flag(
        None,
        "most oracle episodes to imitate before training; no more are played than are needed (default for tiny: 4000; "
        "else 0)",
        whole_number(0),
    )
    cold_start_until: float | None = _flag(
        None,
        "sampled success at which imitation may end: 0 is random play's, 1 the oracle's; where the oracle wins no more "
        "than random play, the share of valid replies, at least that of --cold-start-valid (default for tiny: 0.2 with "
        "one turn, else 0.3; else 1)",
        real_number(0, 1),
    )
    cold_start_valid: float = _flag(
        0.8,
        "share of valid replies at which imitation may end; with less of it more is left to reinforcement learning",
        real_number(0, 1),
    )
    cold_start_from: str = _flag(
        "",
        "before imitation take over the weights of this run or model folder, which must have those of --model; such as "
        "a run of games/Recall-v0, which teaches to copy from a prompt",
        absolute_model,
        metavar="DIR",
    )


@dataclass(frozen=True)
class Ending:
    """When a run ends: at the first of these. Each is a flag, and may be another one where a run is resumed."""

    updates: int | None = _flag(
        None,
        "updates in total (default for tiny: 600, fewer if episodes are long; else 200)",
        whole_number(0, MOST_UPDATES),
    )
    sampled_tokens: int | None = _flag(
        None, "end once this many tokens are sampled, even if updates remain", whole_number(1)
    )
    max_minutes: float | None = _flag(
        None,
        "end once updates have taken this many minutes, without cold start and evaluations, even if updates remain",
        real_number(above=0),
    )
    target_success: float | None = _flag(
        None,
        "end once an evaluation of --eval-every has this success, from 0 to 1, even if updates remain",
        real_number(0, 1),
    )

    def reason(self, tokens: int, seconds: float, success: float | None) -> str:
        """Return which limit but that of updates a run has reached; "" for none.

        Args:
            tokens: Tokens that it has sampled.
            seconds: Seconds that its updates have taken.
            success: The best success of its evaluations in [0, 1], None without any.

        """
        if self.target_success is not None and success is not None and success >= self.target_success:
            return f"--target-success {self.target_success:g}: validation success is {success:.3f}"
        if self.max_minutes is not None and seconds >= 60 * self.max_minutes:
            return f"--max-minutes {self.max_minutes:g}: updates have taken {seconds / 60:.2f} minutes"
        if self.sampled_tokens is not None and tokens >= self.sampled_tokens:
            return f"--sampled-tokens {self.sampled_tokens:,}: {tokens:,} are sampled"
        return ""


@dataclass(frozen=True)
class Schedule:
    """The settings of a run's schedule; each is a flag.

    Let B be `--groups`. At most `(lag + over_provision) * B` groups are being played or wait to be trained on. With
    `order="admission"` that bounds how old a group may get; with `order="completion"` it only sets the mean, since a
    group may take arbitrarily long, and `max_lag` is the bound.
    """

    mode: str | None = _flag(
        None,
        "a combination of the settings below, each of which may be given besides: sync, one-step-off (groups of the "
        "next update are played while the learner computes), partial (APRIL: more groups than needed, those that are "
        "not finished go on), async, pinned (an episode keeps the weights that it began with); docs/clusters.md",
        choices=tuple(MODES),
    )
    lag: int = _flag(
        0,
        "most updates between the start of a group's episodes and training on it: (LAG + 1) x --groups groups are "
        "played at a time (rl/train/loop.py); 0 is on-policy, sampling and training take turns; with --order "
        "completion the mean and not the most",
        whole_number(0, MOST_LAG),
    )
    overlap: bool | None = _switch(
        "with --lag, go on sampling while the learner computes; a run then does not repeat bit for bit (default: with "
        "--lag, on an accelerator)",
        None,
    )
    over_provision: float = _flag(
        1.0,
        "play (LAG + X) x --groups groups at a time in place of (LAG + 1) x --groups: those that an update leaves "
        "over are continued, never thrown away",
        real_number(1, 16),
    )
    order: str = _flag(
        "admission",
        "the groups of an update: those that were started first, which are waited for, or those that ended first",
        choices=ORDERS,
    )
    in_flight: str = _flag(
        "continue",
        "what comes of episodes in flight when the weights change: they continue with the new ones behind the tokens "
        "that they have; or the change waits for their replies (drain-turns) or their ends (drain); or each group "
        "keeps the weights that it began with (pin)",
        choices=IN_FLIGHT,
    )
    max_lag: int | None = _flag(
        None, "a group that is more than so many updates old when it would be trained on is --stale", whole_number(0)
    )
    stale: str = _flag(
        "requeue",
        "what comes of a group beyond --max-lag: its task is played again, also if it is not finished yet; or it is "
        "dropped for another task; or its tokens that are too old are masked; or it is accepted, and counted",
        choices=STALE,
    )

    journal: bool = _switch(
        "record finished groups in OUT/journal as they end, so that --resume after a kill samples none of them again "
        "(docs/clusters.md)",
        False,
    )

    def outstanding(self, groups: int) -> int:
        """Return how many groups are open at most, being played or waiting, if an update takes `groups`."""
        return math.ceil((self.lag + self.over_provision) * groups)

    def description(self) -> str:
        """Return a line about what differs from taking turns; "" if nothing does."""
        if (self.lag, self.over_provision) == (0, 1.0):
            return ""
        words = {
            "continue": "go on with new weights",
            "drain-turns": "end their replies before the weights change",
            "drain": "end before the weights change",
            "pin": "keep the weights that they began with",
        }
        bound = "" if self.max_lag is None else f"; groups older than {self.max_lag} updates: {self.stale}"
        return (
            f"{self.mode or 'schedule'}: {self.lag + self.over_provision:g} updates' groups open at a time, taken in "
            f"the order of {self.order}; episodes in flight {words[self.in_flight]}{bound}"
        )


def with_mode(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings by name, with those that their `mode` stands for where they are not given themselves.

    The bound of the lag of partial and asynchronous runs is `max(4, 4 * lag)`: in a simulation with long tails less of
    it drops more than one group in a hundred, the long ones first.
    """
    mode = values.get("mode")
    if not mode:
        return dict(values)
    result = {**MODES[mode], **values}
    if mode in ("partial", "async"):
        result.setdefault("max_lag", max(LEAST_BOUND, 4 * result["lag"]))
    return result


def check_schedule(s: Schedule, *, engine: str, engines: int, groups: int) -> None:
    """Raise `ValueError` for settings that do not go together; `engine` and `engines` are those that sample."""
    if s.mode and MODES[s.mode]["lag"] and not s.lag:
        raise ValueError(f"--mode {s.mode} samples ahead, which --lag 0 forbids; take --lag 1 or more, or another mode")
    if s.mode == "sync" and s.lag:
        raise ValueError(f"--mode sync does not sample ahead, which --lag {s.lag} asks for; leave out one of them")
    if s.overlap and not s.lag:
        raise ValueError("--overlap: with --lag 0 sampling waits for the learner; add --lag 1 or more")
    if s.order == "completion" and s.outstanding(groups) <= groups:
        raise ValueError(
            "--order completion: with --lag 0 and --over-provision 1 an update takes every group, so there is no "
            "choice; add --lag 1 or --over-provision 1.5, or take --mode partial or async"
        )
    if s.max_lag is not None and s.max_lag < s.lag:
        raise ValueError(
            f"--max-lag {s.max_lag}: below --lag {s.lag}, which groups reach in the mean, so most would be too old; "
            "raise it or lower --lag"
        )
    if s.max_lag is None and s.stale != "requeue":
        raise ValueError(f"--stale {s.stale}: nothing is too old without a bound; add --max-lag N, such as 4")
    if s.in_flight == "pin" and (engine != "hf" or engines > 1):
        name = f"--engines {engines}" if engines > 1 else f"--engine {engine}"
        raise ValueError(
            f"--in-flight pin: old weights are kept by one engine hf in this process, not by {name}; leave it out, or "
            "take --in-flight drain"
        )
    if s.in_flight in ("drain", "pin") and s.stale == "mask":
        raise ValueError(
            f"--stale mask: with --in-flight {s.in_flight} all tokens of a group are equally old; take drop or requeue"
        )
