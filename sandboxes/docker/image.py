"""Images for containers: by name, built from a folder, or made of this machine's own Python without a registry.

Each gets a tag that depends on its content, and is made once. In all of them /work and /tmp are links into the box, the
only folder that can be written.
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
from sandboxes.local.confinement.box import BOX, FOLDERS
from sandboxes.local.confinement.jail import LINKS, PACKAGES, etc_files
from sandboxes.types import SandboxUnavailable

MAX_IMAGES = 4  # of this machine's own Python: one for each set of packages and each upgrade
_LAYOUT_VERSION = "1"  # raise it with every change of what is made of the same files
_TOOLS = (
    "sh bash cat ls cp mv rm mkdir rmdir ln chmod touch head tail sort uniq tr cut wc grep sed awk find xargs env echo "
    "printf sleep true false test date seq tee basename dirname pwd id uname ps kill expr od cmp diff gzip tar which "
    "nproc md5sum sha256sum timeout yes"
)
_EXCLUDED = "site-packages dist-packages test tests idlelib tkinter turtledemo ensurepip lib2to3 config-*"
_FOLDERS = ("proc", "dev", "sys", "etc", BOX[1:], PACKAGES[1:])


def prepare_image(engine: Engine, image: str, build: str | os.PathLike[str], packages: Sequence[str]) -> str:
    """Make the image that containers start from, if the engine has none yet, and return its name.

    It is `image`, the Dockerfile in the folder `build`, or, if both are empty, this machine's Python with `packages`.
    Raises SandboxUnavailable where it cannot be pulled or made.
    """
    if build:
        folder = Path(build)
        if not (folder / "Dockerfile").is_file():
            raise SandboxUnavailable(f"docker: build = {os.fspath(build)!r}: there is no Dockerfile in that folder")
        return _add_links(engine, engine.build(folder))
    if image:
        return _add_links(engine, engine.image_id(image) or engine.pull(image))
    return _python_image(engine, packages)


def _add_links(engine: Engine, image: str) -> str:
    """The image with /work and /tmp as links into the box."""
    name = f"turnwise/fitted:{_digest([_LAYOUT_VERSION, image])}"
    if not engine.image_id(name):
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            _add_box_links(tar)
        engine.add_to(image, archive.getvalue(), name)
    return name


def _digest(lines: Sequence[str]) -> str:
    return sha256("\n".join(lines).encode()).hexdigest()[:16]


def _python_image(engine: Engine, packages: Sequence[str]) -> str:
    """An image of the running Python, the packages with their requirements, and a shell's usual tools."""
    if not sys.platform.startswith("linux") or not shutil.which("ldd"):
        raise SandboxUnavailable("docker: an image of this machine's own Python needs Linux with `ldd`; name an image")
    files = dict(_files(packages))
    lines = [f"{target} {_file_version(path)}" for target, path in sorted(files.items())]
    name = f"turnwise/python:{_digest([_LAYOUT_VERSION, str(USER_ID), *lines])}"
    if not engine.image_id(name):
        files |= {path: path for path in _libraries(files)}
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode="w") as tar:
                _add_files(tar, files)
            file.seek(0)
            engine.import_tar(file, name, [f"ENV PATH=/usr/bin:/bin PYTHONPATH={PACKAGES}"])
        engine.keep_newest("turnwise/python", MAX_IMAGES)
    return name


def _files(packages: Sequence[str]) -> Iterator[tuple[str, str]]:
    """(path in the image, path on this machine) of all files except shared libraries."""
    python = mounts.python_executable()
    yield python, python
    base = os.path.realpath(sys.base_prefix)
    for name in ("stdlib", "platstdlib"):
        folder = sysconfig.get_path(name, vars={"base": base, "platbase": base, "installed_base": base})
        yield from _files_below(folder, folder, _EXCLUDED.split())
    for path in mounts.package_paths(tuple(packages)):
        yield from _files_below(path, f"{PACKAGES}/{os.path.basename(path)}", ())
    for tool in _TOOLS.split():
        if program := shutil.which(tool, path="/usr/bin:/bin"):
            yield f"/usr/bin/{tool}", os.path.realpath(program)
    if os.path.exists("/etc/ld.so.cache"):
        yield "/etc/ld.so.cache", "/etc/ld.so.cache"


def _files_below(source: str, target: str, exclude: Sequence[str]) -> Iterator[tuple[str, str]]:
    if os.path.isfile(source):
        yield target, source
        return
    for folder, folders, names in os.walk(source, followlinks=True):
        paths = [Path(name) for name in folders]
        folders[:] = sorted(path.name for path in paths if not any(path.match(pattern) for pattern in exclude))
        for name in sorted(names):
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not name.endswith((".opt-1.pyc", ".opt-2.pyc")):
                yield target + path[len(source) :], path


def _file_version(path: str) -> str:
    """Text that changes when the file's content does."""
    status = os.stat(path)
    return f"{path} {status.st_size} {status.st_mtime_ns}"


def _libraries(files: dict[str, str]) -> set[str]:
    """Paths of the shared libraries that these programs and modules need, the loader included."""
    binaries = [path for path in files.values() if ".so" in os.path.basename(path) or os.access(path, os.X_OK)]
    output = subprocess.run(["ldd", *binaries], capture_output=True, text=True, timeout=120).stdout
    libraries = {os.path.normpath(path) for path in re.findall(r"(?:=>\s+|^\s+)(/\S+) \(0x", output, re.MULTILINE)}
    return libraries - {os.path.normpath(path) for path in files.values()}


def _add_files(tar: tarfile.TarFile, files: dict[str, str]) -> None:
    python = mounts.python_executable()
    folders: set[str] = set()
    for folder in _FOLDERS:
        _add_folder(tar, folder, folders)
    for target, path in sorted(files.items()):
        _add_folder(tar, os.path.dirname(target.lstrip("/")), folders)
        entry = tar.gettarinfo(path, target.lstrip("/"))
        entry.type, entry.size = tarfile.REGTYPE, os.path.getsize(path)  # hard links become files of their own
        entry.mode = 0o755 if entry.mode & 0o100 else 0o644
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = "root"
        with open(path, "rb") as content:
            tar.addfile(entry, content)
    for link in ("python3", "python"):
        if f"/usr/bin/{link}" != python:
            _add_link(tar, f"usr/bin/{link}", python)
    _add_link(tar, "bin", "usr/bin")
    _add_box_links(tar)
    for name, text in etc_files(USER_ID).items():
        entry = tarfile.TarInfo(name)
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text.encode()))


def _add_box_links(tar: tarfile.TarFile) -> None:
    for name, link in zip(FOLDERS, LINKS, strict=True):
        if not link.startswith("/dev/"):  # the engine makes /dev for each container
            _add_link(tar, link.lstrip("/"), f"{BOX}/{name}")


def _add_link(tar: tarfile.TarFile, path: str, target: str) -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.linkname, entry.mode = tarfile.SYMTYPE, target, 0o777
    tar.addfile(entry)


def _add_folder(tar: tarfile.TarFile, path: str, folders: set[str]) -> None:
    """Add a folder that everybody may read, and those above it, unless they are in `folders`, which it updates."""
    if not path or path in folders:
        return
    _add_folder(tar, os.path.dirname(path), folders)
    folders.add(path)
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, 0o755
    tar.addfile(entry)
