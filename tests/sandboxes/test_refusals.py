"""What is said where `local` cannot be had as asked."""

from __future__ import annotations

import json
import os

import pytest

import sandboxes
from sandboxes import Limits, SandboxUnavailable
from sandboxes.local.confinement import tiers
from sandboxes.registry import TIERS
from tests.support.sandbox_hosts import as_user, ordinary_python, why_not


@pytest.fixture(autouse=True)
def possible() -> None:
    if reason := why_not("local"):
        pytest.skip(reason)


def test_every_tier_has_a_name_and_says_what_it_covers() -> None:
    assert tuple(tiers.TIERS) == TIERS


def test_wrong_names_are_told_with_the_nearest_right_one() -> None:
    with pytest.raises(ValueError, match="no sandbox 'lokal'; did you mean 'local'"):
        sandboxes.open("lokal")
    with pytest.raises(ValueError, match="no tier 'namespace'; there are namespaces, landlock, process"):
        sandboxes.open("local:namespace")
    with pytest.raises(ValueError, match="places = 0"):
        sandboxes.open("local", places=0)


@pytest.mark.parametrize(
    ("name", "options", "word"),
    [
        ("local", {"queue_s": -1}, "queue_s = -1: must be 0 to 86400 seconds"),
        ("local", {"start_s": "9"}, "start_s = '9': must be"),
        (
            "local",
            {"packages": ["numpy", "no-such"]},
            "packages: 'no-such' is not installed here; install it, or leave it",
        ),
        ("remote", {"url": "http://localhost:1", "token": "a\tb"}, "the token must be printable ASCII, without line"),
        ("remote", {"url": 5}, "remote: url = 5: must be a str or None"),
        ("remote", {"url": "http://localhost:1", "token": 5}, "remote: token = 5: must be"),
        ("remote", {"url": "http://localhost:1", "queue_s": float("nan")}, "queue_s = nan: must be"),
    ],
)
def test_a_wrong_option_is_refused_with_its_name(name: str, options: dict, word: str) -> None:
    with pytest.raises(ValueError, match=word):
        sandboxes.open(name, **options)


def test_text_that_utf_8_cannot_hold_and_folders_are_refused_by_name() -> None:
    with sandboxes.open("local", packages=()) as sandbox:
        with pytest.raises(ValueError, match=r"^stdin: character 1, '\\ud800', cannot be written as UTF-8"):
            sandbox.run("print(1)", stdin="a\ud800")
        session = sandbox.session()
        session.write("folder/file", "x")
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(OSError, match="is no plain file: 'folder'"):
            session.read("folder")
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("tier", TIERS)
def test_input_files_that_do_not_fit_are_an_error_in_every_tier(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if reason := why_not(f"local:{tier}"):
        pytest.skip(reason)
    limits = Limits(disk_mb=2, files=40)
    names = [f"d{number}/f" for number in range(20)]
    with sandboxes.open(f"local:{tier}", packages=()) as sandbox:
        for files in (
            {"f": bytes(3 << 20)},
            {"f": bytes(3 << 19), "g": bytes(3 << 19)},
            dict.fromkeys("f" * number for number in range(1, 42)),
            dict.fromkeys([*names, "f"]),
        ):
            for _ in range(3):
                with pytest.raises(OSError, match="the files do not fit into the limits on disk and files"):
                    sandbox.run("print(1)", files={name: text or b"" for name, text in files.items()}, limits=limits)
        assert sandbox.run("print(1)", files=dict.fromkeys(names, b""), limits=limits).stdout == "1\n"
        # Folders take blocks too, on some disks: the files may also be over the limits while they are written.
        monkeypatch.setattr("sandboxes.local.place.check_files", lambda *_: None)
        with pytest.raises(OSError, match="the files do not fit into the limits on disk and files"):
            sandbox.run("print(1)", files={f"f{number}": b"" for number in range(20_000)}, limits=limits)
        assert sandbox.run("print(1)", limits=limits).stdout == "1\n"


WITHOUT_NAMESPACES = """
import json, sandboxes
from sandboxes.local.confinement import syscalls
import os
user, group = os.geteuid(), os.getegid()
syscalls.set_dumpable(True)
syscalls.unshare(syscalls.NEWUSER)
for name, text in (("setgroups", "deny"), ("uid_map", f"0 {user} 1"), ("gid_map", f"0 {group} 1")):
    open(f"/proc/self/{name}", "w").write(text)
open("/proc/sys/user/max_user_namespaces", "w").write("0")
syscalls.drop_capabilities()
found = {}
for name in ("local", "local:landlock"):
    try:
        with sandboxes.open(name, packages=()) as sandbox:
            found[name] = sandbox.run("print(1)").stdout
    except sandboxes.SandboxUnavailable as fault:
        found[name] = str(fault)
print(json.dumps(found))
"""


def test_where_namespaces_are_forbidden_the_error_names_the_tier_and_the_ways_out() -> None:
    python, reason = ordinary_python()
    if reason:
        pytest.skip(reason)
    done = as_user(python, "-c", WITHOUT_NAMESPACES, timeout=60)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["local"].startswith("local: tier 'namespaces' did not start: ")
    assert "max_user_namespaces" in found["local"] and "'local:landlock'" in found["local"]
    assert "\n" not in found["local"]
    assert found["local:landlock"] == "1\n" or "needs a kernel with Landlock" in found["local:landlock"]


def test_other_systems_are_told_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    with pytest.raises(SandboxUnavailable, match="tier 'namespaces' needs Linux; this is Darwin"):
        sandboxes.open("local")
    monkeypatch.undo()
    monkeypatch.setattr("platform.release", lambda: "5.4.0-generic")
    with pytest.raises(SandboxUnavailable, match=r"needs Linux 5\.14 .* this is 5\.4\.0-generic"):
        sandboxes.open("local")
