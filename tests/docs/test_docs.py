"""What the documentation says is so: tables, commands, code, links, named tests and logged keys."""

from __future__ import annotations

import ast
import json
import os
import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest

import envs
from envs.__main__ import _parser as envs_parser
from envs.adapters import openenv_server
from envs.adapters.mcp import server as mcp_server
from rl import view
from rl.evaluate import __main__ as evaluate
from rl.evaluate import attribution
from rl.methods import recipe as recipes
from rl.policy import tiny
from rl.policy.images import tiny as tiny_vision
from rl.policy.pretrained import save_pretrained
from rl.train import __main__ as train
from tests.support.forked_host import forked_processes
from tests.support.paths import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text(encoding="utf-8")
METRICS = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
GENEROUS = """
from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user


class Generous(Env):
    max_turns = 2

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(split),)) for i in range(4)]

    def reply(self, action):
        paid = 0.25 + (len(text(action)) % 2) / 4
        return Outcome((user("more"),), paid, rewards={"some": paid}, metrics={"gain": 0.5})

    def state(self):
        return str(self.turns)
"""  # pays an untrained model, so that no metric is left out for being nothing
ONE_LINE = re.compile(r"^python3 -m venv \.venv && \.venv/bin/pip install -e .*$", re.MULTILINE)
PARSERS = {
    "rl.train": train.parser,
    "rl.evaluate": evaluate.parser,
    "rl.attribution": attribution.parser,
    "rl.view": view.parser,
    "rl.policy.images.tiny": tiny_vision.parser,
    "envs": envs_parser,
    "envs.adapters.openenv_server": openenv_server.command_line,
    "envs.adapters.mcp.server": mcp_server.command_line,
}


def blocks(page: Path, *languages: str) -> list[tuple[str, str]]:
    """What stands before each code block of these languages, and the block."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(rf"^```(?:{'|'.join(languages)})\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    return [(text[: match.start()], match[1]) for match in found]


def commands() -> list[str]:
    """Every `python -m ...` of this project in a shell block, without its comment."""
    texts = [block.replace("\\\n", " ") for page in PAGES for _, block in blocks(page, "sh")]
    lines = [line for text in texts for line in text.splitlines()]
    found = [re.search(r"python -m ((?:rl|envs)\b.*)", line) for line in lines]
    return [match[1].split("  #")[0].strip() for match in found if match]


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_what_is_generated_is_up_to_date() -> None:
    for path, content in runpy.run_path(str(ROOT / "docs" / "generate.py"))["pages"]().items():
        assert path.read_text(encoding="utf-8") == content, f"{path.name}: run python docs/generate.py"


def test_the_readme_opens_with_two_commands_of_one_line() -> None:
    main, tests = ONE_LINE.findall(README)
    assert main.endswith("&& .venv/bin/python -m rl.train --env math/Arithmetic-v0")
    assert "-e '.[test]' " in tests and tests.endswith("&& .venv/bin/python -m pytest -n 2 --dist loadfile")
    assert README.index(tests) < 1500


def test_continuous_integration_runs_those_very_commands() -> None:
    script = ROOT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    patterns = re.findall(r"^\w+=\$\(command_of '(.*)'\)$", script.read_text(encoding="utf-8"), flags=re.MULTILINE)
    assert len(patterns) == 2
    for pattern, command in zip(patterns, ONE_LINE.findall(README), strict=True):
        found = subprocess.run(["grep", "-E", pattern, ROOT / "README.md"], capture_output=True, text=True, check=True)
        assert found.stdout.splitlines() == [command]


@pytest.mark.parametrize("command", commands())
def test_commands_are_understood(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, *words = shlex.split(command)
    if "polite.py:Polite" in words:  # a file that is read when the flag is
        (block,) = [block for _, block in blocks(ROOT / "docs" / "agents.md", "python") if "class Polite" in block]
        (tmp_path / "polite.py").write_text(block, encoding="utf-8")
        monkeypatch.chdir(tmp_path)
    parsed = vars(PARSERS[module]().parse_args(words))
    name = parsed.get("env") or parsed.get("id")
    if name and ".py" not in name and name not in ("ID", "NAME", "list"):
        try:
            envs.entry(name)
        except ImportError as error:  # the class of a game depends on its package
            assert name.startswith("pettingzoo:") and "pip install -e '.[classic]'" in str(error)
    if "algo" in parsed and ".py" not in parsed["algo"] and parsed["algo"] != "list":
        recipes.load(parsed["algo"])


def test_there_are_commands_to_understand() -> None:
    assert len(commands()) >= 8


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page, "python")], ids=lambda page: page.name)
def test_code_on_a_page_runs_from_top_to_bottom(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one namespace and an empty folder. A block that the text gives a file's name is saved under it first."""
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": page.stem}
    for before, block in blocks(page, "python"):
        if saved := re.findall(r"`(\w+\.py)`", before.rstrip().split("\n\n")[-1]):
            (tmp_path / saved[-1]).write_text(block, encoding="utf-8")
        exec(compile(block, str(page), "exec"), namespace)


def test_the_readmes_own_environment_and_method_are_found_as_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envs.checks import check_env

    monkeypatch.chdir(tmp_path)
    for name, mark in (("parity.py", "class Parity"), ("bold.py", "recipe =")):
        (block,) = [block for _, block in blocks(ROOT / "README.md", "python") if mark in block]
        Path(name).write_text(block, encoding="utf-8")
    check_env("parity.py:Parity", tasks=5)
    assert recipes.words(recipes.load("bold.py"))["surrogate"] == "clip:low=0.2,high=0.5"


def test_the_tool_environment_of_the_guide_passes_every_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from envs.checks import check_env

    monkeypatch.chdir(tmp_path)
    page = ROOT / "docs" / "add_an_env.md"
    (block,) = [block for _, block in blocks(page, "python") if "class Stock" in block]
    assert len(block.splitlines()) < 60
    Path("stock.py").write_text(block, encoding="utf-8")
    check_env("stock.py:Stock")


def test_the_site_of_the_guide_passes_every_check_and_what_just_misses_its_goal_earns_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from envs.checks import check_env

    monkeypatch.chdir(tmp_path)
    ((_, block),) = blocks(ROOT / "docs" / "web.md", "python")
    Path("library.py").write_text(block, encoding="utf-8")
    check_env("library.py:Lending", tasks=5)
    env = envs.make("library.py:Lending").unwrapped
    env.reset(seed=0, options={"split": "test", "index": 0})
    for what, script in {"": env.case.steps, **env.case.misses}.items():
        env.reset(seed=0, options={"split": "test", "index": 0})
        rewards = [env.step(reply)[1] for step in script for reply in env.play_step(step)]
        assert sum(rewards) == float(not what), what


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if target.startswith("https://"):
            continue
        file, _, anchor = target.partition("#")
        to = (page.parent / file).resolve() if file else page
        assert to.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", to.read_text(encoding="utf-8"), flags=re.MULTILINE)
            assert anchor in map(slug, headings), target


def test_every_test_that_a_page_names_exists() -> None:
    pattern = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
    named = {match for page in PAGES for match in pattern.findall(page.read_text("utf-8"))}
    assert len(named) > 20
    for file, test in named:
        tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
        assert not test or test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def documented(heading: str) -> dict[str, str]:
    """The keys in the first column of a table of `docs/metrics.md`, and the rest of their rows."""
    section = METRICS.split(f"\n## {heading}")[1].split("\n## ")[0]
    rows = re.findall(r"^\| (`.*?`) \| (.*) \|$", section, flags=re.MULTILINE)
    return {key: rest for keys, rest in rows for key in re.findall(r"`([^`]+)`", keys)}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Runs without and with a critic and a judge, against past weights, with several engines, spares and turns on demand."""
    home = tmp_path_factory.mktemp("runs")
    save_pretrained(*tiny.create(hidden=64, layers=1, heads=2, intermediate=64), home / "model")
    (home / "generous.py").write_text(GENEROUS, encoding="utf-8")
    shape = shlex.split("--updates 2 --groups 2 --size 2 --turn-tokens 4 --eval-episodes 2 --cold-start 0")
    for algo in ("grpo", "ppo", "spec_rl"):
        flags = ["--env", f"{home}/generous.py:Generous", "--algo", algo, "--model", f"{home}/model", *shape]
        flags += ["--updates", "3"] if algo == "spec_rl" else []  # its tasks come back
        flags += ["--verdict", "rating:max_tokens=2", "--judge", f"{home}/model"] if algo == "ppo" else []
        assert train.main([*flags, "--out", str(home / algo)]) == 0
    against = ["--env", "multi/Kuhn-v0", "--opponent", "pool:self_play=0", "--model", f"{home}/model", *shape]
    assert train.main([*against, "--out", str(home / "pool")]) == 0
    roles = ["--env", "multi/Kuhn-v0", "--role", "each", "--model", f"{home}/model", *shape]
    assert train.main([*roles, "--out", str(home / "roles")]) == 0
    copied = ["--env", "math/Arithmetic-v0", "--algo", "reinforce", "--strategy", "recorded"]
    assert train.main([*copied, "--model", f"{home}/model", *shape, "--out", str(home / "imitation")]) == 0
    brief = ["--env", "games/GuessNumber-v0", "--agent", "extension:turns=1,more=1", "--model", f"{home}/model"]
    brief += ["--engines", "2", "--mode", "partial", "--strategy", "redundant:mode=race"]
    with forked_processes():
        assert train.main([*brief, *shape, "--max-tokens", "1500", "--out", str(home / "brief")]) == 0
    return [
        home / "grpo",
        home / "ppo",
        home / "spec_rl",
        home / "pool",
        home / "roles",
        home / "imitation",
        home / "brief",
    ]


def test_the_logged_keys_are_the_documented_ones(runs: list[Path]) -> None:
    listed = documented("metrics.jsonl")
    always = {key for key, rest in listed.items() if "; only w" not in rest}
    seen = set()
    for run in runs:
        for line in (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines():
            keys = {re.sub("^rewards/.*", "rewards/NAME", key) for key in json.loads(line)}
            keys = {re.sub("^seats/[^/]+", "seats/NAME", key) for key in keys}
            keys = {re.sub("^judge/(?!asked$).*", "judge/NAME", key) for key in keys}
            keys = {re.sub("^roles/[^/]+/.*", "roles/NAME/METRIC", key) for key in keys}
            assert always <= keys
            seen |= keys
    assert seen == listed.keys()


def test_the_summary_has_the_documented_keys(runs: list[Path]) -> None:
    for run in runs:
        assert json.loads((run / "summary.json").read_text(encoding="utf-8")).keys() == documented("summary").keys()


def test_rollouts_have_the_documented_keys(runs: list[Path]) -> None:
    section = METRICS.split("\n## rollouts")[1]
    in_turns = set(re.findall(r"`(\w+)`", section.split("A turn holds")[1]))
    for run in runs:
        lines = (run / "rollouts" / "update-000001.jsonl").read_text(encoding="utf-8").splitlines()
        for line in map(json.loads, lines):
            assert line.keys() | {"player", "spare"} == documented("rollouts").keys()
            others = {"pool": {None, "update-000000"}, "imitation": {"oracle"}}
            assert line.get("player") in others.get(run.name, {None})
            assert line["turns"]
            for turn in line["turns"]:
                assert turn.keys() <= in_turns


def test_the_readme_counts_the_methods() -> None:
    count = len(recipes.catalogue())
    assert f"({count} of them are included" in README
