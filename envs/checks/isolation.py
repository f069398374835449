"""Checks that an episode depends on its seed alone: in any process, beside others, copied, in vector environments."""

from __future__ import annotations

import json
import os
import pickle
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv, VectorEnv

from envs.catalogue import find
from envs.checks.examined import Episode, Subject, expert, floor, noop, play
from envs.env import Env

SEEDS = range(4)
DEADLINE_S = 120.0


def digests(env: Env) -> list[str]:
    """One hash per seed of an expert's and of a random episode on a task that the seed draws."""
    both = [(seed, replies) for seed in SEEDS for replies in (expert, floor(seed))]
    env.reset(seed=0)
    return [play(env, replies, seed=seed, split=env.split).digest() for seed, replies in both]


def determinism(subject: Subject) -> Iterator[str]:
    """The same seed gives the same episode again, in the same instance and in a new one."""
    with subject.make() as env, subject.make() as other:
        first = digests(env)
        if digests(env) != first:
            yield "the same instance replays a seed differently"
        if digests(other) != first:
            yield "a new instance plays a seed differently"
        drawn = Episode(*env.reset(seed=3))
        named = Episode(*env.reset(seed=3, options={"index": env.index}))
        if drawn.digest() != named.digest():
            yield "naming the index that a seed had drawn changes the episode"


def independence(subject: Subject) -> Iterator[str]:
    """Episodes played in turns do not touch each other, nor the process's global generators."""
    before = (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002 (read, to see that nobody draws from it)
    with ExitStack() as stack:
        envs = [stack.enter_context(subject.make()) for _ in SEEDS]
        episodes = [Episode(*env.reset(seed=seed)) for seed, env in enumerate(envs)]
        replies = [iter(expert(env)) for env in envs]
        while not all(episode.over for episode in episodes):
            for env, episode, reply in zip(envs, episodes, replies, strict=True):
                if not episode.over:
                    episode.turns.append(env.step(next(reply)))
        alone = [play(envs[0], expert, seed=seed, split=envs[0].split).digest() for seed in SEEDS]
    if [episode.digest() for episode in episodes] != alone:
        yield "an episode differs when others are played between its turns"
    if (random.getstate(), repr(np.random.get_state())) != before:  # noqa: NPY002
        yield "the process's global random generators were used; draw from self.np_random"


def pickling(subject: Subject) -> Iterator[str]:
    """An instance can be pickled between two turns, and the copy goes on as the original does."""
    with subject.make() as env:
        replies = []  # the oracle's, found by playing once
        env.reset(seed=1)
        for reply in env.oracle():
            replies.append(reply)
            _, _, terminated, truncated, _ = env.step(reply)
            if terminated or truncated:
                break
        env.reset(seed=1)
        for reply in replies[:-1]:
            env.step(reply)
        with pickle.loads(pickle.dumps(env)) as copy:
            turns = [Episode((), {}, [one.step(replies[-1])]) for one in (env, copy)]
    if turns[0].digest() != turns[1].digest():
        yield "a pickled copy goes on differently"


def vector(subject: Subject) -> Iterator[str]:
    """SyncVectorEnv and AsyncVectorEnv return what single environments do."""
    with subject.make() as env:
        env.reset(seed=0)
        singles = [play(env, noop, seed=seed, split=env.split, turns=1) for seed in (5, 6)]
        reply = env.noop()
    for build in (SyncVectorEnv, partial(AsyncVectorEnv, shared_memory=False)):
        made = build([subject.make] * 2)
        try:
            yield from (f"{type(made).__name__}: {fault}" for fault in _vector_faults(made, singles, reply))
        finally:
            made.close()


def _vector_faults(made: VectorEnv, singles: list[Episode], reply: Any) -> Iterator[str]:
    observations, infos = made.reset(seed=5)
    if list(observations) != [single.opening for single in singles]:
        yield "reset returns other observations than single environments do"
    if list(infos["task"]) != [single.info["task"] for single in singles]:
        yield "reset returns other infos than single environments do"
    observations, rewards, terminated, truncated, _ = made.step((reply, reply))
    turns = [single.turns[0] for single in singles]
    if list(observations) != [turn[0] for turn in turns]:
        yield "step returns other observations than single environments do"
    if [*rewards, *terminated, *truncated] != [turn[i] for i in (1, 2, 3) for turn in turns]:
        yield "step returns other rewards or ends than single environments do"


def processes(subject: Subject) -> Iterator[str]:
    """Other processes with other hash seeds play the same, and close() leaves no process, thread or file behind."""
    with subject.make() as env:
        wanted = digests(env)
    with tempfile.TemporaryDirectory(prefix="envs-check-") as folder:
        children = [_child(subject, seed, os.path.join(folder, seed)) for seed in ("1", "2")]
        for (child, room), seed in zip(children, ("1", "2"), strict=True):
            try:
                out, err = child.communicate(timeout=DEADLINE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.communicate()
                yield f"a process did not end within {DEADLINE_S:.0f} s"
                continue
            if child.returncode:
                yield f"a process failed: {(err.strip() or b'no message').splitlines()[-1].decode(errors='replace')}"
                continue
            found = json.loads(out.splitlines()[-1])
            if found["digests"] != wanted:
                yield f"PYTHONHASHSEED={seed} plays the same seeds differently"
            if found["left"]:
                yield f"close() left {', '.join(found['left'])}"
            if files := os.listdir(room):
                yield f"close() left files in the temporary folder: {', '.join(sorted(files)[:3])}"


def _child(subject: Subject, hash_seed: str, room: str) -> tuple[subprocess.Popen[bytes], str]:
    os.mkdir(room)
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    child = subprocess.Popen(
        [sys.executable, "-m", "envs.checks.child_process"],
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "TMPDIR": room, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    known = find(subject.spec)
    entry = getattr(known, "entry_point", None)
    child.stdin.write(pickle.dumps((subject, entry, getattr(known, "kwargs", {}))))
    child.stdin.close()
    child.stdin = None
    return child, room
