"""Checks that an episode depends on its seed alone: in any process, beside others, pickled, in vector environments."""

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
from envs.checks.env_under_test import (
    EnvUnderTest,
    Episode,
    has_oracle,
    noop_replies,
    oracle_replies,
    play,
    random_replies,
)
from envs.env import Env

MAX_SEEDS = 4  # that a check plays at most
HASH_SEEDS = ("1", "2")
DEADLINE_S = 120.0
STATE_TASKS = 12  # whose states are compared


def seeds(under_test: EnvUnderTest) -> range:
    """Return the seeds that checks play: `MAX_SEEDS`, or as many as tasks if these are limited to fewer."""
    return range(MAX_SEEDS if under_test.tasks is None else min(MAX_SEEDS, under_test.tasks))


def episode_digests(env: Env, seeds: range) -> list[str]:
    """Return a hash in hex of two episodes per seed: the oracle's and one of random replies, in this order.

    The seed draws the task, in the first split that has tasks.
    """
    policies = [(seed, replies) for seed in seeds for replies in (oracle_replies, random_replies(seed))]
    env.reset(seed=0)
    return [play(env, replies, seed=seed, split=env.split).digest() for seed, replies in policies]


def determinism(under_test: EnvUnderTest) -> Iterator[str]:
    """The same seed gives the same episode again, in the same instance and in a new one.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env, under_test.make() as other:
        first = episode_digests(env, seeds(under_test))
        if episode_digests(env, seeds(under_test)) != first:
            yield "the same instance replays a seed differently"
        if episode_digests(other, seeds(under_test)) != first:
            yield "a new instance plays a seed differently"
        by_seed = Episode(*env.reset(seed=3))
        by_index = Episode(*env.reset(seed=3, options={"index": env.index}))
        if by_seed.digest() != by_index.digest():
            yield "reset with the index that the seed would draw gives another episode than with the seed alone"


def states(under_test: EnvUnderTest) -> Iterator[str]:
    """Tasks with other openings have other states, and the state changes while the oracle solves a task.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        first: dict[str, tuple[str, str]] = {}  # by state: the opening and the id of a task that begins with it
        for index in under_test.indices(env, STATE_TASKS):
            episode = play(env, oracle_replies, index=index)
            state, opening = episode.info["state"], json.dumps(episode.opening, default=repr)
            other, id = first.setdefault(state, (opening, env.task.id))
            if state and other != opening:
                yield f"tasks {id} and {env.task.id} have other openings and the same state {state[:60]!r}"
            is_moving = len({json.dumps(turn[0], default=repr) for turn in episode.turns}) > 1
            if state and is_moving and has_oracle(env) and {turn[4]["state"] for turn in episode.turns} == {state}:
                yield f"task {env.task.id}: the state is {state[:60]!r} in all {len(episode.turns)} turns of the oracle"


def independence(under_test: EnvUnderTest) -> Iterator[str]:
    """Interleaved episodes do not affect each other, nor the process's global random generators.

    Yields a line for each fault; none if the claim holds.
    """
    before = (random.getstate(), repr(np.random.get_state()))  # noqa: NPY002 (read, to see that nothing draws from it)
    with ExitStack() as stack:
        envs = [stack.enter_context(under_test.make()) for _ in range(max(2, len(seeds(under_test))))]
        episodes = [Episode(*env.reset(seed=seed)) for seed, env in enumerate(envs)]
        replies = [iter(oracle_replies(env)) for env in envs]
        while not all(episode.is_over for episode in episodes):
            for env, episode, reply in zip(envs, episodes, replies, strict=True):
                if not episode.is_over:
                    episode.turns.append(env.step(next(reply)))
        alone = [play(envs[0], oracle_replies, seed=seed, split=envs[0].split).digest() for seed in range(len(envs))]
    if [episode.digest() for episode in episodes] != alone:
        yield "an episode differs when others are played between its turns"
    if (random.getstate(), repr(np.random.get_state())) != before:  # noqa: NPY002
        yield "the process's global random generators were used; draw from self.np_random"


def pickling(under_test: EnvUnderTest) -> Iterator[str]:
    """An instance can be pickled between two turns, and the copy continues like the original.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        replies = []
        env.reset(seed=1)
        for reply in oracle_replies(env):
            replies.append(reply)
            _, _, terminated, truncated, _ = env.step(reply)
            if terminated or truncated:
                break
        env.reset(seed=1)
        for reply in replies[:-1]:
            env.step(reply)
        with pickle.loads(pickle.dumps(env)) as copy:
            episodes = [Episode((), {}, [instance.step(replies[-1])]) for instance in (env, copy)]
    if episodes[0].digest() != episodes[1].digest():
        yield "a pickled copy continues differently"


def vector(under_test: EnvUnderTest) -> Iterator[str]:
    """SyncVectorEnv and AsyncVectorEnv return what single environments return.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        env.reset(seed=0)
        episodes = [play(env, noop_replies, seed=seed, split=env.split, turns=1) for seed in (5, 6)]
        reply = env.noop()
    for build in (SyncVectorEnv, partial(AsyncVectorEnv, shared_memory=False)):
        vector_env = build([under_test.make] * 2)
        try:
            faults = _vector_faults(vector_env, episodes, reply)
            yield from (f"{type(vector_env).__name__}: {fault}" for fault in faults)
        finally:
            vector_env.close()


def _vector_faults(vector_env: VectorEnv, episodes: list[Episode], reply: Any) -> Iterator[str]:
    """Compare reset and one step of `vector_env` with `episodes`, played by single environments."""
    observations, infos = vector_env.reset(seed=5)
    if list(observations) != [episode.opening for episode in episodes]:
        yield "reset returns other observations than single environments do"
    if list(infos["task"]) != [episode.info["task"] for episode in episodes]:
        yield "reset returns other infos than single environments do"
    observations, rewards, terminated, truncated, _ = vector_env.step((reply, reply))
    turns = [episode.turns[0] for episode in episodes]
    if list(observations) != [turn[0] for turn in turns]:
        yield "step returns other observations than single environments do"
    if [*rewards, *terminated, *truncated] != [turn[i] for i in (1, 2, 3) for turn in turns]:
        yield "step returns other rewards or ends than single environments do"


def processes(under_test: EnvUnderTest) -> Iterator[str]:
    """Processes with other hash seeds play the same episodes, and close() leaves no process, thread or file behind.

    Yields a line for each fault; none if the claim holds.
    """
    with under_test.make() as env:
        expected = episode_digests(env, seeds(under_test))
    with tempfile.TemporaryDirectory(prefix="envs-check-") as folder:
        children = [_start_child(under_test, seed, os.path.join(folder, seed)) for seed in HASH_SEEDS]
        for (child, temp_folder), seed in zip(children, HASH_SEEDS, strict=True):
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
            report = json.loads(out.splitlines()[-1])
            if report["digests"] != expected:
                yield f"PYTHONHASHSEED={seed} plays the same seeds differently"
            if report["leftovers"]:
                yield f"close() left {', '.join(report['leftovers'])}"
            if files := os.listdir(temp_folder):
                yield f"close() left files in the temporary folder: {', '.join(sorted(files)[:3])}"


def _start_child(under_test: EnvUnderTest, hash_seed: str, temp_folder: str) -> tuple[subprocess.Popen[bytes], str]:
    """Start `envs.checks.child_process` with a temporary folder of its own; return the process and the folder."""
    os.mkdir(temp_folder)
    path = os.pathsep.join(entry or os.getcwd() for entry in sys.path)
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "envs.checks.child_process"],  # -P: the working directory comes by PYTHONPATH
        env={**os.environ, "PYTHONHASHSEED": hash_seed, "TMPDIR": temp_folder, "PYTHONPATH": path},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert child.stdin is not None
    env_spec = find(under_test.spec)
    entry_point = getattr(env_spec, "entry_point", None)
    child.stdin.write(pickle.dumps((under_test, entry_point, getattr(env_spec, "kwargs", {}))))
    child.stdin.close()
    child.stdin = None
    return child, temp_folder
