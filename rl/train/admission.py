"""How many groups may be opened, so that none is older than `--lag` updates when it is trained on."""

from __future__ import annotations


def capacity(
    lag: int, groups: int, update: int, *, usable: int, running: int, concurrency: float = float("inf")
) -> int:
    """Return how many groups may be opened now; a negative number says how many are open beyond the limit.

    AReaL's rule (arXiv:2505.24298, section 5.1): the groups that were ever opened for training may be those of
    `lag + 1` updates more than the `update` that have been made, `groups` each. So a group that is opened now is
    trained on at most `lag` updates later. `usable` counts the groups of all updates so far and those that have ended
    and wait, `running` those that are being played, of which there are never more than `concurrency`.
    """
    return int(min(concurrency - running, (lag + update + 1) * groups - (usable + running)))
