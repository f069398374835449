"""What a run's own measurements suggest, said once: docs/choosing_a_method.md has the reasons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf, sqrt

from rl.checks.parts import RecipeFault
from rl.checks.recipe import learns_from_single_episodes
from rl.methods.conflicts import has
from rl.methods.parts import STATES
from rl.methods.recipe import Recipe

UPDATE = 20  # after which the advice is given
FEW, MANY = 1 / 4, 8  # noise scales, in groups of an update, that are worth a word
SHARED, SETTLED, LUCKY = 0.3, 0.2, 0.4  # shares from which values of shared states are worth a word
UNREAD = 0.2  # share of verdicts that are missing that is worth a word
EQUAL = 0.5  # share of groups with equal rewards that is worth a word
SWING = 0.4  # by which a seat's success, less the mean of all seats, has to rise and to fall to be worth a word

NAMES = (
    "gradient/signal",
    "gradient/noise",
    "states/shared",
    "states/luck",
    "states/explained",
    "groups/zero_variance",
    "episodes/demonstrated",
    "judge/unread",
    "judge/too_long",
)


class Advice:
    """Collects the metrics of the first updates of a run, or of those since it was resumed."""

    def __init__(
        self, groups: int, *, compares_states: bool, compares_members: bool = True, is_self_play: bool = False
    ) -> None:
        """Take the number of groups of an update, and what is known of the run.

        Args:
            groups: Groups of an update.
            compares_states: Whether the recipe's credit compares turns by their state.
            compares_members: Whether it learns by comparing the members of a group, and not from equal rewards.
            is_self_play: Whether the policy plays all seats of a game, without opponents.
        """
        self.groups, self.compares_states, self.is_self_play = groups, compares_states, is_self_play
        self.compares_members = compares_members
        self._sums: dict[str, float] = {}
        self._counts: dict[str, int] = {}
        self._seats: dict[str, list[float]] = {}  # success of each seat in each update, less the mean of all seats
        self._fewest = inf  # episodes of a seat in an update

    @classmethod
    def of(cls, recipe: Recipe, groups: int, *, is_self_play: bool) -> Advice:
        """Return the advice on runs of `recipe` with so many groups in an update."""
        try:
            compares_members = not learns_from_single_episodes(recipe)
        except RecipeFault:  # parts of one's own may need more members than one, or the environment's own texts
            compares_members = True
        compares_states = has(recipe, STATES)
        return cls(
            groups, compares_states=compares_states, compares_members=compares_members, is_self_play=is_self_play
        )

    def add(self, metrics: Mapping[str, float]) -> str:
        """Add an update; return one line where it is the one after which advice is given and there is any, else ""."""
        if metrics["update"] > UPDATE:
            return ""
        for name in NAMES:
            if name in metrics:
                self._sums[name] = self._sums.get(name, 0.0) + metrics[name]
                self._counts[name] = self._counts.get(name, 0) + 1
        if self.is_self_play:
            self._add_seats(metrics)
        return "; ".join(self._sentences()) if metrics["update"] == UPDATE else ""

    def _add_seats(self, metrics: Mapping[str, float]) -> None:
        names = [name for name in metrics if name.startswith("seats/") and name.endswith("/success")]
        success = {name.removeprefix("seats/").removesuffix("/success"): metrics[name] for name in names}
        for name in success:
            self._seats.setdefault(name, []).append(success[name] - sum(success.values()) / len(success))
            self._fewest = min(self._fewest, metrics.get(f"seats/{name}/episodes", inf))

    def _mean(self, name: str) -> float:
        return self._sums[name] / self._counts[name] if name in self._sums else 0.0

    def _sentences(self) -> list[str]:
        lines = []
        signal, noise, used = self._mean("gradient/signal"), self._mean("gradient/noise"), self.groups
        if noise > 0 and signal > 0:
            scale = noise / signal
            if scale < FEW * used:
                lines.append(f"noise scale {scale:.0f} groups, {used} used: fewer --groups learn as much per update")
            elif scale > MANY * used:
                lines.append(f"noise scale {scale:.0f} groups, {used} used: more --groups or finer credit reduce noise")
        share, luck, gain = (self._mean(f"states/{name}") for name in ("shared", "luck", "explained"))
        if not self.compares_states and share >= SHARED and (gain >= SETTLED or luck >= LUCKY):
            lines.append(f"{share:.0%} of turns stand in shared states: --algo graph compares these")
        is_imitation = self._mean("episodes/demonstrated") > 0
        if self.compares_members and (equal := self._mean("groups/zero_variance")) > EQUAL and not is_imitation:
            lines.append(f"{equal:.0%} of groups have equal rewards: other tasks or a larger --size would teach more")
        if (unread := self._mean("judge/unread")) > UNREAD:
            lines.append(f"{unread:.0%} of the judge's replies state no verdict: it may need a larger max_tokens=")
        if (too_long := self._mean("judge/too_long")) > UNREAD:
            lines.append(f"{too_long:.0%} of the episodes are too long for the judge: give it a longer context")
        chance = 4 * 0.5 / sqrt(self._fewest)  # four deviations of the share that a fair coin wins
        if any(_swings(values, max(SWING, chance)) for values in self._seats.values()):
            lines.append(
                "the seats win in turn, each by what beats the other's latest play: with --opponent they meet a script "
                "of the game, which stays as it is, or a pool of their past weights"
            )
        return lines


def _swings(values: Sequence[float], swing: float) -> bool:
    """Whether a series falls by `swing` somewhere and rises by as much elsewhere, in whatever order."""
    low = high = values[0]
    fall = rise = 0.0
    for value in values:
        low, high = min(low, value), max(high, value)
        fall, rise = max(fall, high - value), max(rise, value - low)
    return min(fall, rise) >= swing
