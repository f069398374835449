"""Images to make containers of: by name, built from a folder, or made of this machine's own Python without a registry.

Each gets a tag that its content decides, and is made once. In all of them /work and /tmp lead into the box, the only
place that can be written.
"""

from __future__ import annotations

import io
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from sandboxes.docker.agent import USER_ID
from sandboxes.docker.engine import Engine
from sandboxes.local.confinement import mounts
from sandboxes.local.confinement.jail import BOX, FOLDERS, LINKS, PACKAGES, settings
from sandboxes.types import SandboxUnavailable

KEPT = 4  # images of this machine's own Python; each set of packages is one, and so is each upgrade
_RECIPE = "1"  # to be raised with every change of what is made of the same files
_TOOLS = (
    "sh bash cat ls cp mv rm mkdir rmdir ln chmod touch head tail sort uniq tr cut wc grep sed awk find xargs env echo "
    "printf sleep true false test date seq tee basename dirname pwd id uname ps kill expr od cmp diff gzip tar which "
    "nproc md5sum sha256sum timeout yes"
)
_NOT_WANTED = "site-packages dist-packages test tests idlelib tkinter turtledemo ensurepip lib2to3 config-*"
_FOLDERS = ("proc", "dev", "sys", "etc", BOX[1:], PACKAGES[1:])


def prepared(engine: Engine, image: str, build: str | os.PathLike[str], packages: Sequence[str]) -> str:
    """The name of an image that is ready for an agent. Raises SandboxUnavailable where it cannot be had."""
    if build:
        folder = Path(build)
        if not (folder / "Dockerfile").is_file():
            raise SandboxUnavailable(f"docker: build = {os.fspath(build)!r}: there is no Dockerfile in that folder")
        return _fitted(engine, engine.build(folder))
    if image:
        return _fitted(engine, engine.image_id(image) or engine.pull(image))
    return _own(engine, packages)


def _fitted(engine: Engine, image: str) -> str:
    """The image with its writable places leading into the box."""
    name = f"turnwise/fitted:{_digest([_RECIPE, image])}"
    if not engine.image_id(name):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            _links(tar)
        engine.add_to(image, archive.getvalue(), name)
    return name


def _digest(lines: Sequence[str]) -> str:
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _own(engine: Engine, packages: Sequence[str]) -> str:
    """An image of the Python that runs, the packages with all that they require, and a shell's usual tools."""
    if not sys.platform.startswith("linux") or not shutil.which("ldd"):
        raise SandboxUnavailable("docker: an image of this machine's own Python needs Linux with `ldd`; name an image")
    files = dict(_files(packages))
    listed = [_RECIPE, str(USER_ID), *(f"{place} {_content_name(path)}" for place, path in sorted(files.items()))]
    name = f"turnwise/python:{_digest(listed)}"
    if not engine.image_id(name):
        files |= {path: path for path in _libraries(files)}
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                _fill(tar, files)
            file.seek(0)
            engine.import_tar(file, name, [f"ENV PATH=/usr/bin:/bin PYTHONPATH={PACKAGES}"])
        engine.keep_newest("turnwise/python", KEPT)
    return name


def _files(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(place in the image, file of this machine), but for shared libraries."""
    interpreter = mounts.interpreter()
    yield interpreter, interpreter
    base = os.path.realpath(sys.base_prefix)
    for name in ("stdlib", "platstdlib"):
        folder = sysconfig.get_path(name, vars={"base": base, "platbase": base, "installed_base": base})
        yield from _beneath(folder, folder, _NOT_WANTED.split())
    for path in mounts.package_paths(packages):
        yield from _beneath(path, f"{PACKAGES}/{os.path.basename(path)}", ())
    for tool in _TOOLS.split():
        if found := shutil.which(tool, path="/usr/bin:/bin"):
            yield f"/usr/bin/{tool}", os.path.realpath(found)
    if os.path.exists("/etc/ld.so.cache"):
        yield "/etc/ld.so.cache", "/etc/ld.so.cache"


def _beneath(source: str, place: str, unwanted: Sequence[str]) -> Iterator[tuple[str, str]]:
    if os.path.isfile(source):
        yield place, source
        return
    for folder, folders, names in os.walk(source, followlinks=True):
        patterns = [Path(name) for name in folders]
        folders[:] = sorted(path.name for path in patterns if not any(path.match(one) for one in unwanted))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not name.endswith((".opt-1.pyc", ".opt-2.pyc")):
                yield place + path[len(source) :], path


def _content_name(path: str) -> str:
    """Stands for a file's content: who changes it changes this, too."""
    found = os.stat(path)
    return f"{path} {found.st_size} {found.st_mtime_ns}"


def _libraries(files: dict[str, str]) -> set[str]:
    """The shared libraries that programs and modules want, the loader among them."""
    binaries = [path for place, path in files.items() if ".so" in os.path.basename(path) or os.access(path, os.X_OK)]
    said = subprocess.run(["ldd", *binaries], capture_output=True, text=True, timeout=120).stdout
    known = {os.path.normpath(path) for path in files.values()}
    found = {os.path.normpath(path) for path in re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", said, re.MULTILINE)}
    return found - known


def _fill(tar: tarfile.TarFile, files: dict[str, str]) -> None:
    interpreter = mounts.interpreter()
    made: set[str] = set()
    for folder in _FOLDERS:
        _folder(tar, folder, made)
    for place, path in sorted(files.items()):
        _folder(tar, os.path.dirname(place.lstrip("/")), made)
        entry = tar.gettarinfo(path, place.lstrip("/"))
        entry.type, entry.size = tarfile.REGTYPE, os.path.getsize(path)  # a second name of a file is a file, too
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        with open(path, "rb") as content:
            tar.addfile(entry, content)
    for link in ("python3", "python"):
        if f"/usr/bin/{link}" != interpreter:
            _link(tar, f"usr/bin/{link}", interpreter)
    _link(tar, "bin", "usr/bin")
    _links(tar)
    for name, text in settings(USER_ID).items():
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))


def _links(tar: tarfile.TarFile) -> None:
    for name, link in zip(FOLDERS, LINKS, strict=True):
        if not link.startswith("/dev/"):  # which the engine makes anew for each container
            _link(tar, link.lstrip("/"), f"{BOX}/{name}")


def _link(tar: tarfile.TarFile, place: str, target: str) -> None:
    entry = tarfile.TarInfo(place)
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(entry)


def _folder(tar: tarfile.TarFile, place: str, made: set[str]) -> None:
    """A folder that everybody may look into, and those above it."""
    if not place or place in made:
        return
    _folder(tar, os.path.dirname(place), made)
    made.add(place)
    entry = tarfile.TarInfo(place)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)
