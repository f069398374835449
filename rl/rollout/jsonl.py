"""Trajectories as JSON lines, the format of `rollouts/update-N.jsonl` (docs/metrics.md), plain or compressed."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from rl import checksums
from rl.records import Group, Trajectory, Turn
from rl.rollout.image_files import with_images

# A record is built here and contains itself nowhere, so that the encoder need not look for circles.
_ENCODER = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=lambda value: _json_default(value))


def lines(
    update: int, env: str, groups: Iterable[Group], store_image: Callable[[str], str] | None = None
) -> Iterator[str]:
    """Yield one JSON object per trajectory of an update, group by group, a group's errored ones last.

    Each is text without a line break. `update` is the update's number and `env` the environment's name, as the objects
    state them. The "shaped_reward" of an errored trajectory, and of an opponent's, is null. "player" and "spare" are
    there only if the trajectory has them. `store_image` puts an image elsewhere and returns what stands for it
    (`rl.rollout.image_files`); without it images stand in the lines.
    """
    store, encode = store_image or str, _ENCODER.encode
    for group in groups:
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            yield encode(_record(update, env, group, trajectory, reward, store))
        for trajectory in (*group.errored, *group.others):
            yield encode(_record(update, env, group, trajectory, None, store))


def read_file(path: Path) -> tuple[bytes, str]:
    """Return the content of a file of rollouts, and a line about damage to it, "" if there is none to be seen.

    A file whose name ends with `.gz` is unpacked; if that fails, the content is empty. The content is compared with its
    digest, if the run that wrote the file has left one beside it. Raises `OSError` if the file cannot be read.
    """
    content = checksums.read_file(path)
    if path.suffix == ".gz":
        try:
            content = gzip.decompress(content)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            return b"", f"{path.name} is damaged and cannot be unpacked: {error}"
    digests = path.with_name(checksums.NAME)
    try:
        value = checksums.read(digests).get(path.name.removesuffix(".gz")) if digests.is_file() else None
    except checksums.DamagedFile as error:
        return content, f"{error}, so {path.name} cannot be checked"
    if value not in (None, checksums.digest(content)):
        return content, f"{path.name} is damaged: it is not what the run wrote (wrong SHA-256)"
    return content, ""


def _record(
    update: int,
    env: str,
    group: Group,
    trajectory: Trajectory,
    shaped_reward: float | None,
    store: Callable[[str], str],
) -> dict[str, Any]:
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
        **({"player": trajectory.player} if trajectory.player else {}),
        **({"spare": trajectory.spare} if trajectory.spare else {}),
        "seed": trajectory.seed,
        "version": ticket.version,
        "stop": str(trajectory.stop),
        "success": trajectory.success,
        "reward": trajectory.reward,
        "shaped_reward": shaped_reward,
        "error": trajectory.error,
        **({"error_line": trajectory.error_line} if trajectory.error_line else {}),
        "fork": trajectory.fork and trajectory.fork._asdict(),
        "replayed": trajectory.replayed,
        "guided": trajectory.guided,
        "answer": trajectory.answer,
        "turns": [
            {
                "observation": with_images(turn.observation, store),
                "reply": turn.reply,
                "reward": turn.reward,
                "rewards": dict(turn.rewards),
                "state": turn.state,
                "valid": turn.valid,
                "fresh": turn.fresh,
                **({"role": turn.role, "internal": turn.internal} if turn.role else {}),
                **({"step": turn.step} if turn.step is not None else {}),
                "finish": turn.completion.finish,
                **_tokens(turn),
                **({"images": [[at, store(image)] for at, image in turn.images]} if turn.images else {}),
                "metrics": dict(turn.metrics),
                "sample_s": round(turn.sample_s, 4),
                "env_s": round(turn.env_s, 4),
                **{name: [round(float(x), 5) for x in values] for name, values in turn.streams.items()},
            }
            for turn in trajectory.turns
        ],
        "final": with_images(trajectory.final, store),
    }


def _tokens(turn: Turn) -> dict[str, Any]:
    """What a turn's tokens were. Of a message that came as a whole, from an API, only their number is known."""
    sampled = turn.completion
    if sampled.counted is not None:
        return {"context_ids": [], "ids": [], "logprobs": [], "versions": [], "tokens": sampled.counted}
    return {
        "context_ids": turn.context,
        "ids": sampled.ids,
        "logprobs": [round(x, 5) for x in sampled.logprobs],
        "versions": sorted(set(sampled.versions)),
    }


def _json_default(value: Any) -> Any:
    """Convert what JSON cannot hold: a NumPy scalar to its number, anything else to its `repr`."""
    return value.item() if getattr(value, "shape", None) == () else repr(value)
