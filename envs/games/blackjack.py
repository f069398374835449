"""Play blackjack hands: Gymnasium's Blackjack-v1 in words, dealt so that the best player can win them all."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count
from typing import Any

import gymnasium

from envs.games.game import checked
from envs.games.verbalised import LENGTHS, Verbalised
from envs.procedural import LazyTasks, digest
from envs.types import Message, Outcome, Task, assistant, user

KEY = "games/Blackjack-v0"
HANDS = range(1, 11)
POOL = {"train": 2_000, "val": 200, "test": 200}  # hands that a split's tasks are put together from
TURNS = 6  # most turns of a hand in the pools
STICK, HIT = 0, 1
CARDS = {card: 4 / 13 if card == 10 else 1 / 13 for card in range(1, 11)}  # drawn with replacement; 1 is an ace


class Blackjack(Verbalised):
    """Win several hands of blackjack in a row against a dealer who draws to 17.

    Observation: the player's sum and the dealer's open card, `15 v 10`; `soft 15 v A` where an ace counts as 11. After
    a hand that is won, the next: `won; 12 v 6`.
    Action: `stick` or `hit`; longer replies are read as `Verbalised` says.
    Reward: 1 for winning the last hand, else 0. A draw is no win.
    Metrics: `points`, the game's own reward: 1 a hand won, -1 a hand lost; `hands`, how many are won so far.
    Episode end: terminated by a hand that is not won, or by the last one; truncated after `max_turns`.
    Arguments: `hands` to win; `fair`: all hands, as they come, so that nobody, the oracle included, wins them all;
    `explain`: the rules open the episode.
    Splits: a hand stands in one split only. A hand is a seed of the game, and its cards come in the same order each
    time. Only hands are dealt that the best policy wins which cannot see what is to come: the one that `chances`
    computes, and that the oracle plays. So a policy that reads nothing but the table can win every task; the share of
    hands in which sticking is right is higher than in a casino.
    State: the task, the hand's number, what lies on the table.
    Source and licence: gymnasium's toy_text (MIT), after Sutton and Barto, example 5.1. Version history: v0.
    """

    game = "Blackjack-v1"
    actions = ("stick", "hit")
    rules = (
        "You play blackjack. Each turn you see your sum and the dealer's open card; 'soft' means that an ace of yours "
        "counts as 11 and may still count as 1. Above 21 you lose; when you stick, the dealer draws up to 17 or more, "
        "and the higher sum wins. Win every hand. Reply with one word a turn: stick or hit."
    )

    def __init__(self, *, hands: int = 4, fair: bool = False, max_turns: int | None = None, **own: Any) -> None:
        self.hands, self.fair = checked("hands", hands, HANDS), bool(fair)
        super().__init__(max_turns=TURNS * self.hands if max_turns is None else max_turns, **own)

    def tasks(self, split: str) -> Sequence[Task]:
        """Hands of the split's pool."""
        return LazyTasks(split, LENGTHS[split], lambda i: Task("", metadata={"seeds": self._seeds(split, i)}))

    def begin(self) -> Any:
        """Deal the first hand."""
        self.hand = 0
        return super().begin()

    def luck(self) -> int:
        """The seed of the present hand."""
        return self.task.metadata["seeds"][self.hand]

    def describe(self, observation: Any) -> str:
        """The table."""
        total, card, soft = observation
        return f"{'soft ' * bool(soft)}{total} v {'A' if card == 1 else card}"

    def state(self) -> str:
        """The task, the hand and the table."""
        return f"{self.task.id} {self.hand} {self.describe(self.observation)}"

    def won(self, reward: float, terminated: bool) -> bool:
        """Whether the last hand is won."""
        return terminated and reward > 0 and self.hand + 1 == self.hands

    def reply(self, action: Message) -> Outcome:
        """Play, and deal the next hand after one that is won."""
        outcome = super().reply(action)
        hand_won = outcome.metrics.get("points", 0.0) > 0
        metrics = {**outcome.metrics, "hands": self.hand + hand_won}
        if not hand_won or outcome.success:
            return replace(outcome, metrics=metrics)
        self.hand += 1
        assert self.inner is not None
        self.observation = self.inner.reset(seed=self.luck())[0]
        return Outcome((user(f"won; {self.describe(self.observation)}"),), metrics=metrics)

    def oracle(self) -> Iterator[Message]:
        """The best policy that cannot see what is to come."""
        while True:
            yield assistant(self.actions[best(self.observation)])

    def _seeds(self, split: str, index: int) -> list[int]:
        """Hand `index` of the pool first, so that no hand of it is left out; then hands by chance."""
        hands = [index % POOL[split], *(digest(KEY, split, index, n) % POOL[split] for n in range(1, self.hands))]
        return [_seed(split, hand, 0) if self.fair else winnable(split, hand) for hand in hands]


@lru_cache(maxsize=4096)
def winnable(split: str, hand: int) -> int:
    """The seed of a hand that `best` wins within `TURNS` turns; other hands of other splits have others."""
    game = gymnasium.make(Blackjack.game, disable_env_checker=True)
    for attempt in count():
        seed = _seed(split, hand, attempt)
        table = game.reset(seed=seed)[0]
        for _ in range(TURNS):
            table, reward, over, _, _ = game.step(best(table))
            if over:
                break
        if over and float(reward) > 0:
            break
    game.close()
    return seed


@lru_cache(maxsize=1024)
def best(table: tuple[int, int, int]) -> int:
    """`HIT` or `STICK`, whichever wins more often: the player's sum, the dealer's open card, whether an ace is soft."""
    total, card, soft = table
    stick, hit = chances(total - 10 * soft, bool(soft), card)
    return HIT if hit > stick else STICK


@lru_cache(maxsize=1024)
def chances(total: int, ace: bool, card: int) -> tuple[float, float]:
    """The chance to win by sticking, and by hitting once and playing on at best.

    `total` counts aces as 1; `ace` says that there is one; `card` is the dealer's. Backward induction over the cards.
    """
    mine = _value(total, ace)
    stick = sum(share for final, share in _dealt(card, card == 1, True) if final < mine or final > 21)
    hit = sum(
        share * max(chances(total + drawn, ace or drawn == 1, card))
        for drawn, share in CARDS.items()
        if total + drawn <= 21
    )
    return stick, hit


@lru_cache(maxsize=1024)
def _dealt(total: int, ace: bool, first: bool = False) -> tuple[tuple[int, float], ...]:
    """The dealer's final sums, busts included, each with its chance."""
    if _value(total, ace) >= 17 and not first:
        return ((_value(total, ace), 1.0),)
    return tuple(
        (final, share * further)
        for drawn, share in CARDS.items()
        for final, further in _dealt(total + drawn, ace or drawn == 1)
    )


def _value(total: int, ace: bool) -> int:
    return total + 10 if ace and total <= 11 else total


def _seed(split: str, hand: int, attempt: int) -> int:
    return digest(KEY, split, hand, attempt) >> 33
