"""A method in one file: GRPO with a price per turn. Running it prints how the advantages change.

Train with it: python -m rl.train --env games/GuessNumber-v0 --algo examples/write_a_method.py
"""

from envs.types import Stop
from rl.methods import recipe as recipes
from rl.recipes import grpo
from rl.records import Completion, Group, Ticket, Trajectory, Turn


def brisk(group: Group, *, price: float = 0.02) -> list[float]:
    """Subtract `price` from the reward of a success for each turn after the first."""
    pairs = zip(group.rewards, group.trajectories, strict=True)
    return [reward - price * (len(t.turns) - 1) * t.success for reward, t in pairs]


recipe = grpo.recipe.but(shape=(brisk,))


def make_episode(num_turns: int, success: bool) -> Trajectory:
    """Make an episode with one token per turn."""
    token = Completion((7,), (-1.0,), (-1.0,), (0,))
    turns = [Turn((1, 2), token) for _ in range(num_turns)]
    turns[-1].reward = float(success)
    return Trajectory(turns, Stop.TERMINATED, success=success)


def main() -> None:
    """Print the advantage of four episodes under both methods."""
    members = [(1, True), (3, True), (5, True), (5, False)]
    for name, method in (("grpo", recipes.load("grpo")), ("brisk", recipe)):
        group = Group(Ticket(0, 0, "train", 0, len(members)), [make_episode(*member) for member in members])
        for shape in method.shape:
            group.rewards = shape(group)
        credit = method.credit([group], method.normalization)[0]
        for (turns, won), advantage in zip(members, credit, strict=True):
            print(f"{name:6} {'won' if won else 'lost':5} after {turns}: {advantage[0]:+.2f}")


if __name__ == "__main__":
    main()
