"""Environments of several seats: those in which an untrained model gets rewards, as in `tests.support.tasks`, and a game."""

from __future__ import annotations

from envs.multi.multi_env import MultiEnv
from envs.multi.round import Round
from envs.types import Task, assistant, final_line, text, user
from tests.support.tasks import low


class Lows(MultiEnv):
    """Two seats reply in turn, twice each; each is paid the share of low characters of its own replies."""

    max_turns, max_return = 2, 2.0

    def __init__(self, *, unpaid: str = "", **limits):
        super().__init__(**limits)
        self.unpaid = unpaid

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"{split[0]}{i}"),)) for i in range(12)]

    def reply(self, replies):
        ((seat, reply),) = replies.items()
        other = self.seats[1 - self.seats.index(seat)]
        share = low(text(reply)) * (seat != self.unpaid)
        is_over = self.rounds == 3
        rewards = {seat: share}
        success = {one: share >= 0.5 for one in self.seats} if is_over else {}
        return Round({one: (user("."),) for one in self.seats}, rewards, () if is_over else (other,), success=success)

    def state(self):
        return str(self.rounds)

    def oracle(self, seat):
        return assistant("1")


class Team(Lows):
    """The same for teammates: both are paid for every reply."""

    teammates = True

    def reply(self, replies):
        one = super().reply(replies)
        (share,) = one.rewards.values()
        one.rewards.update(dict.fromkeys(self.seats, share))
        return one


class Lifeboat(MultiEnv):
    """Every seat names a digit; the lowest leaves; a guest joins after two rounds."""

    seats, guests = ("player_0", "player_1", "player_2", "guest_0"), ("guest_0",)

    def tasks(self, split):
        return [Task(f"{split}/0", (user(f"a digit, {split}"),))]

    def start(self):
        here = self.seats[:3]
        return Round({seat: (user(f"a digit. secret {seat}"),) for seat in here}, to_move=here)

    def reply(self, replies):
        digits = {seat: final_line(message) for seat, message in replies.items()}
        lowest = min(digits, key=lambda seat: (digits[seat], seat))
        stay = [seat for seat in self.live if seat != lowest] + ["guest_0"] * (self.rounds == 1)
        messages = {seat: (user("go on"),) for seat in stay}
        if len(stay) < 2:
            return Round(messages, {stay[0]: 1.0}, success={stay[0]: True})
        return Round(messages, {lowest: -1.0}, stay, leave=[lowest])

    def oracle(self, seat):
        return assistant("9")
