"""Images that `docker` is made of, the walls around its containers, and what it says where something is missing."""

from __future__ import annotations

import re
import socket
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import sandboxes
from sandboxes import SandboxUnavailable
from sandboxes.docker import container, image
from sandboxes.docker.engine import OWNER, Engine
from sandboxes.docker.provider import Docker
from sandboxes.extras import install_command
from tests.support.sandbox_hosts import docker_engine
from tests.support.sandbox_servers import wait_until

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    if reason := docker_engine():
        pytest.skip(reason)
    made = Engine()
    yield made
    made.close()


def test_an_image_of_this_python_is_made_once_and_again_when_its_files_change(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr(engine, "import_tar", lambda file, name, changes: made.append(name))
    first = image.prepare_image(engine, "", "", ())
    again = image.prepare_image(engine, "", "", ())
    assert first == again and first.startswith("turnwise/python:")
    changed = Path(__file__).stat().st_mtime_ns
    monkeypatch.setattr(image, "_file_version", lambda path: f"{path} {changed}")
    other = image.prepare_image(engine, "", "", ())
    assert other != first and made[-1] == other


def test_numpy_and_sympy_are_there_and_loaded_for_programs_that_name_them(engine: Engine) -> None:
    for name in ("numpy", "sympy"):
        pytest.importorskip(name)
    program = "import sys; print('sympy' in sys.modules)\nimport numpy, sympy\nprint(numpy.random.rand(1), sympy.factorint(60))"
    with Docker(places=1, warm=0) as sandbox:
        assert sandbox.run(program).stdout == "True\n[0.5488135] {2: 2, 3: 1, 5: 1}\n"
        assert sandbox.run("import sys; print('sym' + 'py' in sys.modules)").stdout == "False\n"
        assert sandbox.session().cell("import sympy; sympy.integrate('x')").stdout == "x**2/2\n"


def test_an_image_that_is_built_serves_as_well(engine: Engine, tmp_path: Path) -> None:
    with Docker(packages=(), places=1, warm=0) as own:
        base = own.image
    (tmp_path / "Dockerfile").write_text(f"FROM {base}\nCOPY said /srv/said\nENV GREETING=hi\n")
    (tmp_path / "said").write_text("built")
    program = "import os; print(open('/srv/said').read(), os.environ['GREETING'], os.listdir(), os.listdir('/tmp'))"
    with Docker(build=tmp_path, places=1) as built:
        assert built.run(program).stdout == "built hi [] []\n"
        assert built.run("open('/tmp/x', 'w').write('1'); open('y', 'w').write('2')", fetch=["y"]).files


def test_an_image_with_folders_where_others_have_links_serves_as_well(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def folders(tar: tarfile.TarFile) -> None:
        for name in ("tmp", "tmp/folder"):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, 0o1777
            tar.addfile(entry)

    with monkeypatch.context() as differently:
        differently.setattr(image, "_add_box_links", folders)
        differently.setattr(image, "_LAYOUT_VERSION", "with folders")
        name = image.prepare_image(engine, "", "", ())
    with sandboxes.open(f"docker:{name}", places=1) as named:
        assert named.run("import os; print(os.listdir('/tmp'), os.listdir())").stdout == "[] []\n"
        assert named.run("open('/tmp/x', 'w'); open('y', 'w').write('1')", fetch=["y"]).files == {"y": b"1"}
        assert named.session().cell("6 * 7").stdout == "42\n"


def test_an_image_with_another_python_takes_the_agent_as_text(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "MAGIC_NUMBER", b"none")
    container._bundle.cache_clear()
    try:
        with Docker(packages=(), places=1) as sandbox:
            assert sandbox.run("print(6 * 7)").stdout == "42\n"
            assert sandbox.session().cell("6 * 7").stdout == "42\n"
    finally:
        container._bundle.cache_clear()


def test_the_walls_are_those_that_were_asked_for(engine: Engine) -> None:
    with Docker(packages=(), places=1) as sandbox:
        (found,) = sandbox._pool._idle
        host = engine.api.inspect_container(found.id)["HostConfig"]
        assert (host["NetworkMode"], host["IpcMode"], host["ReadonlyRootfs"]) == ("none", "none", True)
        assert host["Memory"] == host["MemorySwap"] == (512 + 2 * 64 + 64) << 20
        assert (host["PidsLimit"], host["NanoCpus"]) == (68, 10**9)
        assert host["CapDrop"] == ["ALL"]
        assert {name.removeprefix("CAP_") for name in host["CapAdd"]} == {
            "CHOWN",
            "DAC_OVERRIDE",
            "FOWNER",
            "KILL",
            "SETGID",
            "SETUID",
        }
        assert "no-new-privileges" in host["SecurityOpt"][0]
        assert (host["LogConfig"]["Type"], host["AutoRemove"]) == ("none", True)
        who = sandbox.run("import os; print(os.getuid(), os.getgid(), os.getgroups())").stdout
        assert who == "65534 65534 []\n"


def test_what_the_engine_leaves_open_for_everybody_is_shut(engine: Engine) -> None:
    with Docker(packages=(), places=1) as sandbox:
        program = (
            "import os\nfor path in ('/dev/ptmx', '/dev/pts/ptmx', '/dev/mqueue/x', '/run/x', '/var/tmp/x', '/x'):\n"
            "    try: os.open(path, os.O_RDWR | os.O_CREAT); print(path)\n    except OSError: pass\n"
            "try: os.listdir('/dev/mqueue'); print('listed')\nexcept OSError: pass"
        )
        assert sandbox.run(program).stdout == ""


def test_an_image_without_python_is_refused_in_one_line(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("FROM scratch\nCOPY Dockerfile /\n")
    ours = {"label": f"{OWNER}={engine.label[OWNER]}"}
    with pytest.raises(SandboxUnavailable, match="python3") as found:
        Docker(build=tmp_path)
    assert "\n" not in str(found.value)
    assert wait_until(lambda: not engine.api.containers(all=True, filters=ours))


def test_what_cannot_be_had_is_told_in_one_line(engine: Engine, tmp_path: Path) -> None:
    for words, told in (
        ({"build": tmp_path}, "there is no Dockerfile in that folder"),
        ({"image": "turnwise/none:such"}, "image 'turnwise/none:such' is not here, and could not be fetched"),
    ):
        with pytest.raises(SandboxUnavailable, match=told) as found:
            Docker(**words)
        assert "\n" not in str(found.value)


def test_an_engine_that_says_nothing_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("docker")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(tmp_path / "silent"))
        silent.listen()
        monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/silent")
        monkeypatch.setattr("sandboxes.docker.engine.REQUEST_S", 0.3)
        with pytest.raises(SandboxUnavailable, match="timed out"):
            sandboxes.open("docker")


def test_wrong_options_are_refused_before_any_engine_is_asked() -> None:
    for words in ({"places": 0}, {"cpus": 0}, {"warm": -1}):
        with pytest.raises(ValueError, match=next(iter(words))):
            Docker(**words)
    with pytest.raises(ValueError, match="give one of both"):
        Docker(image="x", build="y")


def test_without_the_package_or_an_engine_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "docker", None)
        with pytest.raises(SandboxUnavailable, match=re.escape(install_command("docker"))):
            sandboxes.open("docker")
    pytest.importorskip("docker")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(SandboxUnavailable, match=r"no engine answers at unix:.*none\.sock") as found:
        sandboxes.open("docker")
    assert "\n" not in str(found.value)
