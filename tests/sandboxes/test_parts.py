"""Plain data both ways, control groups of both versions, packages that are shown: without a sandbox."""

from __future__ import annotations

import contextlib
import json
import math
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sandboxes
from sandboxes import Limits, Result, Status, json_values
from sandboxes.checks import self_check
from sandboxes.local.confinement import cgroups, mounts
from sandboxes.local.confinement.tiers import TIERS
from sandboxes.replay_session import ReplaySession
from sandboxes.request import RunRequest
from sandboxes.types import relative_parts

KEYS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
    | st.tuples(st.integers())
)
VALUES = st.recursive(
    KEYS | st.complex_numbers(allow_nan=False),
    lambda inner: (
        st.lists(inner)
        | st.tuples(inner, inner)
        | st.dictionaries(KEYS, inner)
        | st.sets(KEYS)
        | st.frozensets(st.integers())
    ),
    max_leaves=20,
)


@settings(max_examples=60, deadline=None)
@given(VALUES)
def test_plain_data_comes_back_as_it_went(value: object) -> None:
    back = json_values.load(json_values.dump(value))
    assert type(back) is type(value) and back == value


@settings(max_examples=60, deadline=None)
@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_read_or_refused(said: bytes) -> None:
    with contextlib.suppress(json_values.NotPlain):
        json_values.load(said)


@settings(max_examples=60, deadline=None)
@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner)
            | st.dictionaries(
                st.sampled_from(["int", "dict", "set", "tuple", "float", "bytes", "complex", "frozenset", "x"]),
                inner,
                max_size=2,
            )
        ),
    )
)
def test_any_json_is_read_or_refused(said: object) -> None:
    with contextlib.suppress(json_values.NotPlain):
        json_values.load(json.dumps(said))


@pytest.mark.parametrize(
    "said",
    [
        "[" * 5000,
        '{"int": "0x' + "f" * 9 + 'g"}',
        '{"set": [[1]]}',
        '{"int": 5}',
        "9" * 5000,
        '{"tuple": 3}',
        '{"a": 1, "b": 2}',
        "{}",
        '{"dict": [[1]]}',
    ],
)
def test_what_is_no_plain_data_is_refused(said: str) -> None:
    with pytest.raises(json_values.NotPlain):
        json_values.load(said)


def test_numbers_beyond_the_digit_limit_pass() -> None:
    assert json_values.load(json_values.dump(-(7**9000))) == -(7**9000)


def test_keys_of_one_hash_are_refused_before_they_cost_time() -> None:
    keys = [json_values.dump(number * (2**61 - 1)) for number in range(1, 3000)]
    for form in ('{{"set": [{}]}}', '{{"dict": [{}]}}'):
        said = form.format(", ".join(keys if "set" in form else (f"[{key}, 0]" for key in keys)))
        with pytest.raises(json_values.NotPlain, match="equal hash"):
            json_values.load(said)


@pytest.mark.parametrize("value", [object(), len, range(3), bytearray(b""), True.__class__, (1).__class__])
def test_other_objects_do_not_pass(value: object) -> None:
    for one in (value, [value], {1: value}, (0, value)):
        with pytest.raises(json_values.NotPlain, match="no plain data"):
            json_values.dump(one)


def test_subclasses_of_plain_types_do_not_pass() -> None:
    class Number(int):
        pass

    with pytest.raises(json_values.NotPlain, match="Number"):
        json_values.dump(Number(1))


@pytest.mark.parametrize("path", ["/a", "../a", "a/../../b", "", "a\0"])
def test_paths_that_lead_out_are_refused(path: str) -> None:
    with pytest.raises(ValueError, match="must be relative"):
        relative_parts(path)


class IdleBackend:
    """Runs nothing and records the timeouts."""

    def __init__(self) -> None:
        self.timeouts: list[float] = []

    def evaluate(self, work: object, timeout_s: float) -> tuple[Result, bool]:
        self.timeouts.append(timeout_s)
        return Result(Status.OK), True

    def run(self, program: object, files: object, stdin: object, timeout_s: float) -> tuple[Result, bool]:
        return self.evaluate(program, timeout_s)


def _request(**arguments: Any) -> RunRequest:
    defaults = {"program": "1", "stdin": b"", "files": None, "fetch": (), "env": None, "timeout_s": 1, "limits": None}
    return RunRequest.create(**{**defaults, **arguments})


@pytest.mark.parametrize(
    ("argument", "value", "message"),
    [
        ("stdin", 5, "stdin = 5: must be a str or bytes, not int"),
        ("files", {"a": 5}, "file 'a' = 5: must be a str or bytes, not int"),
        ("files", ["a"], "files = \\['a'\\]: must be a mapping"),
        ("files", {5: "a"}, "files: 5 is not a str"),
        ("fetch", "out.txt", "fetch = 'out.txt': must be a list of paths"),
        ("fetch", 3, "fetch = 3: must be a list of paths"),
        ("env", {"A": 5}, "env: 5 is not a str"),
        ("timeout_s", "5", "timeout_s = '5': must be more than 0"),
        ("timeout_s", None, "timeout_s = None: must be more than 0"),
        ("limits", {"memory_mb": 5}, "limits = {'memory_mb': 5}: must be a sandboxes.Limits"),
        ("program", None, "program None: must be the text"),
        ("program", 5, "program 5: must be the text"),
        ("program", ["sh", "a\0b"], r"program: the word 'a\\x00b' contains a NUL, which no word of a command can"),
        ("program", ["sh", "\ud800"], "can't encode character '.ud800'"),
    ],
)
def test_an_argument_of_another_type_is_named_and_never_taken_for_something_else(
    argument: str, value: object, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _request(**{argument: value})


def test_a_session_names_arguments_of_another_type() -> None:
    session = ReplaySession(IdleBackend(), lambda: session)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="path 5: must be a str, not int"):
        session.write(5, "a")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="content = 5: must be a str or bytes"):
        session.write("a", 5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="program None: must be the text"):
        session.run(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="contains a NUL"):
        session.run(["sh", "-c", "echo a\0b"])


def test_a_name_is_no_sandbox_and_what_is_no_name_opens_none() -> None:
    with pytest.raises(ValueError, match=r"'local' is no sandbox; open it with sandboxes.open\('local'\)"):
        self_check("local")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="no sandbox None; there are local, docker, remote"):
        sandboxes.open(None)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="places = 'x': must be a whole number"):
        sandboxes.open("local", places="x")
    with pytest.raises(ValueError, match="packages = 'numpy': must be a list of names"):
        sandboxes.open("local", packages="numpy")


@pytest.mark.parametrize("timeout_s", [0, -1.0, math.nan, math.inf, 86_401])
def test_a_senseless_deadline_is_refused_and_the_session_goes_on(timeout_s: float) -> None:
    backend = IdleBackend()
    session = ReplaySession(backend, lambda: session)  # type: ignore[arg-type]
    calls = (partial(session.cell, "1"), partial(session.call, "f"), partial(session.run, "1"))
    for call in (*calls, lambda *, timeout_s: RunRequest.create("1", b"", None, (), None, timeout_s, None)):
        with pytest.raises(ValueError, match=f"timeout_s = {timeout_s}: must be more than 0 and at most 86400"):
            call(timeout_s=timeout_s)
    for number, call in enumerate(calls):
        assert call(timeout_s=number + 1).ok
    assert session.alive and backend.timeouts == [1, 2, 3]


def test_limits_name_the_one_that_is_wrong() -> None:
    with pytest.raises(ValueError, match=r"limit disk_mb = -1: must be a whole number above 0"):
        Limits(disk_mb=-1)


@pytest.mark.parametrize("version", [1, 2])
def test_a_memory_group_is_made_limited_and_removed(tmp_path: Path, version: int) -> None:
    """On a tree of plain files, which says what is written where; the kernel's own is used by every other test."""
    memberships = tmp_path / "self"
    names = cgroups._V1 if version == 1 else cgroups._V2
    if version == 1:
        memberships.write_text("4:memory:/ours\n0::/\n")
        beneath = tmp_path / "memory" / "ours"
    else:
        memberships.write_text("0::/user.slice/ours\n")
        beneath = tmp_path / "user.slice" / "ours"
        (tmp_path / "cgroup.controllers").touch()
    beneath.mkdir(parents=True)
    assert cgroups.Parent.make(tmp_path, memberships) is None  # without the kernel no limit file appears
    assert list(beneath.iterdir()) == []

    made = tmp_path / "made"
    (made / "7").mkdir(parents=True)
    for name in ("cgroup.procs", *names.values()):
        (made / "7" / name).write_text("")
    (made / "7" / names["events"]).write_text("oom 3\noom_kill 2\n")
    files = {name: os.open(made / "7" / file, os.O_RDWR) for name, file in names.items()}
    group = cgroups.Group(version, -1, files["limit"], files["swap"], files["events"])
    group.limit(64)
    assert (made / "7" / names["limit"]).read_text() == str(64 << 20)
    assert (made / "7" / names["swap"]).read_text() == (str(64 << 20) if version == 1 else "0")
    assert group.oom_kills() == 2
    for file in files.values():
        os.close(file)


def test_packages_are_shown_with_what_they_require_and_no_others() -> None:
    pytest.importorskip("sympy")
    names = {Path(path).name for path in mounts.package_paths(("sympy",))}
    assert {"sympy", "mpmath"} <= names
    assert not {"numpy", "pytest", "envs", "sandboxes"} & names
    assert mounts.package_paths(("no-such-package",)) == ()


def test_every_tier_says_what_it_does_not_cover() -> None:
    for isolation in TIERS.values():
        assert isolation.covered and isolation.uncovered
    assert any("FILES" in line for line in TIERS["process"].uncovered)
    assert len(TIERS["namespaces"].uncovered) < len(TIERS["landlock"].uncovered) <= len(TIERS["process"].uncovered)
