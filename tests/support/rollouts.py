"""Invented rollouts in the folder of a run, written by `RunFolder` like real ones."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from pathlib import Path

from envs.types import Message, Stop, assistant, system, user
from rl.policy.tiny import byte_tokenizer
from rl.records import Completion, Group, Ticket, Trajectory, Turn
from rl.train.run_folder import RunFolder

CONFIG = 'env = "games/Toy-v0"\nalgo = "grpo"\nmodel = "tiny"\n'
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
ATTACKS = (
    "</script><script>window.hacked=1</script>",
    "<img src=x onerror='window.hacked=1'>",
    "<!--<script>",
    "]]>{{script}}{{head}}",
    "\\u003c/script\u2028\u2029\u0000\u202e",
    "<svg onload=window.hacked=1>",
    "' onmouseover='window.hacked=1",
    "\ud800 alone",
)
FAULT = "TimeoutError: step 3 took 600 s"
TOKENIZER = byte_tokenizer()


def turn(
    observation_text: str,
    reply: str | Message,
    reward: float = 0.0,
    *,
    advantage: float | None = None,
    rng: random.Random | None = None,
    **attributes: object,
) -> Turn:
    """Return a turn with one token per byte of the reply; log-probabilities come from `rng`, else all are -0.5.

    `attributes` replace attributes of the turn.
    """
    message = assistant(reply) if isinstance(reply, str) else reply
    text = str(message["content"]).encode("utf-8", "replace").decode()
    ids = (*TOKENIZER.encode(text, add_special_tokens=False), int(TOKENIZER.eos_token_id))
    logprobs = tuple(-rng.expovariate(1.0) if rng else -0.5 for _ in ids)
    result = Turn(
        context=tuple(TOKENIZER.encode(observation_text.encode("utf-8", "replace").decode(), add_special_tokens=False)),
        completion=Completion(ids, logprobs, logprobs, (0,) * len(ids)),
        observation=(user(observation_text),),
        reply=message,
        reward=reward,
        sample_s=0.0123,
        env_s=0.0004,
    )
    for name, value in attributes.items():
        setattr(result, name, value)
    if advantage is not None:
        result.streams["advantage"] = (advantage,) * len(ids)
    return result


def group(number: int, size: int, rng: random.Random, update: int = 1) -> Group:
    """Return a group that guesses a number in up to six turns; every ninth group has a member with an error."""
    goal = rng.randrange(64)
    members = []
    for member in range(size):
        success = rng.random() < 0.4
        num_turns = rng.randrange(1, 7)
        turns = []
        for k in range(num_turns):
            reward = float(success and k == num_turns - 1)
            reply = f"I say {rng.randrange(64)}"
            step = turn(f"between {k} and {63 - k}", reply, reward, advantage=success - 0.4, rng=rng)
            step.rewards = {"win": reward, "format": 0.0}
            step.metrics = {"width": float(rng.randrange(64))}
            step.streams["info_gain"] = (round(rng.random(), 3),) * len(step.completion.ids)
            step.streams["value"] = tuple(rng.random() for _ in step.completion.ids)
            step.state, step.valid = f"{k}..{63 - k}", rng.random() < 0.9
            turns.append(step)
        stop = Stop.TERMINATED if success else Stop.TURN_LIMIT
        task = f"train/{number}"
        members.append(Trajectory(turns, stop, success, task, seed=2**63 + number, member=member, answer=str(goal)))
    errored_member = Trajectory([], Stop.ERROR, task=f"train/{number}", seed=2**63 + number, error=FAULT)
    ticket = Ticket(number, number, "train", 2**63 + number, size, update - 1)
    return Group(ticket, members, [errored_member] if number % 9 == 8 else [])


def hostile() -> Group:
    """Return a group whose texts all try to become markup or script; some have an image, a tool call or long texts."""
    members = []
    for member, attack in enumerate(ATTACKS):
        step = turn(attack, attack, advantage=math.nan)
        step.state, step.rewards, step.metrics = attack, {attack: math.inf}, {attack: math.nan}
        step.observation = (system(attack), {"role": "tool", "name": attack, "content": attack, "tool_call_id": "1"})
        members.append(
            Trajectory([step], Stop.TERMINATED, task=attack, member=member, answer=attack, final=(user(attack),))
        )
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": "<b>x</b>"}'}}
    members[0].turns.append(turn("use a tool", {"role": "assistant", "content": "so be it", "tool_calls": [call]}))
    images = ({"type": "image_url", "image_url": {"url": url}} for url in (PIXEL, "https://example.org/a.png"))
    message: Message = {"role": "user", "content": [{"type": "text", "text": "look"}, *images]}
    members[1].turns.append(turn("", "naïve 🙂\nline", observation=(message,)))
    members[2].turns.append(turn("word " * 2000, "thinking " * 300, rng=random.Random(3)))
    return Group(Ticket(10_000, 0, "train", 0, len(members)), members)


def groups(episodes: int, size: int = 8, seed: int = 0, update: int = 1) -> Iterator[Group]:
    """Yield groups of `size` members with `episodes` members in total."""
    rng = random.Random(seed)
    for number in range(episodes // size):
        yield group(number, size, rng, update)


def run(path: Path, *updates: list[Group]) -> Path:
    """Write the folder of a run with these groups for update 1, 2, ... and a tokenizer in its checkpoint; return it."""
    folder = RunFolder.create(path, CONFIG)
    for update, update_groups in enumerate(updates, 1):
        folder.write_rollouts(update, update_groups)
    TOKENIZER.save_pretrained(path / "checkpoints" / "update-000000" / "model")
    return path
