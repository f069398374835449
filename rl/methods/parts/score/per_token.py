"""One number per sampled token from a critic, a reference policy or the trained policy before the update."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rl.methods.options import Count
from rl.methods.parts import needs
from rl.methods.parts.score.scorer import PerTurn, Scorer
from rl.records import Group, Trajectory
from rl.seeds import derive


async def value(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `value` of every turn: the critic's value before each sampled token."""
    _fill_stream("value", scorer.values, groups)


async def reference(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `ref` of every turn: each sampled token's log-probability under the frozen reference policy."""
    _fill_stream("ref", scorer.reference, groups)


async def proximal(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `proximal` of every turn: the trainer's log-probability of each sampled token, before the update.

    Ratios then compare with it and not with the sampler's record (decoupled PPO, arXiv:2110.00641, section 3), so that
    a sampler of another precision or of older weights moves no ratio. One forward pass more per update. `select` parts
    such as `mismatch_tis` weigh the difference between the two.
    """
    _fill_stream("proximal", scorer.logprobs, groups)


async def reward(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `reward` of every turn: the trajectory's reward after shaping, on each token."""
    for group in groups:
        for trajectory, number in zip(group.trajectories, group.rewards, strict=True):
            for turn in trajectory.turns:
                turn.streams["reward"] = (float(number),) * len(turn.completion.ids)


@needs("ref")
async def renewed_reference(scorer: Scorer, groups: Sequence[Group], *, at: Count = 100) -> None:
    """ReMix's reincarnation (arXiv:2507.06892): in update number `at` the policy as it is becomes the reference policy.

    With adapters the reference is the model below them; that raises `PartError`.
    """
    if scorer.version + 1 == at:
        scorer.renew_reference()


async def staleness(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `staleness` of every turn: how far behind the trained policy each token's sampler was, 0 to 1.

    It is `(n - 1) / n` for a token that was sampled by weights `n` updates older than those that this update makes: 0
    for the weights before the update, towards 1 for old ones. It costs nothing.
    """
    for trajectory in (trajectory for group in groups for trajectory in group.trajectories):
        for turn in trajectory.turns:
            turn.streams["staleness"] = tuple(_stale_share(scorer.version + 1 - v) for v in turn.completion.versions)


async def square(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `square` of every turn: the sum of squared probabilities of the whole vocabulary at each token.

    It is 1 where the policy is certain. One forward pass more per update.
    """
    _fill_stream("square", scorer.squares, groups)


async def gradient_norm(scorer: Scorer, groups: Sequence[Group]) -> None:
    """Fill the stream `gradient_norm`: the norm of the gradient of a trajectory's mean log-probability, on each token.

    One backward pass more for each trajectory; without adapters, those of a small model are computed together.
    """
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    for trajectory, norm in zip(trajectories, scorer.gradient_norms(trajectories), strict=True):
        for turn in trajectory.turns:
            turn.streams["gradient_norm"] = (float(norm),) * len(turn.completion.ids)


async def draws(scorer: Scorer, groups: Sequence[Group], *, count: Count = 64) -> None:
    """Ask the update to draw `count` tokens at each position from the policy as it is then (stream `draws`).

    Loss parts read two streams of them: `drawn`, their mean log-probability, which has a gradient, and `hits`, the
    share of them that are the token itself. It costs the output matrix once more.
    """
    for group in groups:
        for trajectory in group.trajectories:
            seed = derive(group.ticket.seed, "draws", trajectory.member) % 2**24  # a float32 holds it exactly
            for turn in trajectory.turns:
                turn.streams["draws"] = (float(count),) * len(turn.completion.ids)
                turn.streams["draw_seed"] = (float(seed),) * len(turn.completion.ids)


@needs("frozen", unless="model")
async def teacher(scorer: Scorer, groups: Sequence[Group], *, model: str = "") -> None:
    """Fill the stream `teacher` of every turn: a teacher's log-probability of each token that the policy sampled.

    `model` is the teacher, with the policy's vocabulary: a model as `--model` takes it, such as a folder, or
    `NAME@http://HOST:PORT/v1` for a vLLM server. Without one it is the policy as it was when the run began. One forward
    pass of the teacher per update.
    """
    _fill_stream("teacher", (lambda few: scorer.teacher(few, model)) if model else scorer.reference, groups)


def _stale_share(age: int) -> float:
    """How far behind weights are that another `age` updates have changed; 0 for versions yet to come, as of replays."""
    return (age - 1) / age if age > 0 else 0.0


def _fill_stream(stream: str, score: Callable[[Sequence[Trajectory]], list[PerTurn]], groups: Sequence[Group]) -> None:
    """Write what `score` computes into `stream`. Raises `ValueError` for another count of numbers than of tokens."""
    trajectories = [trajectory for group in groups for trajectory in group.trajectories]
    scores = score(trajectories)  # on the event loop's own thread: a run stays a pure function of its seed
    for trajectory, per_turn in zip(trajectories, scores, strict=True):
        for turn, numbers in zip(trajectory.turns, per_turn, strict=True):
            if len(numbers) != len(turn.completion.ids):
                raise ValueError(f"stream {stream!r}: {len(numbers)} numbers for {len(turn.completion.ids)} tokens")
            turn.streams[stream] = tuple(numbers)
