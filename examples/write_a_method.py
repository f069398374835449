"""A method in one file: GRPO that prefers to win in few turns, and what that changes in the advantages.

Train with it: python -m rl.train --env games/GuessNumber-v0 --algo examples/write_a_method.py
"""

from envs.types import Stop
from rl.methods import recipe as recipes
from rl.methods.recipes import grpo
from rl.records import Completion, Group, Ticket, Trajectory, Turn


def brisk(group: Group, *, price: float = 0.02) -> list[float]:
    """Take `price` from a success for each turn after the first; a failure pays nothing."""
    pairs = zip(group.rewards, group.trajectories, strict=True)
    return [reward - price * (len(t.turns) - 1) * t.success for reward, t in pairs]


recipe = grpo.recipe.but(shape=(brisk,))


def episode(turns: int, success: bool) -> Trajectory:
    """An episode with one token a turn."""
    token = Completion((7,), (-1.0,), (-1.0,), (0,))
    played = [Turn((1, 2), token) for _ in range(turns)]
    played[-1].reward = float(success)
    return Trajectory(played, Stop.TERMINATED, success=success)


def main() -> None:
    """Print the advantage of four episodes under both methods."""
    members = [(1, True), (3, True), (5, True), (5, False)]
    for name, method in (("grpo", recipes.load("grpo")), ("brisk", recipe)):
        group = Group(Ticket(0, 0, "train", 0, len(members)), [episode(*member) for member in members])
        for shape in method.shape:
            group.rewards = shape(group)
        credit = method.credit([group], method)[0]
        for (turns, won), advantage in zip(members, credit, strict=True):
            print(f"{name:6} {'won' if won else 'lost':5} after {turns}: {advantage[0]:+.2f}")


if __name__ == "__main__":
    main()
