"""Blackjack: Gymnasium's Blackjack-v1 as text, with hands that the best policy is known to win."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import count as count_from
from types import MappingProxyType
from typing import Any

import gymnasium
from gymnasium.envs.toy_text.blackjack import sum_hand

from envs.episodes.guide import Guide, count, listing
from envs.games.game import check_range
from envs.games.verbalised import LENGTHS, Verbalised
from envs.procedural import LazyTasks, digest
from envs.types import Message, Outcome, Task, assistant, user

KEY = "games/Blackjack-v0"
HANDS = range(1, 11)
POOL_SIZES = {"train": 2_000, "val": 200, "test": 200}  # hands of which the tasks of a split consist
TURNS_PER_HAND = 6  # limit of turns for a hand in the pools
STICK, HIT = 0, 1
# Cards are drawn with replacement; 1 is an ace.
CARD_PROBABILITIES = {card: 4 / 13 if card == 10 else 1 / 13 for card in range(1, 11)}


class Blackjack(Verbalised):
    """Win several hands of blackjack in a row against a dealer who draws to 17.

    Observation: the player's sum and the dealer's open card, `15 v 10`; `soft 15 v A` where an ace counts as 11. After
    a hand that is won, the next hand: `won; 12 v 6`. In full style the instructions first, and sentences.
    Action: `stick` or `hit`; longer replies are read as `Verbalised` says.
    Reward: 1 for winning the last hand, else 0. A draw is no win.
    Metrics: `points`, the game's own in the episode so far: 1 for a hand won, -1 for a hand lost; `hands`, the number
    won so far.
    Episode end: terminated by a hand that is not won, or by the last one; truncated after `max_turns`.
    Arguments: `hands`, the number of hands to win; `fair`: hands are not selected, so that no policy, not even the
    oracle, wins all tasks.
    Splits: a hand is in one split only. A hand is a seed of the game, so its cards come in the same order each time.
    Only hands are dealt that are won by the best policy that does not know the coming cards; `win_probabilities`
    computes this policy, and the oracle plays it. So a policy that sees only the table can win every task; sticking is
    right in a larger share of the hands than in a casino.
    State: the task, the number of the hand and the table.
    Source and licence: gymnasium's toy_text (MIT), after Sutton and Barto, example 5.1. Version history: v0.
    """

    game = "Blackjack-v1"
    actions = ("stick", "hit")
    synonyms = MappingProxyType(
        {
            **dict.fromkeys(("stand", "stands", "standing", "stay", "stays", "hold", "sticks", "sticking"), "stick"),
            **dict.fromkeys(("hits", "hitting"), "hit"),
        }
    )
    rules = (
        "You play blackjack. Each turn you see your sum and the dealer's open card; 'soft' means that an ace of yours "
        "counts as 11 and may still count as 1. Above 21 you lose; when you stick, the dealer draws up to 17 or more, "
        "and the higher sum wins. Win every hand. Reply with one word a turn: stick or hit."
    )

    def __init__(self, *, hands: int = 4, fair: bool = False, max_turns: int | None = None, **kwargs: Any) -> None:
        self.hands, self.fair = check_range("hands", hands, HANDS), bool(fair)
        self.hand_points = 0.0  # the game's own reward of the last turn
        super().__init__(max_turns=TURNS_PER_HAND * self.hands if max_turns is None else max_turns, **kwargs)

    def guide(self) -> Guide:
        """Say how blackjack is played here, and how many hands have to be won."""
        return self.action_guide(
            goal=(
                f"Play blackjack and win {count(self.hands, 'hand')}{' in a row' * (self.hands > 1)}. You succeed if "
                "you win every hand; a hand that ends in a draw is not won."
            ),
            rules=(
                "You see the sum of your cards and one of the dealer's two cards. Number cards count their number, "
                "jack, queen and king count 10, and an ace counts 11 if that does not bring the sum above 21, and 1 "
                "otherwise. Hit draws one more card. If your sum is then above 21, you lose the hand. Stick ends your "
                "turn: the dealer draws until their sum is 17 or more. If it is above 21, or below yours, you win; if "
                "it equals yours, it is a draw. Cards are drawn with replacement, as from an endless deck."
            ),
            reply="Reply with one action: stick (also called stand) or hit. Only one action counts per reply.",
            example="hit",
            ending="The episode ends with the first hand that you do not win, or when all hands are won.",
            heading="The table:",
        )

    def tasks(self, split: str) -> Sequence[Task]:
        """Return lists of hands from the pool of the split."""
        return LazyTasks(split, LENGTHS[split], lambda i: Task("", metadata={"seeds": self._seeds(split, i)}))

    def reset_game(self) -> Any:
        """Deal the first hand and return the table."""
        self.hand = 0
        return super().reset_game()

    def game_seed(self) -> int:
        """Seed of the current hand."""
        return self.task.metadata["seeds"][self.hand]

    def describe(self, observation: Any) -> str:
        """Describe the table: the player's sum and the dealer's open card."""
        if self.style != "full":
            return self._table_text(observation)
        total, card, soft = observation
        ace = ", with an ace that counts 11" * bool(soft)
        dealer = {1: "an ace", 8: "an 8"}.get(card, f"a {card}")
        return f"Hand {self.hand + 1} of {self.hands}. Your sum is {total}{ace}. The dealer shows {dealer}."

    def _table_text(self, observation: Any) -> str:
        total, card, soft = observation
        return f"{'soft ' * bool(soft)}{total} v {'A' if card == 1 else card}"

    def state(self) -> str:
        """Return the task, the number of the hand and the table."""
        return f"{self.task.id} {self.hand} {self._table_text(self.observation)}"

    def is_won(self, reward: float, terminated: bool) -> bool:
        """Whether the turn wins the last hand."""
        return terminated and reward > 0 and self.hand + 1 == self.hands

    def reply(self, action: Message) -> Outcome:
        """Stick or hit; after a hand that is won, deal the next one."""
        points_before = self.points
        outcome = super().reply(action)
        self.hand_points = self.points - points_before
        hand_won = self.hand_points > 0
        metrics = {**outcome.metrics, "hands": self.hand + hand_won}
        if not hand_won or outcome.success:
            return replace(outcome, metrics=metrics)
        last_sums = self._sums()
        self.hand += 1
        assert self.inner is not None
        self.observation = self.inner.reset(seed=self.game_seed())[0]
        prefix = f"{last_sums} You have won the hand." if self.style == "full" else "won;"
        return Outcome((user(f"{prefix} {self.describe(self.observation)}"),), metrics=metrics)

    def ending(self, outcome: Outcome) -> str:
        """Say what both have, and how the hand has ended."""
        if outcome.success:
            return f"{self._sums()} You have won {'all hands' if self.hands > 1 else 'the hand'}."
        is_draw = self.hand_points == 0
        return f"{self._sums()} {'The hand is a draw, which is not won' if is_draw else 'You have lost the hand'}."

    def _sums(self) -> str:
        """Say the sums of both hands after the dealer's draws, and the dealer's cards."""
        assert self.inner is not None
        world: Any = self.inner.unwrapped
        own, dealer = sum_hand(world.player), sum_hand(world.dealer)
        if own > 21:
            return f"Your sum is {own}, above 21."
        cards = listing("ace" if card == 1 else card for card in world.dealer)
        return f"Your sum is {own}. The dealer's cards are {cards}, {dealer} in all{', above 21' * (dealer > 21)}."

    def oracle(self) -> Iterator[Message]:
        """Yield the actions of the best policy that does not know the coming cards."""
        while True:
            yield assistant(self.actions[best_action(self.observation)])

    def _seeds(self, split: str, index: int) -> list[int]:
        """Return the seeds of a task: hand `index` of the pool, so that every hand is used, then random hands."""
        hands = [
            index % POOL_SIZES[split],
            *(digest(KEY, split, index, n) % POOL_SIZES[split] for n in range(1, self.hands)),
        ]
        return [_seed(split, hand, 0) if self.fair else winnable_seed(split, hand) for hand in hands]


@lru_cache(maxsize=4096)
def winnable_seed(split: str, hand: int) -> int:
    """Return the first seed of this hand with which `best_action` wins within `TURNS_PER_HAND` turns."""
    game = gymnasium.make(Blackjack.game, disable_env_checker=True)
    for attempt in count_from():
        seed = _seed(split, hand, attempt)
        table = game.reset(seed=seed)[0]
        for _ in range(TURNS_PER_HAND):
            table, reward, terminated, _, _ = game.step(best_action(table))
            if terminated:
                break
        if terminated and float(reward) > 0:
            break
    game.close()
    return seed


@lru_cache(maxsize=1024)
def best_action(table: tuple[int, int, int]) -> int:
    """Return `HIT` or `STICK`, whichever wins more often.

    `table` is the game's observation: the player's sum, the dealer's open card, whether an ace counts as 11.
    """
    total, card, soft = table
    stick, hit = win_probabilities(total - 10 * soft, bool(soft), card)
    return HIT if hit > stick else STICK


@lru_cache(maxsize=1024)
def win_probabilities(total: int, ace: bool, card: int) -> tuple[float, float]:
    """Return the probability to win by sticking, and by hitting once and then playing optimally.

    Args:
        total: The player's sum with all aces counted as 1.
        ace: Whether the player has an ace.
        card: The dealer's open card; 1 is an ace.

    Computed by backward induction over the cards.
    """
    player_sum = _value(total, ace)
    stick = sum(
        probability for final, probability in _dealer_sums(card, card == 1, True) if final < player_sum or final > 21
    )
    hit = sum(
        probability * max(win_probabilities(total + rank, ace or rank == 1, card))
        for rank, probability in CARD_PROBABILITIES.items()
        if total + rank <= 21
    )
    return stick, hit


@lru_cache(maxsize=1024)
def _dealer_sums(total: int, ace: bool, first: bool = False) -> tuple[tuple[int, float], ...]:
    """Return (final sum, probability) pairs of the dealer's play, sums above 21 included.

    A sum may occur repeatedly.
    """
    if _value(total, ace) >= 17 and not first:
        return ((_value(total, ace), 1.0),)
    return tuple(
        (final, probability * later_probability)
        for card, probability in CARD_PROBABILITIES.items()
        for final, later_probability in _dealer_sums(total + card, ace or card == 1)
    )


def _value(total: int, ace: bool) -> int:
    return total + 10 if ace and total <= 11 else total


def _seed(split: str, hand: int, attempt: int) -> int:
    return digest(KEY, split, hand, attempt) >> 33
