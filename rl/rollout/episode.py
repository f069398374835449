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
from envs.types import Messages, Stop
from rl.policy.engine import CutOff
from rl.records import Completion, Fork, Ticket, Trajectory, Turn
from rl.rollout.faults import set_error, suspicion
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
    taken before that reply, is restored instead of replaying the turns. `reply`, if known, is that reply: the
    environment failed to answer it in an earlier attempt, so this one is played in a new environment. `draw` counts how
    often replies had to be drawn anew; new ones have seeds of their own.
    """

    turns: Sequence[Turn] = ()
    fork: Fork | None = None
    context: tuple[int, ...] | None = None
    snapshot: Snapshot | None = None
    reply: Completion | None = None
    draw: int = 0


OnTurn = Callable[[Snapshot | None], None]


async def play_episode(
    runner: Runner, ticket: Ticket, member: int, *, start: Start | None = None, on_turn: OnTurn | None = None
) -> Trajectory:
    """Play `ticket` once as group member `member` and return its trajectory; a failed one has `Stop.ERROR`.

    A ticket names a task, its seed and the number of members, the attempts that are compared with each other. The
    environment's seed is the ticket's. Sampling depends on the ticket's seed, `member` and `start.draw` only, not on
    what else is played. A member that has finished (`PlayState.result`) is not played again.

    Args:
        runner: Environments, agent, policy and limits. Its `play_state` is kept up to date for checkpoints.
        ticket: The task and its seed.
        member: Number within the group, below `ticket.size`.
        start: Turns to begin with; None for the start of the task. `rl.rollout.retry.next_start` returns that of an
            attempt after others.
        on_turn: Called after each new turn that is followed by another reply, with a snapshot of the environment, None
            if that has no method `snapshot`.
    """
    session, state = ticket.session(member), runner.play_state
    if (result := state.result(session)) is not None:
        return result
    start = start or Start()
    trajectory = Trajectory([], Stop.ERROR, seed=ticket.seed, member=member, fork=start.fork)
    replay, partial_reply = state.start(session, trajectory.turns, start.turns, start.reply)
    env = None
    try:
        env = runner.take(fresh=start.reply is not None)
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
        start_time = runner.clock.now()
        agent = runner.make_agent()
        options = {"index": ticket.index, "split": ticket.split}
        info: StepInfo
        messages, info = await runner.call(
            env, ticket, f"reset of {self.label}", env.reset, seed=ticket.seed, options=options
        )
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
            record = make_turn(context.ids, completion, messages, info)
            record.fresh, record.sample_s = context.fresh and turn > 0, env_time - sample_time
            with suspicion(trajectory, record):
                record.reply = reply = agent.act(completion.ids)
                step: Step = (
                    steps[turn]
                    if turn < len(steps)
                    else await runner.call(env, ticket, f"step of {self.label}", env.step, reply)
                )
                messages, reward, terminated, truncated, info = step
                record = answer_turn(record, reward, info)
                record.env_s = time.perf_counter() - env_time
                is_over, replacement = terminated or truncated, info.get("instead")
                self._check_end(is_over)
                runner.play_state.record_turn(self.session, record)
                prompt += completion.ids if replacement is None else agent.amend(replacement)
                if is_over:
                    end_episode(trajectory, messages, info, terminated)
                    return
                context = agent.observe(messages)
            if replacement is not None and not context.fresh:
                # The sampled reply is trained in its own context; later prompts hold the replacement instead.
                context = Context((*prompt, *context.ids), fresh=True)

    def _limit(self, start_time: float, prompt_tokens: int) -> Stop | None:
        """Return why no further reply may be sampled, or None. Raises if that is so before the first reply."""
        runner, has_turns = self.runner, bool(self.trajectory.turns)
        if runner.clock.now() - start_time > runner.episode_s:
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
            raise self._divergence("says something else than")

    def _check_end(self, is_over: bool) -> None:
        """Raise `RuntimeError` if the episode is over before all recorded replies are given."""
        replies = len(self.replay) + (self.partial_reply is not None)
        if is_over and len(self.trajectory.turns) + 1 < replies:
            raise self._divergence("ends earlier than")

    def _divergence(self, difference: str) -> RuntimeError:
        """Mark the attempt as one whose replies must be drawn anew, because the environment does not repeat itself."""
        self.trajectory.redraw = True
        return RuntimeError(
            f"replayed to turn {len(self.trajectory.turns)}, the environment {difference} the first time"
        )

    async def _sample(self, prompt: list[int], stop: tuple[int, ...]) -> Completion:
        """Sample the reply of the current turn, or the rest of it; TimeoutError if the policy gives up."""
        runner, state, turn = self.runner, self.runner.play_state, len(self.trajectory.turns)
        partial = self.partial_reply if turn == len(self.replay) else None
        state.end_replay(self.session)
        if partial is not None and partial.finish != "abort":
            completion = partial
        else:
            max_tokens = min(runner.params.max_tokens, runner.max_tokens - len(prompt))
            draw = ("draw", self.start.draw) if self.start.draw else ()
            seed = derive(derive(self.ticket.seed, "member", self.trajectory.member, *draw), turn)
            params = replace(runner.params, max_tokens=max_tokens, seed=seed, stop=stop)
            with self._redraw_on_error(), runner.watchdog.waiting(f"sampling for {self.label}", params.deadline_s):
                completion = await runner.policy.sample(prompt, params, session=self.session, resume_from=partial)
                if completion.finish in ("deadline", "abort"):
                    raise TimeoutError(f"the sampler gave up after {params.deadline_s:g} s")
        state.receive_reply(self.session, completion)
        return completion

    @contextmanager
    def _redraw_on_error(self) -> Iterator[None]:
        """Let the next attempt draw this reply with a new seed if sampling fails."""
        try:
            yield
        except Exception as error:
            self.trajectory.redraw = not isinstance(error, CutOff)
            raise

    async def _take_snapshot(self, messages: Messages, info: StepInfo) -> Snapshot | None:
        snapshot = getattr(self.env.unwrapped, "snapshot", None)
        if snapshot is None:
            return None
        state = await self.runner.call(self.env, self.ticket, f"snapshot of {self.label}", snapshot)
        return Snapshot(state, messages, info)

    async def _restore_snapshot(self) -> list[Step]:
        """Restore the snapshot of `start` and return the steps that it saves; nothing if there is no use for one."""
        snapshot, replay = self.start.snapshot, self.replay
        # An interrupted run has recorded more turns than the start has, and a resumed one has no snapshot of them.
        if snapshot is None or len(replay) != len(self.start.turns):
            return []
        restore = self.env.unwrapped.restore  # type: ignore[attr-defined]
        await self.runner.call(self.env, self.ticket, f"restoring {self.label}", restore, snapshot.state)
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


def make_turn(context: Sequence[int], completion: Completion, messages: Messages, info: StepInfo) -> Turn:
    """Return the record of a turn that the environment has not answered; `messages` and `info` came before the reply.

    `context` are the token ids before the reply that are new since the last one; `completion` is the sampled reply.
    """
    return Turn(tuple(context), completion, tuple(messages), state=info.get("state", ""), valid=False)


def answer_turn(turn: Turn, reward: SupportsFloat, info: StepInfo) -> Turn:
    """Return the record of a turn with what the environment answered: `reward` and the `info` of its step.

    Raises `TypeError` or `ValueError` for a reward, a named reward or a metric that is no number.
    """
    return replace(
        turn,
        reward=float(reward),
        rewards={name: float(value) for name, value in info.get("rewards", {}).items()},
        valid=bool(info.get("valid", True)),
        metrics={name: float(value) for name, value in info.get("metrics", {}).items()},
    )


def end_episode(trajectory: Trajectory, messages: Messages, info: StepInfo, terminated: bool) -> None:
    """Record how an episode ended: its stop reason, success and last messages.

    `info` is that of the last step, which says `terminated` or was truncated. Without `info["success"]`, a terminated
    episode with a positive return counts as a success. Raises `RuntimeError` if the environment reports an error.
    """
    stop = Stop(info.get("stop", Stop.TERMINATED if terminated else Stop.TURN_LIMIT))
    if stop == Stop.ERROR:
        raise RuntimeError(info.get("error") or "the environment reports a fault of its own")
    trajectory.final = tuple(messages)
    trajectory.success = is_success(info, terminated, trajectory.reward)
    trajectory.stop = stop


def is_success(info: StepInfo, terminated: bool, episode_return: float) -> bool:
    """Whether an episode that is over is a success: `info["success"]`, else a positive return if it `terminated`.

    `info` is that of its last step.
    """
    return bool(info.get("success", terminated and episode_return > 0))
