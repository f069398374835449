"""Play one episode with a policy: token ids to the policy, messages to the environment, one `Trajectory` as the result.

Any number of these coroutines run at the same time on one event loop, without a barrier between them. An exception ends
its own episode only, as `rl.rollout.retry` says.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, SupportsFloat

import gymnasium

from agents.agent import Context
from envs.step_info import StepInfo
from envs.types import Message, Messages, Stop
from rl.policy.engine import CutOff
from rl.records import Completion, Fork, Ticket, Trajectory, Turn
from rl.rollout.retry import set_error
from rl.rollout.runner import Runner
from rl.seeds import derive

Step = tuple[Messages, SupportsFloat, bool, bool, StepInfo]  # obs, reward, terminated, truncated, info


class Snapshot(NamedTuple):
    """An environment before a reply: its own `snapshot()`, and the messages and info that it returned last."""

    state: Any
    messages: Messages
    info: StepInfo


@dataclass(frozen=True)
class Start:
    """The turns that an episode begins with, for instance those that it shares with the episode it forks from.

    They are replayed in a fresh environment with the recorded replies, token by token. `fork` goes into the trajectory.
    `context`, if known, is what the agent must add before the first new reply; anything else is an error. `snapshot`,
    taken before that reply, is restored instead of replaying the turns.
    """

    turns: Sequence[Turn] = ()
    fork: Fork | None = None
    context: tuple[int, ...] | None = None
    snapshot: Snapshot | None = None


OnTurn = Callable[[Snapshot | None], None]


async def play_episode(
    runner: Runner, ticket: Ticket, member: int, *, start: Start | None = None, on_turn: OnTurn | None = None
) -> Trajectory:
    """Play `ticket` once as group member `member` and return its trajectory; a failed one has `Stop.ERROR`.

    A ticket names a task, its seed and the number of members, the attempts that are compared with each other. The
    environment's seed is the ticket's. Sampling depends on the ticket's seed and `member` only, not on what else is
    played. A member that has finished (`PlayState.result`) is not played again.

    Args:
        runner: Environments, agent, policy and limits. Its `play_state` is kept up to date for checkpoints.
        ticket: The task and its seed.
        member: Number within the group, below `ticket.size`.
        start: Turns to begin with; None for the start of the task.
        on_turn: Called after each new turn that is followed by another reply, with a snapshot of the environment, None
            if that has no method `snapshot`.
    """
    session, state = ticket.session(member), runner.play_state
    if (result := state.result(session)) is not None:
        return result
    start = start or Start()
    trajectory = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member, fork=start.fork)
    replay, partial_reply = state.start(session, trajectory.turns, start.turns)
    env = None
    try:
        env = runner.take()
        attempt = _Attempt(runner, ticket, env, trajectory, start, replay, partial_reply, on_turn)
        with _truncate_on_cut_off(trajectory):
            await attempt.play()
        runner.put(env)
        state.finish(session, trajectory)
    except BaseException as error:
        if env is not None:
            runner.discard(env)
        if not isinstance(error, Exception):
            raise
        set_error(trajectory, error)
    finally:
        state.stop(session)
        runner.policy.release(session)
    return trajectory


@contextmanager
def _truncate_on_cut_off(trajectory: Trajectory) -> Iterator[None]:
    """Truncate the episode when the policy raises `CutOff`; before the first turn that is an error."""
    try:
        yield
    except CutOff as cut_off:
        if not trajectory.turns:
            raise
        trajectory.stop = cut_off.stop


@dataclass
class _Attempt:
    """One attempt at an episode, which fills `trajectory`. The first `len(replay)` turns are replayed."""

    runner: Runner
    ticket: Ticket
    env: gymnasium.Env
    trajectory: Trajectory
    start: Start
    replay: Sequence[Turn]
    partial_reply: Completion | None  # what there is of the reply after `replay`
    on_turn: OnTurn | None

    def __post_init__(self) -> None:
        ticket, member = self.ticket, self.trajectory.member
        self.session = ticket.session(member)
        self.label = f"task {ticket.split}/{ticket.index} seed {ticket.seed} member {member}"

    async def play(self) -> None:
        """Play to the end. Raises whatever goes wrong, and `CutOff`."""
        runner, env, ticket, trajectory, replay = self.runner, self.env, self.ticket, self.trajectory, self.replay
        start_time = time.monotonic()
        agent = runner.make_agent()
        options = {"index": ticket.index, "split": ticket.split}
        info: StepInfo
        messages, info = await runner.call(env, f"reset of {self.label}", env.reset, seed=ticket.seed, options=options)
        trajectory.task = str(info.get("task", f"{ticket.split}/{ticket.index}"))
        trajectory.answer = info.get("answer")
        context = agent.open(messages, info.get("tools", ()))
        steps = await self._restore_snapshot()
        prompt: list[int] = []
        while True:
            turn = len(trajectory.turns)
            prompt = [*context.ids] if context.fresh else [*prompt, *context.ids]
            if (limit := self._limit(start_time, len(prompt))) is not None:
                trajectory.stop = limit
                return
            self._check_context(context)
            if self.on_turn is not None and turn and turn >= len(replay):
                self.on_turn(await self._take_snapshot(messages, info))
            sample_time = time.perf_counter()
            completion = replay[turn].completion if turn < len(replay) else await self._sample(prompt, agent.stop)
            env_time = time.perf_counter()
            reply = agent.act(completion.ids)
            step: Step = (
                steps[turn] if turn < len(steps) else await runner.call(env, f"step of {self.label}", env.step, reply)
            )
            next_messages, reward, terminated, truncated, next_info = step
            record = make_turn(context.ids, completion, messages, reply, reward, info=info, next_info=next_info)
            record.fresh = context.fresh and turn > 0
            record.sample_s, record.env_s = env_time - sample_time, time.perf_counter() - env_time
            runner.play_state.record_turn(self.session, record)
            messages, info, replacement = next_messages, next_info, next_info.get("instead")
            prompt += completion.ids if replacement is None else agent.amend(replacement)
            if terminated or truncated:
                end_episode(trajectory, messages, info, terminated)
                if turn + 1 < len(replay):
                    raise RuntimeError(f"replayed to turn {turn}, the environment ends earlier than the first time")
                return
            context = agent.observe(messages)
            if replacement is not None and not context.fresh:
                # The sampled reply is trained in its own context; later prompts hold the replacement instead.
                context = Context((*prompt, *context.ids), fresh=True)

    def _limit(self, start_time: float, prompt_tokens: int) -> Stop | None:
        """Return why no further reply may be sampled, or None. Raises if that is so before the first reply."""
        runner, has_turns = self.runner, bool(self.trajectory.turns)
        if time.monotonic() - start_time > runner.episode_s:
            if not has_turns:
                raise TimeoutError(f"its reset used up the {runner.episode_s:g} s of the episode")
            return Stop.TIME_LIMIT
        if prompt_tokens >= runner.max_tokens:
            if not has_turns:
                raise ValueError(
                    f"a prompt of {prompt_tokens} tokens leaves no room in an episode of {runner.max_tokens}"
                )
            return Stop.TOKEN_LIMIT
        return None

    def _check_context(self, context: Context) -> None:
        """Raise `RuntimeError` if a recorded reply was given in another context than this one."""
        turn = len(self.trajectory.turns)
        expected = self.start.context if turn == len(self.start.turns) else None
        if turn < len(self.replay):
            expected = self.replay[turn].context
        if expected is not None and expected != tuple(context.ids):
            raise RuntimeError(f"replayed to turn {turn}, the environment says something else than the first time")

    async def _sample(self, prompt: list[int], stop: tuple[int, ...]) -> Completion:
        """Sample the reply of the current turn, or the rest of it; TimeoutError if the policy gives up."""
        runner, state, turn = self.runner, self.runner.play_state, len(self.trajectory.turns)
        partial = self.partial_reply if turn == len(self.replay) else None
        state.end_replay(self.session)
        if partial is not None and partial.finish != "abort":
            completion = partial
        else:
            max_tokens = min(runner.params.max_tokens, runner.max_tokens - len(prompt))
            seed = derive(derive(self.ticket.seed, "member", self.trajectory.member), turn)
            params = replace(runner.params, max_tokens=max_tokens, seed=seed, stop=stop)
            with runner.watchdog.waiting(f"sampling for {self.label}", params.deadline_s):
                completion = await runner.policy.sample(prompt, params, session=self.session, resume_from=partial)
            if completion.finish in ("deadline", "abort"):
                raise TimeoutError(f"the sampler gave up after {params.deadline_s:g} s")
        state.receive_reply(self.session, completion)
        return completion

    async def _take_snapshot(self, messages: Messages, info: StepInfo) -> Snapshot | None:
        snapshot = getattr(self.env.unwrapped, "snapshot", None)
        if snapshot is None:
            return None
        return Snapshot(await self.runner.call(self.env, f"snapshot of {self.label}", snapshot), messages, info)

    async def _restore_snapshot(self) -> list[Step]:
        """Restore the snapshot of `start` and return the steps that it saves; nothing if there is no use for one."""
        snapshot, replay = self.start.snapshot, self.replay
        # An interrupted run has recorded more turns than the start has, and a resumed one has no snapshot of them.
        if snapshot is None or len(replay) != len(self.start.turns):
            return []
        restore = self.env.unwrapped.restore  # type: ignore[attr-defined]
        await self.runner.call(self.env, f"restoring {self.label}", restore, snapshot.state)
        infos: list[StepInfo] = [*({"state": turn.state} for turn in replay[1:]), snapshot.info]  # type: ignore[list-item]
        observations = [*(turn.observation for turn in replay[1:]), snapshot.messages]
        return [
            (
                messages,
                turn.reward,
                False,
                False,
                {**info, "rewards": dict(turn.rewards), "valid": turn.valid, "metrics": dict(turn.metrics)},
            )
            for turn, messages, info in zip(replay, observations, infos, strict=True)
        ]


def make_turn(
    context: Sequence[int],
    completion: Completion,
    messages: Messages,
    reply: Message,
    reward: SupportsFloat,
    *,
    info: StepInfo,
    next_info: StepInfo,
) -> Turn:
    """Return the record of one turn: `messages` and `info` came before the reply, `reward` and `next_info` after it.

    `context` are the token ids before the reply that are new since the last one; `completion` is the sampled reply, and
    `reply` its message.
    """
    return Turn(
        context=tuple(context),
        completion=completion,
        observation=tuple(messages),
        reply=reply,
        reward=float(reward),
        rewards=next_info.get("rewards", {}),
        state=info.get("state", ""),
        valid=next_info.get("valid", True),
        metrics=next_info.get("metrics", {}),
    )


def end_episode(trajectory: Trajectory, messages: Messages, info: StepInfo, terminated: bool) -> None:
    """Record how an episode ended: its stop reason, success and last messages.

    `info` is that of the last step, which says `terminated` or was truncated. Without `info["success"]`, a terminated
    episode with a positive return counts as a success. Raises `RuntimeError` if the environment reports an error.
    """
    trajectory.stop = Stop(info.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
    if trajectory.stop == Stop.ERROR:
        raise RuntimeError(info.get("error") or "the environment reports a fault of its own")
    trajectory.success = bool(info.get("success", terminated and trajectory.reward > 0))
    trajectory.final = tuple(messages)
