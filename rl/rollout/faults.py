"""Whose fault it is that an environment failed to answer a reply (the rule is in `rl.rollout.retry`).

An errored attempt has a suspect, `Trajectory.fault`, if it failed between a reply and the next prompt, for a reason
that is not in `INFRASTRUCTURE`. The suspect is tried by a control, `works_without_policy`, and by the next attempt,
which gives the same replies in a fresh environment.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import replace
from itertools import chain, repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import gymnasium
import numpy as np

from agents.scripted import noop, oracle, random
from envs.exits import call_contained, error_text
from envs.spaces import MessagesSpace
from envs.types import Message, Stop, assistant
from rl.records import Ticket, Trajectory, Turn, is_reward
from rl.rollout.runner import Runner
from rl.rollout.timeouts import Timeouts
from rl.rollout.workers.errors import line_in_worker
from rl.seeds import derive
from sandboxes.source_files import user_code_line

# Types of errors, or of their causes, that no reply brings about: a provider is down, or has no room; an environment
# that an expert is followed in does not repeat itself.
PROVIDER_ERRORS = ("SandboxUnavailable", "SandboxBusy", "SandboxClosed", "ConnectionRefusedError", "ConnectError")
INFRASTRUCTURE = frozenset((*PROVIDER_ERRORS, "EnvironmentDiverged", "ReplayDiverged"))
WAITING = "while another seat was to move"
CONTROL_TURNS = 100  # that a control plays at most, unless the policy has played more
RANDOM_CONTROLS = 4  # of each kind, of an environment without an oracle


def set_error(trajectory: Trajectory, error: Exception, *, is_waiting: bool = False) -> None:
    """Mark an attempt as ended by `error`: its `stop` becomes `Stop.ERROR`, its `error` "TYPE: text".

    There is no suspect if the error is one of the infrastructure's, or says that it is; of others `error_line` is the
    line of a user's code that led there. A seat that `is_waiting` has replied before and waited for others when the
    error came: its error says so, and it is no suspect.
    """
    trajectory.stop, trajectory.error = Stop.ERROR, f"{WAITING}: " * is_waiting + error_text(error)
    if is_infrastructure(error):
        trajectory.fault = None
    else:
        trajectory.error_line = line_in_worker(error) or user_code_line(error)


def is_infrastructure(error: BaseException | None) -> bool:
    """Whether the type of `error`, of one of its causes, or that "TYPE: text" in its text is in `INFRASTRUCTURE`."""
    while error is not None:
        names = {cls.__name__ for cls in type(error).__mro__} | {str(error).partition(":")[0]}
        if names & INFRASTRUCTURE:
            return True
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    return False


class Suspicion:
    """Context of the time between replies and the next prompts: an exception there makes their turns the suspects.

    What the attempt has recorded of these turns is dropped. A trajectory that diverged from its replay has no suspect.

    Args:
        turns: The turns of the replies, each with its trajectory.
    """

    __slots__ = ("_turns",)

    def __init__(self, turns: Sequence[tuple[Trajectory, Turn]]) -> None:
        self._turns = [(trajectory, turn, len(trajectory.turns)) for trajectory, turn in turns]

    def __enter__(self) -> None:
        pass

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, Exception):
            for trajectory, turn, count in self._turns:
                if not trajectory.redraw:
                    del trajectory.turns[count:]
                    trajectory.fault = turn


async def works_without_policy(runner: Runner, ticket: Ticket, failure: Match) -> bool:
    """Whether a new environment plays the task of `ticket` without a fault when the last reply is not the policy's.

    The replies are the oracle's, so that they use what the environment depends on, such as a sandbox; without an oracle
    they do nothing. That may not reach the game behind an adapter, so two more kinds are tried, up to `RANDOM_CONTROLS`
    times each, of which one must work: random ones behind those of `failure`, the attempt that failed, that were
    answered, and from the first on, as an earlier one may have ruined the episode. A strategy's wrappers are left out.
    """
    earlier = {one.agent: [t.reply for t in one.turns if t.reply is not None and not t.internal] for one in failure}
    turns = sum(map(len, earlier.values())) + len(failure)
    works, has_oracle = await _control(runner, ticket, _Script(max(turns, CONTROL_TURNS)))
    if has_oracle or not works:
        return works
    runner = copy(runner)
    runner.timeouts = Timeouts()  # two replies that hang end these controls, and nothing else
    for number in range(RANDOM_CONTROLS):
        seed = derive(ticket.seed, "control", number)
        for beginning in (earlier, {}) if turns > len(failure) else ({},):
            works, _ = await _control(runner, ticket, _Script(turns, seed, beginning))
            if works:
                return True
    return False


class _Script(NamedTuple):
    """What a control plays: so many turns; with a seed random replies, behind those of `beginning`, by seat."""

    turns: int
    seed: int | None = None
    beginning: Mapping[str, Sequence[Message]] = MappingProxyType({})


async def _control(runner: Runner, ticket: Ticket, script: _Script) -> tuple[bool, bool]:
    """Whether a new environment plays a script without a fault, and whether it has an oracle, if that was asked."""
    env = None
    label = f"task {ticket.split}/{ticket.index} seed {ticket.seed}, played to find out why it failed"
    play = _plays_without_fault if runner.seats == ("agent",) else _seats_play_without_fault
    options = {"index": ticket.index, "split": ticket.split}
    try:
        env = call_contained(runner.make_env)
        await runner.call(env, ticket, f"reset of {label}", env.reset, seed=ticket.seed, options=options)
        return await play(runner, env, ticket, script, label)
    except Exception:  # whatever it is, it is not the policy's
        return False, True
    finally:
        if env is not None:
            with suppress(Exception):
                await runner.call(env, ticket, f"close of {label}", env.close)


async def _plays_without_fault(
    runner: Runner, env: gymnasium.Env, ticket: Ticket, script: _Script, label: str
) -> tuple[bool, bool]:
    """Whether the turns are played, and whether by an oracle; raises what the environment raises."""
    ask, beginning = f"oracle of {label}", [*script.beginning.get("agent", ())]
    replies = await runner.call(env, ticket, ask, _oracle_replies, env) if script.seed is None else None
    has_oracle = replies is not None
    if replies is None:
        replies = await runner.call(env, ticket, ask, _other_replies, env, script.seed, beginning)
    for _ in range(script.turns):
        if (reply := await runner.call(env, ticket, ask, next, replies, None)) is None:
            break
        messages, reward, *ends, info = await runner.call(env, ticket, f"step of {label}", env.step, reply)
        if messages not in MessagesSpace() or not is_reward(reward) or info.get("stop") == Stop.ERROR:
            return False, has_oracle
        if any(ends):  # terminated or truncated
            break
        await asyncio.sleep(0)
    return True, has_oracle


async def _seats_play_without_fault(
    runner: Runner, env: Any, ticket: Ticket, script: _Script, label: str
) -> tuple[bool, bool]:
    """The same for an environment of several seats, with replies of all of them together."""
    has_oracle, num_played, step = True, Counter[str](), f"step of {label}"
    for turn in range(script.turns + (0 if script.seed is not None else len(runner.seats))):
        seed = None if script.seed is None else derive(script.seed, turn)
        rest = {seat: replies[num_played[seat] :] for seat, replies in script.beginning.items()}
        following = {seat: replies[0] for seat, replies in rest.items() if replies}
        is_sound, is_over, is_oracle, seat = await runner.call(env, ticket, step, _play_seat, env, seed, following)
        has_oracle, num_played[seat] = has_oracle and is_oracle, num_played[seat] + 1
        if is_over or not is_sound:
            return is_sound, has_oracle
        await asyncio.sleep(0)
    return True, has_oracle


def _play_seat(env: Any, seed: int | None, following: Mapping[str, Message]) -> tuple[bool, bool, bool, str]:
    """Play one turn of an environment of several seats.

    The reply is that of `following` for the seat that is to move, if there is one; else, with a `seed`, it is random,
    and without one the oracle's, or one that does nothing. Returns whether the rewards are sound, whether the game is
    over, False where an oracle was missing, and the seat.
    """
    if not env.agents:
        return True, True, True, ""
    seat, has_oracle = env.agent_selection, True
    if env.terminations[seat] or env.truncations[seat]:
        env.step(None)
    elif seat in following:
        env.step(following[seat])
    elif seed is not None:
        env.step(env.random(seat, np.random.default_rng(seed)))
    else:
        try:
            reply = env.oracle(seat)
        except NotImplementedError:
            reply, has_oracle = env.noop(seat), False
        env.step(reply)
    return all(map(is_reward, env.rewards.values())), not env.agents, has_oracle, seat


def _oracle_replies(env: gymnasium.Env) -> Iterator[Message] | None:
    """The replies of the environment's oracle, None if it has none."""
    with suppress(ValueError):
        return iter(oracle(env, 0))
    return None


def _other_replies(env: gymnasium.Env, seed: int | None, beginning: Sequence[Message]) -> Iterator[Message]:
    """Replies that do nothing; with a seed those of `beginning`, and then random ones, of an environment with any."""
    for replies in (noop,) if seed is None else (random, noop):
        with suppress(ValueError):
            return chain(beginning, replies(env, seed or 0))
    return repeat(assistant(""))


Match = Sequence[Trajectory]  # one attempt at an episode: a trajectory for each seat


def has_suspect(attempt: Match) -> bool:
    """Whether a reply may have caused the error that ended `attempt`."""
    return any(map(_is_suspect, attempt))


def num_turns(attempt: Match) -> int:
    """Return the number of turns of all seats that the environment has answered."""
    return sum(len(trajectory.turns) for trajectory in attempt)


def same_faults(failures: Sequence[Match], attempt: Match, retries: int) -> list[Match]:
    """Return those of `failures` that have the fault of the errored `attempt` after them; [] if it is a new one.

    It is not new if an attempt before failed at the same reply after the same replies. If `attempt` is the last of
    `retries`, it is enough that all attempts gave the same replies and none got further than the first.
    """
    alike = [failure for failure in failures if _has_same_replies(failure, attempt)]
    turns = [num_turns(failure) for failure in alike]
    is_at_end = len(failures) >= retries and len(alike) == len(failures)
    if num_turns(attempt) in turns or (turns and is_at_end and turns[0] == max(*turns, num_turns(attempt))):
        first = next(place for place, count in enumerate(turns) if count >= num_turns(attempt))
        return alike[first:]  # those before it failed earlier, which did not happen again
    return []


def blame_policy(attempt: Match) -> None:
    """Turn an errored attempt into an episode that ended by its last reply.

    The reply earns 0 and the episode is no success; the reply is not `valid`, because nothing could act on it. Of
    several seats all end there; the last reply of one that waited for others is valid, and earns 0 too.
    """
    for trajectory in attempt:
        if trajectory.fault is not None:
            is_valid = not _is_suspect(trajectory)
            trajectory.turns.append(replace(trajectory.fault, reward=0.0, rewards={}, metrics={}, valid=is_valid))
        trajectory.fault, trajectory.stop, trajectory.success = None, Stop.POLICY_FAULT, False


def _is_suspect(trajectory: Trajectory) -> bool:
    return trajectory.fault is not None and not is_waiting(trajectory)


def is_waiting(trajectory: Trajectory) -> bool:
    """Whether a seat had replied, and waited for another, when its episode ended by an error."""
    return (trajectory.error or "").startswith(WAITING)


def _has_same_replies(failure: Match, attempt: Match) -> bool:
    """Whether two attempts failed at a reply, and one of them begins with the replies of the other, in every seat."""
    if not (has_suspect(failure) and has_suspect(attempt)):
        return False
    seats = zip(failure, attempt, strict=True)
    return all(mine == other for a, b in seats for mine, other in zip(_replies(a), _replies(b), strict=False))


def _replies(attempt: Trajectory) -> list[tuple[tuple[int, ...], Message | None]]:
    """The replies of a seat, in tokens and as messages, with the one that it failed at."""
    turns = [*attempt.turns, attempt.fault] if attempt.fault else attempt.turns
    return [(turn.completion.ids, turn.reply) for turn in turns]


def exonerates_policy(failures: Sequence[Match]) -> bool:
    """Whether none of a member's replies can be why all attempts at its episode failed; in doubt it can.

    An attempt that failed before its first prompt accuses no reply, nor does one that failed in sampling, unless it ran
    out of time, as long replies do. Any other accuses the reply that it failed at. That one is cleared by a later
    attempt that went further behind the same replies; where the error is one of `INFRASTRUCTURE`, also by one that
    failed earlier than that, as in an outage.
    """
    return all(
        any(_goes_further(later, failure) or _is_outage(later, failure) for later in failures[place + 1 :])
        for place, failure in enumerate(failures)
        if _accuses_reply(failure)
    )


def _accuses_reply(failure: Match) -> bool:
    is_of_sampling = any(trajectory.redraw for trajectory in failure)
    is_late = any((trajectory.error or "").startswith(TimeoutError.__name__) for trajectory in failure)
    return _has_prompt(failure) and (is_late or not is_of_sampling)


def _has_prompt(attempt: Match) -> bool:
    """Whether the environment has asked for a reply."""
    return any(trajectory.task for trajectory in attempt)


def _goes_further(later: Match, failure: Match) -> bool:
    """Whether `later` begins with the replies of `failure`, the last included, and has an answer to that one."""
    seats = zip(failure, later, strict=True)
    is_same = all(_replies(a) == _replies(replace(b, fault=None))[: len(_replies(a))] for a, b in seats)
    return is_same and num_turns(later) > num_turns(failure)


def _is_outage(later: Match, failure: Match) -> bool:
    """Whether `failure` has no suspect, and `later` did not come to where it failed."""
    places = [(_has_prompt(attempt), num_turns(attempt)) for attempt in (later, failure)]
    return not has_suspect(failure) and places[0] < places[1]
