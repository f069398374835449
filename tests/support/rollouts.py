"""Rollouts of a run that was never trained, written by the writer of real ones."""

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
    said: str,
    reply: str | Message,
    reward: float = 0.0,
    *,
    advantage: float | None = None,
    rng: random.Random | None = None,
    **more: object,
) -> Turn:
    """A turn whose reply is sampled byte by byte; log-probabilities from `rng`, else all -0.5."""
    message = assistant(reply) if isinstance(reply, str) else reply
    text = str(message["content"]).encode("utf-8", "replace").decode()
    ids = (*TOKENIZER.encode(text, add_special_tokens=False), int(TOKENIZER.eos_token_id))
    logprobs = tuple(-rng.expovariate(1.0) if rng else -0.5 for _ in ids)
    made = Turn(
        context=tuple(TOKENIZER.encode(said.encode("utf-8", "replace").decode(), add_special_tokens=False)),
        completion=Completion(ids, logprobs, logprobs, (0,) * len(ids)),
        observation=(user(said),),
        reply=message,
        reward=reward,
        sample_s=0.0123,
        env_s=0.0004,
    )
    for name, value in more.items():
        setattr(made, name, value)
    if advantage is not None:
        made.streams["advantage"] = (advantage,) * len(ids)
    return made


def group(number: int, size: int, rng: random.Random, update: int = 1) -> Group:
    """Members that guess a number in up to six turns; every ninth group has one that failed."""
    goal = rng.randrange(64)
    members = []
    for member in range(size):
        won = rng.random() < 0.4
        last = rng.randrange(1, 7)
        turns = []
        for k in range(last):
            paid = float(won and k == last - 1)
            made = turn(f"between {k} and {63 - k}", f"I say {rng.randrange(64)}", paid, advantage=won - 0.4, rng=rng)
            made.rewards = {"win": paid, "format": 0.0}
            made.metrics = {"width": float(rng.randrange(64))}
            made.streams["info_gain"] = (round(rng.random(), 3),) * len(made.completion.ids)
            made.streams["value"] = tuple(rng.random() for _ in made.completion.ids)
            made.state, made.valid = f"{k}..{63 - k}", rng.random() < 0.9
            turns.append(made)
        stop = Stop.TERMINATED if won else Stop.TURN_LIMIT
        task = f"train/{number}"
        members.append(Trajectory(turns, stop, won, task, seed=2**63 + number, member=member, answer=str(goal)))
    failed = Trajectory([], Stop.ERROR, task=f"train/{number}", seed=2**63 + number, error=FAULT)
    ticket = Ticket(number, number, "train", 2**63 + number, size, update - 1)
    return Group(ticket, members, [failed] if number % 9 == 8 else [])


def hostile() -> Group:
    """Members whose every text tries to become markup or script; one has an image, one a tool call, one long words."""
    members = []
    for member, attack in enumerate(ATTACKS):
        made = turn(attack, attack, advantage=math.nan)
        made.state, made.rewards, made.metrics = attack, {attack: math.inf}, {attack: math.nan}
        made.observation = (system(attack), {"role": "tool", "name": attack, "content": attack, "tool_call_id": "1"})
        members.append(
            Trajectory([made], Stop.TERMINATED, task=attack, member=member, answer=attack, final=(user(attack),))
        )
    call = {"id": "1", "type": "function", "function": {"name": "search", "arguments": '{"query": "<b>x</b>"}'}}
    members[0].turns.append(turn("use a tool", {"role": "assistant", "content": "so be it", "tool_calls": [call]}))
    images = ({"type": "image_url", "image_url": {"url": url}} for url in (PIXEL, "https://example.org/a.png"))
    seen: Message = {"role": "user", "content": [{"type": "text", "text": "look"}, *images]}
    members[1].turns.append(turn("", "naïve 🙂\nline", observation=(seen,)))
    members[2].turns.append(turn("word " * 2000, "thinking " * 300, rng=random.Random(3)))
    return Group(Ticket(10_000, 0, "train", 0, len(members)), members)


def groups(episodes: int, size: int = 8, seed: int = 0, update: int = 1) -> Iterator[Group]:
    """Groups with `episodes` members in all."""
    rng = random.Random(seed)
    for number in range(episodes // size):
        yield group(number, size, rng, update)


def run(path: Path, *updates: list[Group]) -> Path:
    """A run's folder with these groups of update 1, 2, ... and a tokenizer in its checkpoint."""
    folder = RunFolder.create(path, CONFIG)
    for update, played in enumerate(updates, 1):
        folder.write_rollouts(update, played)
    TOKENIZER.save_pretrained(path / "checkpoints" / "update-000000" / "model")
    return path
