"""The metrics of an update that are computed from its rollouts."""

from __future__ import annotations

from collections.abc import Sequence

from agents.extension import ROLE, asks_for_more
from envs.types import Stop
from rl.records import Group, Trajectory

TRUNCATIONS = (Stop.TURN_LIMIT, Stop.TOKEN_LIMIT, Stop.TIME_LIMIT)


def rollout_metrics(groups: list[Group], training_groups: list[Group]) -> dict[str, float]:
    """Return the metrics of an update that need only its episodes, by name: rewards, success, counts and times.

    The names are those of `docs/metrics.md`, such as `reward/mean`, `groups/kept`, `turns/invalid`, `tokens/sampled`,
    `time/env_s`, for each named component of the reward `rewards/NAME`, and those of `seat_metrics`. `groups` are all
    groups that the update used up, `training_groups` those among them that it trained on. Rewards are those of all
    groups before shaping. Replayed trajectories only count in `episodes/replayed`.
    """
    members_by_group = [[member for member in group.trajectories if not member.replayed] for group in groups]
    trajectories = [trajectory for members in members_by_group for trajectory in members]
    own_others = [trajectory for group in groups for trajectory in group.others if not trajectory.player]  # own replies
    turns = [turn for trajectory in trajectories for turn in trajectory.turns]
    replies = [turn for turn in turns if not turn.internal]
    n = max(len(trajectories), 1)
    has_variance = [len({trajectory.reward for trajectory in members}) > 1 for members in members_by_group]
    metrics = {
        "reward/mean": sum(t.reward for t in trajectories) / n,
        "success/mean": sum(t.success for t in trajectories) / n,
        "episodes/played": float(len(trajectories)),
        "episodes/policy_faults": float(sum(t.stop == Stop.POLICY_FAULT for t in trajectories)),
        "episodes/errored": float(sum(map(num_errored, groups))),
        "attempts/errored": float(sum(len(group.errored) for group in groups)),
        "episodes/replayed": float(sum(len(group.trajectories) for group in groups) - len(trajectories)),
        "groups/kept": float(len(training_groups)),
        "groups/played": float(len(groups)),
        "groups/zero_variance": 1 - sum(has_variance) / max(len(has_variance), 1),
        "groups/unsolved": sum(not any(t.success for t in own) for own in members_by_group) / max(len(groups), 1),
        "turns/mean": len(replies) / n,
        "turns/invalid": sum(not turn.valid for turn in replies) / max(len(replies), 1),
        "tokens/sampled": float(sum(t.num_new_sampled for t in (*trajectories, *own_others))),
        "tokens/reply": sum(len(turn.completion.ids) for turn in turns) / max(len(turns), 1),
        "truncated/mean": sum(t.stop in TRUNCATIONS for t in trajectories) / n,
        "truncated/tokens": sum(t.stop == Stop.TOKEN_LIMIT for t in trajectories) / n,
        "replies/cut": sum(turn.completion.finish == "length" for turn in replies) / max(len(replies), 1),
        "time/env_s": sum(turn.env_s for turn in turns),
    }
    if demonstrations := sum(bool(t.player) for t in trajectories):
        metrics["episodes/demonstrated"] = float(demonstrations)
    if num_reused := sum(turn.completion.num_verified for turn in turns):
        metrics["tokens/reused"] = float(num_reused)
    answers = [turn.reply for turn in turns if turn.role == ROLE and turn.reply is not None]
    if answers:
        metrics["extensions/asked"] = len(answers) / n
        metrics["extensions/granted"] = sum(map(asks_for_more, answers)) / n
    names = sorted({name for turn in turns for name in turn.rewards})
    for name in names:
        metrics[f"rewards/{name}"] = sum(turn.rewards.get(name, 0.0) for turn in turns) / n
    return {**metrics, **verdict_metrics(trajectories), **seat_metrics(trajectories), **spare_metrics(groups)}


def verdict_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return what verdict parts found, `judge/NAME`: the mean over the episodes with that metric; their share as well.

    An episode's value is the largest of its turns. `judge/asked` is the share of episodes with any; empty without one.
    """
    of_each = [
        [(n, v) for turn in t.turns for n, v in turn.metrics.items() if n.startswith("judge/")] for t in trajectories
    ]
    if not any(of_each):
        return {}
    largest = [{name: max(v for n, v in pairs if n == name) for name, _ in pairs} for pairs in of_each]
    names = sorted({name for values in largest for name in values})
    metrics = {"judge/asked": sum(map(bool, largest)) / len(largest)}
    for name in names:
        values = [one[name] for one in largest if name in one]
        metrics[name] = sum(values) / len(values)
    return metrics


def spare_metrics(groups: Sequence[Group]) -> dict[str, float]:
    """Return the metrics of spare members (`--strategy redundant`), `spares/...`; empty where none was played.

    `spares/length_gap` compares the members of groups that have thrown some away: the mean number of sampled tokens of
    those that were used, less that of the others as far as they came.
    """
    of_groups = [(group.ticket, t) for group in groups for t in (*group.trajectories, *group.errored, *group.others)]
    spares = {(ticket.number, t.member) for ticket, t in of_groups if t.spare and t.member >= ticket.size}
    surplus = [t for group in groups for t in group.others if t.spare and not t.player]
    if not (spares or surplus):
        return {}
    team = [t for group in groups if any(other.spare for other in group.others) for t in group.trajectories]
    metrics = {
        "spares/played": float(len(spares)),
        "spares/used": float(len({(g.ticket.number, t.member) for g in groups for t in g.trajectories if t.spare})),
        "spares/tokens": float(sum(t.num_new_sampled for t in surplus)),
    }
    if surplus and team:
        means = [sum(t.num_new_sampled for t in side) / len(side) for side in (team, surplus)]
        metrics["spares/length_gap"] = means[0] - means[1]
    return metrics


def seat_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Return mean return, success and count of the episodes of each seat, as `seats/NAME/reward` and so on.

    Empty in an environment of one agent.
    """
    metrics, seats = {}, sorted({trajectory.agent for trajectory in trajectories})
    for seat in seats if seats != ["agent"] else ():
        of_seat = [trajectory for trajectory in trajectories if trajectory.agent == seat]
        metrics[f"seats/{seat}/reward"] = sum(t.reward for t in of_seat) / len(of_seat)
        metrics[f"seats/{seat}/success"] = sum(t.success for t in of_seat) / len(of_seat)
        metrics[f"seats/{seat}/episodes"] = float(len(of_seat))
    return metrics


def num_errored(group: Group) -> int:
    """Return how many members of a group have only errored attempts; retries that were needed do not count."""
    return len({t.member for t in group.errored} - {t.member for t in group.trajectories if not t.replayed})
