"""Some more tokens of a reply, sampled within a strategy, without an episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from envs.types import Stop
from rl.records import Completion, Ticket, Trajectory, Turn
from rl.rollout.runner import Runner


def prompt_of(turns: Sequence[Turn], k: int) -> tuple[int, ...]:
    """The tokens before the reply of turn `k`."""
    ids: tuple[int, ...] = ()
    for turn in turns[: k + 1]:
        ids = (*(() if turn.fresh else ids), *turn.context)
        if turn is not turns[k]:
            ids = (*ids, *turn.completion.ids)
    return ids


async def first_prompt(runner: Runner, ticket: Ticket) -> tuple[int, ...]:
    """The tokens before the first reply to a task of one agent; () where it cannot be told without an episode.

    That is so if the environment fails, which an episode then says, or the prompt has images or no room for a reply.
    """
    try:
        env = runner.take()
        try:
            options = {"index": ticket.index, "split": ticket.split}
            messages, info = await runner.call(
                env,
                ticket,
                f"reset of task {ticket.split}/{ticket.index}",
                env.reset,
                seed=ticket.seed,
                options=options,
            )
        except BaseException:
            runner.discard(env)
            raise
        runner.put(env)
        context = runner.make_agent().open(messages, info.get("tools", ()))
    except Exception:
        return ()
    is_plain = not context.images and not context.end and len(context.ids) < runner.max_tokens
    return tuple(context.ids) if is_plain else ()


async def sample_ahead(
    runner: Runner, ticket: Ticket, session: str, prompt: Sequence[int], begun: Completion, seed: int, tokens: int
) -> Completion | None:
    """Sample up to `tokens` more tokens of the reply `begun`; return all of them, or None if sampling fails.

    `finish` is "abort" where the reply goes on. A resumed run has what the interrupted one had sampled.
    """
    state = runner.play_state
    if (result := state.result(session)) is not None:
        return result.turns[0].completion
    most = min(runner.params.max_tokens, runner.max_tokens - len(prompt))
    length = min(most, len(begun.ids) + tokens)
    params = replace(runner.params, max_tokens=length, seed=seed, stop=runner.make_agent().stop)
    turns: list[Turn] = []
    _, partial = state.start(session, turns, (), begun)
    try:
        state.begin_reply(session, runner.policy)
        with runner.watchdog.waiting(f"looking ahead for {session}", params.deadline_s):
            reply = await runner.policy.sample(prompt, params, session=session, resume_from=partial)
        if reply.finish in ("deadline", "abort"):
            return None
        if reply.finish == "length" and length < most:
            reply = replace(reply, finish="abort")
        state.finish(session, Trajectory([Turn(tuple(prompt), reply)], Stop.TERMINATED, seed=ticket.seed))
        return reply
    except Exception:  # as for an episode, it is lost alone
        return None
    finally:
        state.stop(session)
        runner.policy.release(session)
