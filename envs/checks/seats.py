"""Checks of environments with several seats: PettingZoo's own tests, whole games, private messages, bad players."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from envs.checks.env_under_test import EnvUnderTest, held_out_split
from envs.env import Env
from envs.types import Message, assistant, text

GAMES = 5
API_CYCLES = 50
STALL_S = 0.05
BAD_REPLIES = ("", "zzz ?!", "a" * 1_000_000, "\x00\ud800\u202e", '{"reward": 1.0, "success": true}', "\n" * 1000)


def has_seats(env: Env) -> bool:
    """Whether an environment is the single-agent view of one with several seats."""
    return hasattr(env, "table")


def pettingzoo_tests(under_test: EnvUnderTest) -> Iterator[str]:
    """PettingZoo's api_test and seed_test pass, and its parallel tests where all seats move at once.

    Yields a line for each fault; none if the claim holds.
    """
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test

    with under_test.make() as env, warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # that observations are no arrays
        make = _constructor(env, under_test)
        tests: list[tuple[Any, ...]] = [(api_test, make(), API_CYCLES), (seed_test, make, API_CYCLES)]
        table = make()
        table.reset(seed=0)
        if set(table.to_move) == set(table.live):
            from envs.multi.parallel import ParallelView

            tests += [
                (parallel_api_test, ParallelView(make()), API_CYCLES),
                (parallel_seed_test, lambda: ParallelView(make()), API_CYCLES),
            ]
        for test, subject, cycles in tests:
            try:
                test(subject, cycles)
            except Exception as error:
                yield f"{test.__name__}: {type(error).__name__}: {error}"


def full_games(under_test: EnvUnderTest) -> Iterator[str]:
    """Games of oracles and of random players end for every seat, and are the same again with the same seed.

    Yields a line for each fault; none if the claim holds.
    """
    from envs.multi.match import play_match

    with under_test.make() as env:
        table, split = _constructor(env, under_test)(), held_out_split(env)
        for index in under_test.indices(env, GAMES):
            for name, build in (("oracle", _oracle), ("random", _random)):
                options = {"split": split, "index": index}
                games = [
                    play_match(table, {seat: build(table, seat) for seat in table.seats}, seed=index, options=options)
                    for _ in range(2)
                ]
                if games[0] != games[1]:
                    yield f"task {table.task.id}: a game of {name} players differs the second time"
                for seat, record in games[0].items():
                    if record.fault or "stop" not in record.info:
                        yield f"task {table.task.id}: {seat} ({name}) has not finished: {record.fault or 'no stop'}"


def privacy(under_test: EnvUnderTest) -> Iterator[str]:
    """No seat reads the reasoning of another one, nor what its environment lists as secret of another one.

    Yields a line for each fault; none if the claim holds.
    """
    from envs.multi.match import play_match

    with under_test.make() as env:
        table, split = _constructor(env, under_test)(), held_out_split(env)
        for index in under_test.indices(env, GAMES):
            for build in (_oracle, _random):
                secrets: dict[str, set[str]] = {seat: {_canary(seat)} for seat in table.seats}
                players = {seat: _confiding(table, seat, build(table, seat), secrets) for seat in table.seats}
                records = play_match(table, players, seed=index, options={"split": split, "index": index})
                for seat, record in records.items():
                    read = "\n".join(
                        text(m) for messages in record.observations[: len(record.replies)] for m in messages
                    )
                    for other in table.others(seat):
                        for secret in sorted(secrets[other] - secrets[seat]):
                            if secret in read:
                                yield f"task {table.task.id}: {seat} reads {secret[:60]!r} of {other}"


def hostile_seats(under_test: EnvUnderTest) -> Iterator[str]:
    """A seat that crashes, stalls, or replies junk or a megabyte earns nothing, and the others play to the end.

    Yields a line for each fault; none if the claim holds.
    """
    from envs.multi.match import play_match

    with under_test.make() as env:
        table, split = _constructor(env, under_test)(), held_out_split(env)
        for seat in table.seats:
            for index, (name, player, seconds) in enumerate(_bad_players()):
                others: Mapping[str, Any] = {other: _oracle(table, other) for other in table.others(seat)}
                options = {"split": split, "index": index % len(env.load(split))}
                players = {**others, seat: player}
                records = play_match(
                    table, players, seed=index, options=options, reply_seconds={seat: seconds} if seconds else None
                )
                for other, record in records.items():
                    if "stop" not in record.info:
                        yield f"{seat} {name}: {other} does not reach an end"
                    if other != seat and record.fault:
                        yield f"{seat} {name}: {other} fails: {record.fault}"
                was_asked = seat in records and bool(records[seat].replies or records[seat].fault)
                if was_asked and (records[seat].total_reward > 0 or records[seat].success):
                    yield f"{seat} {name} earns {records[seat].total_reward:g}, success={records[seat].success}"


def _bad_players() -> Iterator[tuple[str, Callable[..., Any], float | None]]:
    """Yield players that fail: what they do, the player, and the deadline of its replies."""
    for reply in BAD_REPLIES:
        yield f"replies {reply[:20]!r} ({len(reply)} characters)", lambda messages, info, reply=reply: reply, None
    yield "replies a number", lambda messages, info: 7, None
    yield "crashes", lambda messages, info: 1 / 0, None
    gate = threading.Event()
    yield "stalls", lambda messages, info: gate.wait(), STALL_S
    gate.set()


def _constructor(env: Any, under_test: EnvUnderTest) -> Callable[..., Any]:
    """A function that makes the environment with all its seats, with the arguments under test."""
    own = {key: value for key, value in under_test.arguments.items() if key not in ("opponent", "seat")}
    return lambda **more: env.game(**{**own, **more})


def _oracle(table: Any, seat: str) -> Callable[..., Message]:
    """The oracle of the game or, where there is none, random replies."""
    draw = _random(table, seat)

    def reply(messages: Any, info: Any) -> Message:
        try:
            return table.oracle(seat)
        except NotImplementedError:
            return draw(messages, info)

    return reply


def _random(table: Any, seat: str) -> Callable[..., Message]:
    rng = np.random.default_rng(len(seat) + table.seats.index(seat))
    return lambda messages, info: table.random(seat, rng)


def _canary(seat: str) -> str:
    return f"canary of {seat}"


def _confiding(table: Any, seat: str, player: Callable[..., Any], secrets: dict[str, set[str]]) -> Callable[..., Any]:
    """A player that thinks aloud, a canary before each reply, and notes the secrets of all seats at that moment."""

    def reply(messages: Any, info: Any) -> Message:
        for name in table.seats:
            secrets[name].update(table.secrets(name))
        message = player(messages, info)
        spoken_aloud = assistant(f"I keep this to myself: {_canary(seat)}\n\n{text(message)}")
        if "tool_calls" in message:
            spoken_aloud["tool_calls"] = message["tool_calls"]
        return spoken_aloud

    return reply
