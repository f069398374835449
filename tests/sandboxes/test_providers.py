"""Providers of one's own: every form of name, entry points, what is wrong with a name or a class, and the page's example."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import envs
import sandboxes
from envs.__main__ import main as envs_main
from envs.shared_sandbox import Lease
from sandboxes import Sandbox, Session, registry
from sandboxes.__main__ import main as serve_main
from sandboxes.checks import behaviours, run_checks
from sandboxes.checks.__main__ import main as checks_main
from sandboxes.local.provider import Local
from sandboxes.remote.provider import Remote
from tests.support.paths import ROOT
from tests.support.sandbox_servers import post, served

TOY = '''
"""Providers for tests: none of them runs anything."""

from sandboxes import Isolation, Result, SandboxUnavailable, Status


class Toy:
    isolation = Isolation("toy", (), (), "none", sessions=False, protects=False)
    opened = []

    def __init__(self, kind="", *, size=1):
        self.kind, self.size, self.is_closed = kind, size, False
        self.opened.append(self)

    def run(self, program, **kwargs):
        return Result(Status.OK, exit_code=0, stdout=f"{program} in {self.kind or 'toy'} {self.size}\\n")

    def session(self, *, limits=None):
        raise SandboxUnavailable("Toy has no sessions")

    def close(self):
        self.is_closed = True

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class WithoutKind(Toy):
    def __init__(self):
        super().__init__()


class WithUrl(Toy):
    def __init__(self, *, url):
        super().__init__()


class WithoutIsolation(Toy):
    isolation = None


class Broken(Toy):
    def __init__(self):
        {}["port"]


class Down(Toy):
    def __init__(self):
        raise RuntimeError("no server\\nanswers")


class Half:
    def run(self, program, **kwargs): ...

    def close(self): ...


def function(): ...
'''
SUBCLASS = """
from sandboxes import Sandbox


class Partial(Sandbox):
    def run(self, program, **kwargs): ...

    def close(self): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory, also on `sys.path`, with `toy.py` and a package that has the same in a module."""
    package = tmp_path / "toy_package"
    package.mkdir()
    (package / "__init__.py").touch()
    for path in (tmp_path / "toy.py", package / "sandbox.py"):
        path.write_text(TOY, encoding="utf-8")
    (tmp_path / "subclass.py").write_text(SUBCLASS, encoding="utf-8")
    (tmp_path / "broken.py").write_text("x = 1\ny = x / 0\n", encoding="utf-8")
    (tmp_path / "needy.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name in ("toy", "toy_package", "toy_package.sandbox", "subclass", "broken", "needy"):
        sys.modules.pop(name, None)


@pytest.fixture
def install(folder: Path) -> Iterator[Callable[..., None]]:
    """Install a distribution with entry points, until the end of the test."""

    def install(**points: str) -> None:
        info = folder / "toys-1.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toys\nVersion: 1\n", encoding="utf-8")
        lines = "\n".join(f"{name} = {value}" for name, value in points.items())
        (info / "entry_points.txt").write_text(f"[turnwise.sandboxes]\n{lines}\n", encoding="utf-8")
        registry._plug_ins.cache_clear()

    yield install
    registry._plug_ins.cache_clear()


def output(name: str, **options: object) -> str:
    with sandboxes.open(name, **options) as sandbox:
        return sandbox.run("1").stdout


@pytest.mark.parametrize("name", ["toy.py:Toy", "./toy.py:Toy", "toy:Toy", "toy_package.sandbox:Toy", "toys"])
def test_every_form_of_name_opens_the_class_with_its_kind_and_options(
    install: Callable[..., None], name: str, folder: Path
) -> None:
    install(toys="toy_package.sandbox:Toy")
    assert output(name) == "1 in toy 1\n"
    assert output(f"{name}:a:b.py:c", size=3) == "1 in a:b.py:c 3\n"
    assert output(f"{folder}/toy.py:Toy:kind") == "1 in kind 1\n"


def test_a_file_is_executed_once_and_its_class_can_be_pickled(folder: Path) -> None:
    import pickle

    cls = registry.find_provider("toy.py:Toy").cls
    assert registry.find_provider(f"{folder}/toy.py:Toy").cls is cls
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_built_in_providers_win_over_entry_points_and_these_over_modules(install: Callable[..., None]) -> None:
    install(local="toy:Toy", toy="toy:WithoutIsolation", toy_package="toy:Toy")
    assert registry.find_provider("local").cls is Local
    assert registry.find_provider("toy:Toy").kind == "Toy"
    assert output("toy_package:kind") == "1 in kind 1\n"


WRONG = {
    "lokal": "no sandbox 'lokal'; did you mean 'local'? There are local, docker, remote, toys, broken, module:Class",
    "lokal:landlock": "no sandbox 'lokal:landlock': no module 'lokal'; did you mean 'local:landlock'?",
    "local:tier": "local: no tier 'tier'; there are namespaces, landlock, process",
    "toyz": "no sandbox 'toyz'; did you mean 'toys'?",
    "xyzzy": "no sandbox 'xyzzy'; there are local, docker, remote, toys, broken, module:Class and path/to/file.py:Class",
    "": "no sandbox ''; there are local",
    "toy.py": "sandbox 'toy.py' is a file; name a class of it: 'toy.py:Toy', 'toy.py:WithoutKind', ",
    "toy.py:Tyo": "sandbox 'toy.py:Tyo': no class 'Tyo' in toy.py; did you mean 'Toy'?",
    "toy:Tyo": "sandbox 'toy:Tyo': no class 'Tyo' in toy; did you mean 'Toy'?",
    "toy:Xyzzy": "sandbox 'toy:Xyzzy': no class 'Xyzzy' in toy; there are 'Toy', 'WithoutKind', ",
    "toy:function": "sandbox 'toy:function': must be a class, not function",
    "toy:Half": "sandbox 'toy:Half': Half lacks 'session', '__enter__', '__exit__' of sandboxes.Sandbox",
    "subclass:Partial": "sandbox 'subclass:Partial': Partial lacks 'isolation', 'session' of sandboxes.Sandbox",
    "nowhere.py:Toy": "sandbox 'nowhere.py:Toy' cannot be imported: no file 'nowhere.py'",
    "no_such_module:Toy": "no sandbox 'no_such_module:Toy': no module 'no_such_module'; there are",
    "toy_package.none:Toy": "no sandbox 'toy_package.none:Toy': no module 'toy_package.none'; there are",
    "broken.py:Toy": "'broken.py:Toy' cannot be imported: broken.py, line 2: ZeroDivisionError: division by zero",
    "broken": "sandbox 'broken' cannot be imported: ZeroDivisionError: division by zero",
    "needy:Toy": "needy.py, line 1: ModuleNotFoundError: No module named 'not_installed_anywhere'",
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_name_is_one_line_everywhere(
    install: Callable[..., None], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    install(toys="toy:Toy", broken="broken:Toy")
    for use in (sandboxes.open, Lease):
        with pytest.raises(ValueError, match=re.escape(WRONG[name])) as caught:
            use(name)
        assert "\n" not in str(caught.value)
    for command in (lambda: checks_main([name]), lambda: serve_main(["serve", "--sandbox", name])):
        assert command() == 2
        out, err = capsys.readouterr()
        assert WRONG[name] in err and err.count("\n") == 1 and not out


@pytest.mark.parametrize(
    ("name", "fault"), [("Broken", "KeyError: 'port'"), ("Down", "RuntimeError: no server answers")]
)
def test_a_constructor_that_raises_is_one_line_with_its_place(
    folder: Path, name: str, fault: str, capsys: pytest.CaptureFixture[str]
) -> None:
    class_line = TOY.splitlines().index(f"class {name}(Toy):") + 1
    line = f"error: sandbox 'toy.py:{name}': {fault} ({folder / 'toy.py'}, line {class_line + 2})\n"
    for command in (
        lambda: checks_main([f"toy.py:{name}"]),
        lambda: serve_main(["serve", "--sandbox", f"toy.py:{name}"]),
    ):
        assert command() == 2
        out, err = capsys.readouterr()
        assert err.endswith(line) and err.count("\n") == 1 and not out


def test_a_fault_of_this_project_in_opening_a_sandbox_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Local, "__init__", property())
    for command in (lambda: checks_main(["local"]), lambda: serve_main(["serve"])):
        with pytest.raises(TypeError):
            command()


def test_options_and_kinds_that_a_class_does_not_take_are_named(folder: Path) -> None:
    with pytest.raises(ValueError, match="'toy:WithoutKind:x': WithoutKind takes no kind, such as 'x', after its name"):
        sandboxes.open("toy:WithoutKind:x")
    with pytest.raises(ValueError, match="options of Toy: got an unexpected keyword argument 'colour'"):
        sandboxes.open("toy:Toy", colour="red")
    with pytest.raises(ValueError, match=r"options of WithUrl: missing a required .*argument: 'url'"):
        sandboxes.open("toy:WithUrl")
    with pytest.raises(ValueError, match=r"WithoutIsolation lacks 'isolation', a sandboxes\.Isolation"):
        sandboxes.open("toy:WithoutIsolation")
    assert registry.find_provider("toy:WithoutIsolation").cls.opened[-1].is_closed


def test_built_in_names_are_checked_without_an_import() -> None:
    script = "import sys; from sandboxes.registry import check_name; check_name('local'); check_name('remote:x'); "
    script += "print([name for name in sys.modules if name.startswith(('sandboxes.local', 'sandboxes.remote'))])"
    assert subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True).stdout == "[]\n"


def test_environments_share_a_sandbox_of_ones_own_and_check_its_options(folder: Path) -> None:
    leases = [Lease("toy:Toy", {"size": 5}) for _ in range(2)]
    assert leases[0].sandbox is leases[1].sandbox and leases[0].sandbox.size == 5
    for lease in leases:
        lease.close()
    assert registry.find_provider("toy:Toy").cls.opened[-1].is_closed
    with pytest.raises(ValueError, match="unknown option 'sise' in sandbox_options of 'toy:Toy'; did you mean 'size'"):
        envs.make("code/Functions-v0", sandbox="toy:Toy", sandbox_options={"sise": 5})


def test_an_environment_that_needs_sessions_refuses_a_sandbox_without(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["check", "math/Python-v0", "--env-arg", "task=arithmetic", "--env-arg"]
    assert envs_main([*words, "sandbox=toy.py:Toy"]) == 2
    assert capsys.readouterr().err == "python -m envs check: Toy has no sessions\n"
    assert envs_main([*words, "sandbox=toy.py:Tyo"]) == 2
    assert "no class 'Tyo' in toy.py; did you mean 'Toy'?" in capsys.readouterr().err


def test_a_server_serves_it_with_as_many_places_as_are_asked_for(folder: Path) -> None:
    with served("--sandbox", f"{folder}/toy.py:Toy", "--places", "3") as server:
        assert post(server.port, "/v1/run", {"program": "1"}, token="")[1]["result"]["stdout"] == "1 in toy 1\n"
        assert post(server.port, "/v1/sessions", {}, token="")[1]["error"]["kind"] == "unavailable"
        with Remote(url=server.url) as remote:
            assert remote.isolation == registry.find_provider("toy.py:Toy").cls.isolation


def test_the_provider_of_the_page_passes_what_the_page_says(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "add_a_sandbox.md").read_text(encoding="utf-8")
    code = re.findall(r"^```python\n(.*?)^```", page, re.DOTALL | re.MULTILINE)[0]
    (tmp_path / "my_sandbox.py").write_text(code, encoding="utf-8")
    with sandboxes.open(f"{tmp_path}/my_sandbox.py:MySandbox") as sandbox:
        results = {result.name: result for result in run_checks(sandbox)}
    failures = {name for name, result in results.items() if result.failure}
    skips = {name for name, result in results.items() if result.skip_reason}
    (sentence,) = re.findall(r"`MySandbox` passes all that are not skipped but two: (.*?)\.\n", page, re.DOTALL)
    assert failures == {name for name in re.findall(r"`(\S+)`", sentence)} and len(failures) == 2
    assert {name.partition(".")[0] for name in skips} == {"files", "limits", "isolation", "sessions", "ruins"}
    in_files = [name for name in results if name.startswith("files.")]
    assert f"`protects=False` ({len(skips & {*in_files})} of {len(in_files)})" in page
    assert not {name for name in results if name.startswith(("isolation.", "sessions."))} - skips
    (table,) = re.findall(r"^\| behaviours \|.*?\n\n", page, re.DOTALL | re.MULTILINE)
    assert set(re.findall(r"^\| `(\w+)`", table, re.MULTILINE)) == {name.partition(".")[0] for name in behaviours()}


def test_the_contract_has_every_member_that_is_used() -> None:
    """By the environments, the conformance suite and the server."""
    users = [*(ROOT / "envs").rglob("*.py"), *(ROOT / "sandboxes" / "checks").glob("*.py")]
    users += [ROOT / "sandboxes" / "remote" / f"{name}.py" for name in ("service", "fusion", "leases")]
    text = "\n".join(path.read_text(encoding="utf-8") for path in users)
    for protocol, variable in ((Sandbox, r"sandbox"), (Session, r"_?session")):
        used = set(re.findall(rf"\b{variable}\.(\w+)", text)) - set(dir(str))  # or it is a sandbox's name
        assert used and used <= {name for name in vars(protocol) if not name.startswith("_")}
