"""`rl.view`: reading the rollouts of a run, the page made from them, and errors."""

from __future__ import annotations

import errno
import gzip
import json
import math
import random
import re
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from envs.types import Stop
from rl import view
from rl.cli import UserError
from rl.records import Group, Ticket, Trajectory
from rl.train.run_folder import RunFolder
from rl.viewer import encoding, reader, server, token_text
from rl.viewer.page import page
from tests.support import rollouts as toy

RNG_SEED = 5


def small(number: int = 0, size: int = 2, update: int = 1) -> Group:
    return toy.group(number, size, random.Random(RNG_SEED), update)


def pictures() -> Group:
    """A group whose one episode shows two pictures in three turns."""
    urls = [f"data:image/png;base64,{content}" for content in ("AAAA", "AAAB", "AAAA")]
    messages = [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": url}}]} for url in urls]
    turns = [toy.turn("", "seen", observation=(message,)) for message in messages]
    return Group(Ticket(0, 0, "train", 0, 1), [Trajectory(turns, Stop.TERMINATED, task="train/0")])


def rendered(path: Path, *words: object) -> str:
    """Run the command with `--html` and return the page."""
    target = path.parent / "page.html"
    assert view.main([str(path), "--html", str(target), *map(str, words)]) == 0
    return target.read_text(encoding="utf-8")


def data(html: str, name: str) -> str:
    """Return the content of the script element `name` as a browser sees it: up to the first closing tag."""
    start = re.search(rf'<script type="application/json" id="{name}-data">', html)
    assert start
    return html[start.end() : html.index("</script", start.end())]


def episodes(html: str) -> list[dict[str, Any]]:
    return [json.loads(line, parse_constant=pytest.fail) for line in data(html, "episode").split("\n")]


def failure(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    """Run a command that must fail with a one-line error; return its message."""
    with pytest.raises(SystemExit) as exit:
        view.run(lambda: view.main(list(map(str, words))))
    out, err = capsys.readouterr()
    assert (exit.value.code, out, err.count("\n")) == (2, "", 1)
    return err.partition("error: ")[2].rstrip("\n")


def test_a_page_holds_every_number_that_the_run_recorded(tmp_path: Path) -> None:
    group = small()
    html = rendered(toy.run(tmp_path / "run", [group]))
    head = json.loads(data(html, "head"))
    first, packed_first = group.trajectories[0], episodes(html)[0]
    assert (head["name"], head["env"], head["recipe"], head["notes"]) == ("run", "games/Toy-v0", "grpo", [])
    assert head["table"]["reward"] == [trajectory.reward for trajectory in group.trajectories]
    assert head["table"]["tokens"] == [trajectory.num_sampled for trajectory in group.trajectories]
    assert packed_first["seed"] == str(first.seed) == "9223372036854775808"
    ids, texts = head["vocabulary"]["ids"], head["vocabulary"]["texts"]
    for turn, packed_turn in zip(first.turns, packed_first["turns"], strict=True):
        assert [ids[k] for k in packed_turn["ids"]] == list(turn.completion.ids)
        assert "".join(texts[k] for k in packed_turn["ids"]) == f"{turn.reply['content']}<|end|>"
        assert [x / 1000 for x in packed_turn["logprobs"]] == pytest.approx(turn.completion.logprobs, abs=6e-4)
        assert packed_turn["streams"]["advantage"] == pytest.approx(turn.streams["advantage"][0])
        assert packed_turn["streams"]["info_gain"] == pytest.approx(turn.streams["info_gain"][0])
        assert packed_turn["streams"]["value"] == pytest.approx(turn.streams["value"], abs=6e-5)
        assert packed_turn.get("reward", 0) == turn.reward and packed_turn["rewards"] == turn.rewards
        assert packed_turn.get("invalid", False) is not turn.valid
        assert (packed_turn["state"], packed_turn["metrics"]) == (turn.state, turn.metrics)
        assert (packed_turn["sample_s"], packed_turn["env_s"], packed_turn["context"]) == (
            0.0123,
            0.0004,
            len(turn.context),
        )


def test_a_page_is_smaller_than_what_it_shows(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", list(toy.groups(80)))
    html = rendered(run)
    assert len(data(html, "episode")) < 0.6 * (run / "rollouts" / "update-000001.jsonl").stat().st_size


def test_no_text_of_a_rollout_becomes_markup(tmp_path: Path) -> None:
    html = rendered(toy.run(tmp_path / "run", [toy.hostile()]))
    page_episodes = episodes(html)
    assert html.count("<script") == html.count("</script") == 3
    assert "<" not in data(html, "head") + data(html, "episode")
    assert [episode["answer"] for episode in page_episodes] == list(toy.ATTACKS)
    assert [episode["turns"][0]["reply"]["content"] for episode in page_episodes] == list(toy.ATTACKS)
    assert json.loads(data(html, "head"))["table"]["task"]["names"] == list(toy.ATTACKS)


def test_the_page_names_no_other_place_and_lets_only_its_own_script_run(tmp_path: Path) -> None:
    html = rendered(toy.run(tmp_path / "run", [small()]))
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', html)
    assert policy and "default-src 'none'" in policy[1] and "unsafe" not in policy[1]
    own = html.replace(data(html, "episode"), "").replace(policy[1], "")
    assert not re.search(r"https?:|[\"'`(]//|@import|url\(", own)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", own)


def test_numbers_that_json_lacks_do_not_spoil_the_page(tmp_path: Path) -> None:
    turn = toy.turn("a", "b", advantage=math.nan, metrics={"x": math.inf, "n": 2**60})
    turn.streams["value"] = (math.nan, 0.5)
    run = toy.run(tmp_path / "run", [Group(Ticket(0, 0, "train", 0, 1), [Trajectory([turn], Stop.TERMINATED)])])
    (packed_turn,) = episodes(rendered(run))[0]["turns"]
    assert packed_turn["metrics"] == {"x": "inf", "n": str(2**60)}
    assert packed_turn["streams"] == {"value": [None, 0.5]}


def test_a_failed_attempt_is_shown_without_being_scored(tmp_path: Path) -> None:
    html = rendered(toy.run(tmp_path / "run", [small(8)]))
    table, last = json.loads(data(html, "head"))["table"], episodes(html)[-1]
    assert table["stop"]["names"][table["stop"]["codes"][-1]] == "error"
    assert last == {"index": 8, "split": "train", "seed": str(2**63 + 8), "version": 0, "error": toy.FAULT, "turns": []}


def test_an_error_is_shown_with_the_line_that_led_to_it() -> None:
    episode = {"turns": [], "error": "KeyError: 'b'", "error_line": "mine.py, line 3"}
    assert encoding._failure(episode) == "KeyError: 'b' (mine.py, line 3)"
    assert encoding._failure({"turns": [], "error": "KeyError: 'b'"}) == "KeyError: 'b'"
    assert encoding._failure({"turns": []}) is None


def test_updates_and_limit_choose_whole_groups_from_the_end(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", *([small(10 * u + g, update=u) for g in range(3)] for u in (1, 2, 3)))
    source = reader.find(run)

    def selection(**how: Any) -> list[tuple[int, int]]:
        return [(one["update"], one["group"]) for one in reader.read(source, **how).episodes]

    assert selection() == [(u, 10 * u + g) for u in (1, 2, 3) for g in range(3) for _ in range(2)]
    assert selection(updates=(3, 1)) == [pair for pair in selection() if pair[0] != 2]
    assert selection(limit=5) == [(3, 31), (3, 31), (3, 32), (3, 32)]
    assert selection(limit=6) == selection(updates=(3,))
    assert selection(limit=1) == [(3, 32)]  # of a single group that does not fit, what does
    assert reader.read(source, limit=5).notes == ["the last 4 episodes, of update 3; --limit or --update reads others"]
    assert reader.read(source, limit=18).notes == []


def test_a_file_alone_a_file_of_a_run_and_its_folder_are_read(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small()])
    file = run / "rollouts" / "update-000001.jsonl"
    alone = tmp_path / "sent.jsonl"
    alone.write_bytes(file.read_bytes())
    heads = [json.loads(data(rendered(path), "head")) for path in (file, run / "rollouts", alone)]
    assert [head["name"] for head in heads] == ["run", "run", "sent.jsonl"]
    assert [head["recipe"] for head in heads] == ["grpo", "grpo", ""]
    assert {head["table"]["env"]["names"][0] for head in heads} == {"games/Toy-v0"}  # each line says it
    assert set(heads[2]["vocabulary"]["texts"]) == {None}  # nothing tells what its ids mean


def test_a_corrupt_line_is_named_and_the_rest_is_shown(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small(size=4)])
    file = run / "rollouts" / "update-000001.jsonl"
    lines = file.read_bytes().splitlines()
    wrong = [b'{"update": 1, "turns": [', b"7", b'{"turns": [{"ids": [1], "logprobs": []}]}', b"\xff\xfe", b"[" * 5000]
    file.write_bytes(b"\n".join([lines[0], *wrong, b"", *lines[1:], b""]))
    rollouts = reader.read(reader.find(run))
    assert [one["member"] for one in rollouts.episodes] == [0, 1, 2, 3]
    numbers = [re.match(r"update-000001.jsonl line (\d+) is left out: not ", note) for note in rollouts.notes]
    assert [match and int(match[1]) for match in numbers] == [2, 3, 4, 5, 6]


def test_no_value_of_another_type_stops_the_page(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small()])
    file = run / "rollouts" / "update-000001.jsonl"
    first = json.loads(file.read_text().splitlines()[0])
    turn, others = first["turns"][0], (None, 3, -1.5, True, "x", [], {}, [None], [[3]], {"x": [None]})
    no_url = [{"role": "user", "content": [{"type": "image_url", **image}]} for image in ({}, {"image_url": {"x": 1}})]
    changed = [{**first, key: value} for key in first for value in others]
    changed += [{**first, "turns": [{**turn, key: value}]} for key in turn for value in others]
    changed += [{**first, "final": [message]} for message in no_url]
    file.write_text("\n".join(map(json.dumps, [*changed, first])) + "\n")
    pages = rendered(run)
    assert 0.9 * len(changed) < len(episodes(pages)) < len(changed)
    assert "is left out: not an episode (an image has no URL)" in pages


def test_a_last_line_that_is_still_being_written_is_left_out(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small(size=4)])
    file = run / "rollouts" / "update-000001.jsonl"
    file.write_bytes(file.read_bytes()[:-40])
    rollouts = reader.read(reader.find(run))
    assert [one["member"] for one in rollouts.episodes] == [0, 1, 2]
    assert rollouts.notes == ["update-000001.jsonl: its last line is incomplete and left out (still being written?)"]


def test_a_broken_config_costs_no_rollout(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small()])
    (run / "config.toml").write_text("env = ", encoding="utf-8")
    rollouts = reader.read(reader.find(run))
    assert len(rollouts.episodes) == 2 and rollouts.notes[0].startswith("config.toml cannot be read: ")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["{home}/rnu"], "{home}/rnu: no such run or file; did you mean {home}/run?"),
        (["{home}/no/where"], "{home}/no/where: no such run or file"),
        ([""], "the path is empty; name the folder of a run or a file of rollouts"),
        (["{home}/begun"], "{home}/begun: this run has no rollouts yet"),
        (["{home}/first"], "{home}/first: no episodes yet"),
        (
            ["{home}"],
            "{home}: no run (it has neither config.toml nor rollouts/update-*.jsonl); a run in it is {home}/run",
        ),
        (["{home}/run", "--update", "1", "4"], "--update 4: there are rollouts of updates 1 to 2"),
        (["{home}/one.jsonl", "--update", "4"], "--update 4: no such update in {home}/one.jsonl"),
        (["{home}/run", "--limit", "0"], "--limit 0: must be at least 1"),
        (["{home}/run", "--port", "70000"], "--port 70000: must be at most 65535"),
        (["{home}/run", "--html", "{home}/no/page.html"], "--html {home}/no/page.html: there is no folder {home}/no"),
        (["{home}/one.jsonl", "--html", "{home}/one.jsonl"], "--html {home}/one.jsonl: is the file to be read"),
        (
            ["{home}/bad.jsonl"],
            "{home}/bad.jsonl: no episodes; bad.jsonl line 1 is left out: not an episode (no list of turns)",
        ),
    ],
)
def test_a_mistake_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    run = toy.run(tmp_path / "run", [small()], [small(update=2)])
    (tmp_path / "one.jsonl").write_bytes((run / "rollouts" / "update-000001.jsonl").read_bytes())
    (tmp_path / "bad.jsonl").write_text("{}\n", encoding="utf-8")
    RunFolder.create(tmp_path / "begun", toy.CONFIG)
    RunFolder.create(tmp_path / "first", toy.CONFIG).write_rollouts(1, [])
    capsys.readouterr()
    assert failure(capsys, *(word.format(home=tmp_path) for word in words)) == message.format(home=tmp_path)


def test_a_file_that_holds_no_episodes_is_named_for_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy.run(tmp_path / "run", [small()])
    result = '{"env": "games/Toy-v0", "policy": "random",\n "success": {"mean": 0, "low": 0, "high": 1}}'
    for file in (tmp_path / "moved.json", run / "floor.json"):
        file.write_text(result, encoding="utf-8")
    (run / "summary.json").write_text('{\n "success_before": 0.1}', encoding="utf-8")
    (run / "metrics.jsonl").write_text('{"update": 1}\n', encoding="utf-8")
    capsys.readouterr()
    missing = "the result of an evaluation; its episodes, {}.rollouts.jsonl, are missing beside it"
    assert failure(capsys, tmp_path / "moved.json") == f"{tmp_path}/moved.json: {missing.format('moved')}"
    assert failure(capsys, run / "floor.json", "--update", 3) == f"{run}/floor.json: {missing.format('floor')}"
    summary = failure(capsys, run / "summary.json")
    assert summary == f"{run}/summary.json: a file of a run, without episodes; name the run's folder, {run}"
    metrics = failure(capsys, run / "metrics.jsonl")
    assert metrics == (
        f"{run}/metrics.jsonl: a file of a run, without episodes; metrics.jsonl line 1 is left out: "
        f"not an episode (no list of turns); name the run's folder, {run}"
    )


def test_an_update_whose_file_is_damaged_is_not_said_to_be_absent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = toy.run(tmp_path / "run", [small()], [small(update=2)], [small(update=3)])
    plain = run / "rollouts" / "update-000003.jsonl"
    (run / "rollouts" / "update-000003.jsonl.gz").write_bytes(gzip.compress(plain.read_bytes())[:200])
    plain.unlink()
    (run / "rollouts" / "update-000002.jsonl").write_bytes(b"")
    capsys.readouterr()
    damage = "update-000003.jsonl.gz is damaged and cannot be unpacked: "
    assert failure(capsys, run, "--update", 3).startswith(f"--update 3: no episodes; {damage}")
    assert "update-000002.jsonl is damaged: " in failure(capsys, run, "--update", 2)  # its digest is another
    assert reader.read(reader.find(run), (1, 3)).notes[0].startswith(damage)
    with pytest.raises(reader.NoSuchUpdateError, match="no such update"):
        reader.read(reader.find(copied(run / "rollouts" / "update-000001.jsonl", tmp_path / "one.jsonl")), (3,))


def copied(file: Path, target: Path) -> Path:
    target.write_bytes(file.read_bytes())
    return target


def test_pictures_that_were_not_copied_along_are_noted(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [pictures()])
    images = run / "rollouts" / "images"
    assert reader.read(reader.find(run)).notes == []
    (first, second) = sorted(images.iterdir())
    second.unlink()
    how = "copy the folder images to where the rollouts are"
    note = f"pictures are missing: images/{second.name}; {how}"
    assert reader.read(reader.find(run)).notes == [note]
    first.unlink()
    rollouts = reader.read(reader.find(run))
    assert rollouts.notes == [f"pictures are missing: images/{first.name} and 1 more; {how}"]
    assert f'"url":"images/{second.name}"' in rendered(run)


def test_a_folder_with_the_name_of_a_file_of_rollouts_is_skipped(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small(update=1)], [small(update=2)])
    for name in ("update-000003.jsonl", "update-000004.jsonl.gz"):
        (run / "rollouts" / name).mkdir()
    assert len(reader.read(reader.find(run)).episodes) == 4


def test_a_disk_that_is_full_is_named_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = toy.run(tmp_path / "run", [small()])

    def refuse(self: Path, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", refuse)
    capsys.readouterr()
    file = tmp_path / "page.html"
    assert failure(capsys, run, "--html", file) == f"--html {file}: no space left on device"


def test_token_texts_survive_without_a_checkpoint_if_the_model_is_the_bundled_one(tmp_path: Path) -> None:
    texts_of = token_text.token_texts(tmp_path, {"model": "tiny"})
    assert texts_of(toy.TOKENIZER.eos_token_id) == token_text.TokenText("<|end|>", special=True)
    assert [texts_of(byte).text for byte in b"a \n"] == ["a", " ", "\n"]
    assert texts_of(0xE2) == token_text.TokenText("\\xe2", raw=b"\xe2")
    assert texts_of(10**6).text is token_text.token_texts(tmp_path, {"model": "other/model"})(65).text is None


def test_a_word_that_a_tokenizer_begins_with_a_space_keeps_it() -> None:
    from tokenizers import Tokenizer, decoders, models

    tokenizer = Tokenizer(models.BPE({"▁the": 0, "re": 1, "<0xE2>": 2}, [], byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    texts_of = token_text.TokenTexts(tokenizer)
    assert [texts_of(0).text, texts_of(1).text, texts_of(2).raw] == [" the", "re", b"\xe2"]


def test_the_local_page_is_made_anew_for_each_visit_and_for_nobody_elses_name(tmp_path: Path) -> None:
    visits = iter([b"first", b"second"])
    address: list[str] = []
    ready = threading.Event()

    def tell(where: str) -> None:
        address.append(where)
        ready.set()

    def render(updates: tuple[int, ...]) -> bytes:
        if updates == (99,):
            raise reader.NoSuchUpdateError("there are 1 to 12")
        if updates:
            return f"updates {updates}".encode()
        try:
            return next(visits)
        except StopIteration:
            raise UserError("the run is gone") from None

    threading.Thread(target=server.serve, args=(render, 0, tell), daemon=True).start()
    assert ready.wait(10)

    def ask(path: str = "", host: str | None = None) -> tuple[int, bytes]:
        request = urllib.request.Request(address[0] + path, headers={"Host": host} if host else {})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    port = address[0].rstrip("/").rpartition(":")[2]
    assert ask(host=f"evil.example:{port}")[0] == 403
    assert ask("etc/passwd")[0] == ask("?update=../1")[0] == ask("?updates=1")[0] == 404
    assert ask("?update=12") == (200, b"updates (12,)")
    assert ask("?update=99") == (404, b"there are 1 to 12\n")
    assert [ask(), ask(host=f"localhost:{port}"), ask()] == [
        (200, b"first"), (200, b"second"), (503, b"the run is gone\n")
    ]  # fmt: skip
    with pytest.raises(UserError, match=f"--port {port}: address already in use"):
        server.serve(render, int(port))


def test_the_command_serves_until_interrupted_and_loads_no_torch(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", [small()])
    script = (
        "import _thread, sys, urllib.request\n"
        "from rl import view\nfrom rl.cli import run\n"
        "def visit(render, port, ready):\n"
        "    assert render(()).startswith(b'<!doctype html>')\n"
        "    raise KeyboardInterrupt\n"
        "view.serve = visit\n"
        "def main():\n"
        "    try: view.main(sys.argv[1:])\n"
        "    finally: print('torch' in sys.modules)\n"
        "run(main)\n"
    )
    result = subprocess.run([sys.executable, "-c", script, str(run)], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (130, "False\n"), result.stderr


def test_packing_is_a_function_of_the_episodes_alone(tmp_path: Path) -> None:
    run = toy.run(tmp_path / "run", list(toy.groups(32)))
    source = reader.find(run)
    assert page(source, reader.read(source)) == page(source, reader.read(source))
    page_data = encoding.encode(reader.read(source).episodes, token_text.TokenTexts())
    counts = [
        sum(turn["ids"].count(k) for text in page_data.episodes for turn in json.loads(text)["turns"]) for k in (0, 5)
    ]
    assert counts[0] > counts[1] > 0  # what is used most has the shortest number
