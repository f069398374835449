"""Write trajectories as JSON lines, the format of `rollouts/update-N.jsonl` (docs/metrics.md)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from rl.records import Group, Trajectory


def lines(update: int, env: str, groups: Iterable[Group]) -> Iterator[str]:
    """Yield one JSON object per trajectory of an update, group by group, a group's errored ones last.

    Each is text without a line break. `update` is the update's number and `env` the environment's name, as the objects
    state them. The "shaped_reward" of an errored trajectory is null.
    """
    for group in groups:
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            yield _json(_record(update, env, group, trajectory, reward))
        for trajectory in group.errored:
            yield _json(_record(update, env, group, trajectory, None))


def _json(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False, default=_json_default)


def _record(update: int, env: str, group: Group, trajectory: Trajectory, shaped_reward: float | None) -> dict[str, Any]:
    ticket = group.ticket
    return {
        "update": update,
        "env": env,
        "group": ticket.number,
        "index": ticket.index,
        "split": ticket.split,
        "task": trajectory.task,
        "member": trajectory.member,
        "agent": trajectory.agent,
        "seed": trajectory.seed,
        "version": ticket.version,
        "stop": str(trajectory.stop),
        "success": trajectory.success,
        "reward": trajectory.reward,
        "shaped_reward": shaped_reward,
        "error": trajectory.error,
        "fork": trajectory.fork and trajectory.fork._asdict(),
        "replayed": trajectory.replayed,
        "answer": trajectory.answer,
        "turns": [
            {
                "observation": list(turn.observation),
                "reply": turn.reply,
                "reward": turn.reward,
                "rewards": dict(turn.rewards),
                "state": turn.state,
                "valid": turn.valid,
                "fresh": turn.fresh,
                "finish": turn.completion.finish,
                "context_ids": list(turn.context),
                "ids": list(turn.completion.ids),
                "logprobs": [round(x, 5) for x in turn.completion.logprobs],
                "versions": sorted(set(turn.completion.versions)),
                "metrics": dict(turn.metrics),
                "sample_s": round(turn.sample_s, 4),
                "env_s": round(turn.env_s, 4),
                **{name: [round(float(x), 5) for x in values] for name, values in turn.streams.items()},
            }
            for turn in trajectory.turns
        ],
        "final": list(trajectory.final),
    }


def _json_default(value: Any) -> Any:
    """Convert what JSON cannot hold: a NumPy scalar to its number, anything else to its `repr`."""
    return value.item() if getattr(value, "shape", None) == () else repr(value)
