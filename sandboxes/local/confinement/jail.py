"""The file system that candidates (untrusted programs) see.

It is the system and Python, read-only, and the box, a folder of their own. No mount but the box can be written.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from sandboxes.local.confinement import syscalls
from sandboxes.local.confinement.box import BOX, FOLDERS

WORK, PACKAGES = "/work", "/opt/packages"
USER_ID = 1000
LINKS = (WORK, "/tmp", "/dev/shm")  # to the folders of the box
_DEVICES = ("null", "zero", "full", "random", "urandom")


def etc_files(user_id: int) -> dict[str, str]:
    """Return the few files of `/etc` that programs read, for programs that run with this user id.

    The keys are paths without the leading "/", such as "etc/passwd"; the values are contents.
    """
    return {
        "etc/passwd": f"root:x:0:0::/:/bin/sh\nbox:x:{user_id}:{user_id}::{WORK}:/bin/sh\n",
        "etc/group": f"root:x:0:\nbox:x:{user_id}:\n",
        "etc/hosts": "127.0.0.1 localhost\n",
        "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    }


def build(binds: Sequence[tuple[str, str]], hidden: Sequence[str]) -> None:
    """Make the jail, the file system that programs see, the root of this process. Writes nothing to disk.

    The process must have a mount namespace of its own. `binds` are (path on the host, path in the jail), `hidden` are
    folders that are shown empty. Raises OSError where the kernel refuses.
    """
    syscalls.mount("none", "/", None, syscalls.REC | syscalls.PRIVATE)
    root = _find_mount_point(source for source, _ in binds)
    syscalls.mount("tmpfs", root, "tmpfs", syscalls.NOSUID | syscalls.NODEV, "size=4m,mode=0755")
    for source, target in binds:
        _bind(source, root + target)
    for folder in hidden:
        if os.path.isdir(root + folder):
            flags = syscalls.READ_ONLY | syscalls.NOSUID | syscalls.NODEV  # or programs could leave modules in it
            syscalls.mount("tmpfs", root + folder, "tmpfs", flags, "size=4k,nr_inodes=1,mode=0555")
    for folder in ("proc", "dev", "etc", BOX[1:]):
        os.makedirs(f"{root}/{folder}", exist_ok=True)
    syscalls.mount("proc", f"{root}/proc", "proc", syscalls.NOSUID | syscalls.NODEV | syscalls.NOEXEC)
    for name in _DEVICES:
        Path(f"{root}/dev/{name}").touch()
        syscalls.mount(f"/dev/{name}", f"{root}/dev/{name}", None, syscalls.BIND)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{root}/dev/{name}")
    os.symlink("/proc/self/fd", f"{root}/dev/fd")
    for folder, link in zip(FOLDERS, LINKS, strict=True):
        os.symlink(f"{BOX}/{folder}", root + link)
    for name, text in etc_files(USER_ID).items():
        Path(root, name).write_text(text)
    os.chdir(root)
    syscalls.pivot_root()
    syscalls.make_read_only("/", recursive=False)


def _find_mount_point(sources: Iterable[str]) -> str:
    """A folder to mount the jail on that contains none of the sources. Raises OSError where there is none."""
    sources = list(sources)
    for folder in ("/mnt", "/media", "/srv", "/sys", "/opt", "/run"):
        if os.path.isdir(folder) and not any(source.startswith(f"{folder}/") for source in sources):
            return folder
    raise OSError("no folder to build the jail on: none of /mnt, /media, /srv, /sys is free")


def _bind(source: str, target: str) -> None:
    if os.path.islink(source) and source == target[-len(source) :]:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        os.symlink(os.readlink(source), target)
        return
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        Path(target).touch()
    syscalls.mount(source, target, None, syscalls.BIND | syscalls.REC)
    syscalls.make_read_only(target, recursive=True)
