"""Whatever programs, files, games and tools print, an observation can be encoded, tokenised and shown in a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import envs
from envs.checks.env_under_test import constant_replies, play
from envs.env import Env
from envs.messages import encode_message, printable
from envs.types import Message, Outcome, Stop, Task, assistant, text, user
from tests.support.sandbox_hosts import why_not

HOSTILE = "\ud800 \udfff\x00\x07\x1b[31mred\x1b]0;title\x07\x08\x7f\x9b\r over"
AS_SHOWN = "\\ud800 \\udfff\\x00\\x07\\x1b[31mred\\x1b]0;title\\x07\\x08\\x7f\\x9b\\r over"
ROW = {
    "task_id": "Toy/0",
    "prompt": "def one():\n",
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}
BYTES = "\\200\\377\\000\\033[31m\\007\\r over"  # for the shell's printf
RAISES = f"raise ValueError({HOSTILE!r})"


def call(name: str, **arguments: object) -> Message:
    calls = [{"id": "call00000", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]
    return {"role": "assistant", "content": "", "tool_calls": calls}  # type: ignore[typeddict-item]


ECHOES: dict[str, tuple[str, dict[str, Any], Message]] = {
    "an exception of a function": (
        "code/Functions-v0",
        {"level": 2},
        assistant(f"def f(*given):\n    {RAISES}"),
    ),
    "an exception of a completion": ("code/HumanEval-v0", {}, assistant(f"    {RAISES}")),
    "an exception of a repair": ("code/Repair-v0", {}, assistant(f"def f(*given):\n    {RAISES}")),
    "a value of a repair": ("code/Repair-v0", {}, assistant(f"def f(*given):\n    return {HOSTILE!r}")),
    "a command": ("code/Shell-v0", {}, assistant(f"printf '{BYTES}'")),
    "a command that is not there": ("code/Shell-v0", {}, assistant(HOSTILE.replace("\0", ""))),
    "a file's name": ("code/Shell-v0", {}, assistant(f"touch \"$(printf '{BYTES}')\"; ls; ls -q")),
    "a program in a repository": ("code/Repo-v0", {}, assistant(f"run\nprint({HOSTILE!r})")),
    "an exception in a repository": ("code/Repo-v0", {}, assistant(f"run\n{RAISES}")),
    "a file of a repository": ("code/Repo-v0", {}, assistant(f"read {HOSTILE}")),
    "output of the interpreter": ("math/Python-v0", {}, assistant(f">print({HOSTILE!r})")),
    "an exception of the interpreter": ("math/Python-v0", {}, assistant(f">{RAISES}")),
    "a tool's name": ("math/Python-v0", {}, call(HOSTILE)),
    "a search": ("tools/Search-v0", {}, call("search", query=HOSTILE)),
    "an unknown argument": ("tools/Search-v0", {}, call("search", **{HOSTILE: HOSTILE})),
    "a command of a game": ("games/Rooms-v0", {}, assistant(HOSTILE)),
    "a guess": ("games/Wordle-v0", {}, assistant(HOSTILE)),
    "a move": ("games/TextArena-v0", {}, assistant(f"[{HOSTILE}]")),
}


class Echo(Env):
    """Repeats replies, in every kind of content."""

    max_turns = 3

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/0", (user(f"say {HOSTILE}"),), "x")]

    def reply(self, action: Message) -> Outcome:
        blocks = [{"type": "text", "text": text(action)}, {"type": "image_url", "image_url": {"url": text(action)}}]
        tool: Message = {"role": "tool", "tool_call_id": text(action), "content": text(action)}
        return Outcome((user(text(action)), {"role": "user", "content": blocks}, tool))

    def oracle(self) -> Iterator[Message]:
        yield assistant("x")


@pytest.fixture(scope="module")
def tokenise() -> Callable[[list[Message]], object]:
    from rl.policy import tiny

    tokenizer = tiny.create(hidden=32, layers=1, heads=1, intermediate=32)[1]
    return lambda messages: tokenizer.apply_chat_template(messages, tokenize=True)


@pytest.mark.parametrize("what", ECHOES)
def test_observations_are_text_that_can_be_encoded_and_shown(
    what: str, tokenise: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, arguments, action = ECHOES[what]
    if name.startswith(("code", "math")) and (reason := why_not("local")):
        pytest.skip(reason)
    if "HumanEval" in name:
        (tmp_path / "humaneval").mkdir()
        (tmp_path / "humaneval" / "rows.jsonl").write_text(json.dumps(ROW))
        arguments = {"data_root": str(tmp_path)}
    try:
        env = envs.make(name, **arguments).unwrapped
    except ImportError as missing:
        pytest.skip(str(missing))
    if "TextArena" in name:
        pytest.importorskip("textarena")
    with env:
        episode = play(env, constant_replies(action), turns=2)  # type: ignore[arg-type]
        observations = [message for turn in episode.turns for message in turn[0]]
        assert observations or "Wordle" in name or "TextArena" in name
        for message in (*episode.opening, *observations):
            assert_renders(message, tokenise)
        json.dumps([turn[4] for turn in episode.turns], ensure_ascii=False).encode()


def assert_renders(message: Message, tokenise: Callable[[list[Message]], object]) -> None:
    content = json.dumps(message, ensure_ascii=False)
    content.encode()  # raises for a lone surrogate
    assert printable(text(message)) == text(message)
    assert not any(ord(character) < 32 and character not in "\n\t" for character in text(message))
    tokenise([message])


def test_hostile_text_is_shown_by_its_escapes_wherever_it_stands_in_a_message(tokenise: Callable) -> None:
    with Echo() as env:
        (opening,), _ = env.reset(seed=0)
        plain, blocks, tool = env.step(HOSTILE)[0]
        assert opening["content"] == f"say {AS_SHOWN}" and plain["content"] == AS_SHOWN == tool["content"]
        assert tool["tool_call_id"] == AS_SHOWN == blocks["content"][1]["image_url"]["url"]
        for message in (opening, plain, blocks, tool):
            json.dumps(message, ensure_ascii=False).encode()
        assert env.dialogue[0] == opening and env.dialogue[2:] == [plain, blocks, tool]


@pytest.mark.parametrize("content", ["", "a\tb\nc\r\nd", "é ж \u00a0 中 \U0001f642 \u200d e\u0301", "\\x00 \\ud800"])
def test_text_that_can_be_shown_stays_as_it_is(content: str) -> None:
    assert printable(content) == content and printable(printable(HOSTILE)) == printable(HOSTILE) == AS_SHOWN


@pytest.mark.parametrize(
    "message",
    [
        user("2 + 3 = ?"),
        user(f'"quoted" \\ é \u2028 \U0001f642{HOSTILE}'),
        {"content": "", "role": "tool"},
        call("run", code="print(1)"),
        {"role": "user", "content": [{"type": "text", "text": "é"}]},
        {"role": "user", "content": None},
        {"role": "user", "images": "a"},
        {"role": Stop.ERROR, "content": "of another type of text"},
        {"role": "user", "content": {1}},
    ],
)
def test_a_message_is_encoded_as_json_does(message: Message) -> None:
    assert encode_message(message) == json.dumps(message, sort_keys=True, default=repr)
