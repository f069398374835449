"""Episodes without a model: environments that count, block, fail or hang, an agent of letters, a policy of fixed replies."""

import asyncio
import pickle
import threading
from collections import Counter
from dataclasses import replace

from agents.agent import Context
from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user
from rl.methods.parts.strategy import independent
from rl.policy.engine import Policy
from rl.records import Completion, SamplingParams, Ticket
from rl.rollout.episode import play_episode
from rl.rollout.runner import Runner
from rl.seeds import derive

END = 0


class Count(Env):
    """Answers with the number of replies so far and ends with a reward after `goal` of them."""

    max_turns = 9
    goal = 3

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"task {i}"),), str(i)) for i in range(4)]

    def reply(self, action):
        done = self.turns + 1 == self.goal
        return Outcome((user(f"{self.turns + 1}"),), 0.5 * done, done, done, metrics={"heard": len(text(action))})


class BlockingCount(Count):
    """Is called in a thread."""

    blocking = True


class LetterAgent:
    """An agent with one token per letter, whose replies end with token 0."""

    stop = (END,)

    def open(self, messages, tools=()):
        self.replies = []
        return Context(self._ids(messages))

    def act(self, ids):
        self.replies.append(tuple(ids))
        return assistant("".join(map(chr, ids[:-1])))

    def observe(self, messages):
        return Context(self._ids(messages))

    def demonstrate(self, reply):
        return reply

    @staticmethod
    def _ids(messages):
        return tuple(ord(letter) for message in messages for letter in text(message))


class FixedPolicy(Policy):
    """Backend with `reply(prompt)`, and records its requests and the sessions released."""

    version = 0

    def __init__(self, reply=lambda prompt: (104, 105, END)):
        self.reply = reply
        self.requests = []
        self.releases = Counter()

    async def sample(self, prompt, params, *, session="", resume_from=None):
        self.requests.append((session, tuple(prompt), params, resume_from))
        await asyncio.sleep(0)
        ids = tuple(self.reply(tuple(prompt)))[: params.max_tokens]
        logprobs = tuple(-0.1 * (k + 1) for k in range(len(ids)))
        return Completion(ids, logprobs, logprobs, (0,) * len(ids), "stop" if ids[-1] == END else "length")

    def release(self, session):
        self.releases[session] += 1


def make_runner(env=Count, policy=None, agent=LetterAgent, *, reply_tokens=8, max_tokens=200, state=None, **limits):
    """A runner of fixed replies. It continues from `state`, a `PlayState.state_dict()`, if that is passed."""
    runner = Runner(env, agent, policy or FixedPolicy(), SamplingParams(max_tokens=reply_tokens), max_tokens, **limits)
    if state is not None:
        runner.play_state.load_state_dict({"live": {}, "finished": {}, **state})
    return runner


def make_ticket(number=0, *, index=1, size=1):
    return Ticket(number, index, "train", seed=derive("test", number), size=size)


def play_member(runner, ticket=None, member=0, *, watchdog=False):
    """Play one episode, with a running watchdog if asked for."""

    async def play():
        return await asyncio.wait_for(play_episode(runner, ticket or make_ticket(), member), 20)

    if not watchdog:
        return asyncio.run(play())
    with runner.watchdog.running(interval_s=0.02):
        return asyncio.run(play())


def play_group(runner, ticket):
    """Play all members of a ticket independently."""
    (group,) = asyncio.run(asyncio.wait_for(independent(runner, ticket), 20))
    return group


async def interrupt(runner, playing, moment):
    """Run the coroutines `playing` for `moment` rounds of the event loop, then cancel them.

    Returns the state of play of that moment, as a checkpoint would hold it.
    """
    tasks = [asyncio.create_task(one) for one in playing]
    for _ in range(moment):
        await asyncio.sleep(0)
    state = pickle.loads(pickle.dumps(runner.play_state.state_dict()))
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return state


def without_times(trajectory):
    """The trajectory without its measured seconds."""
    return replace(trajectory, turns=[replace(turn, sample_s=0.0, env_s=0.0) for turn in trajectory.turns])


def make_failing_env(where, times, env=Count, error=OSError):
    """An environment class whose first `times` instances fail in `where`, and a list of all instances."""
    envs = []

    class Fails(env):
        def __init__(self):
            super().__init__()
            self.number, self.closed, self.num_starts = len(envs), 0, 0
            envs.append(self)

        def start(self):
            self.num_starts += 1
            if where == "start" and self.number < times:
                raise error("no start")
            return super().start()

        def reply(self, action):
            if where == "reply" and self.number < times and self.turns == 1:
                raise error("no reply")
            return super().reply(action)

        def close(self):
            self.closed += 1

    return Fails, envs


def make_hanging_env(env=BlockingCount):
    """An environment class whose replies hang until an event is set, and the event."""
    gate = threading.Event()

    class Hangs(env):
        def reply(self, action):
            gate.wait(30)
            return super().reply(action)

        def close(self):
            gate.set()

    return Hangs, gate
