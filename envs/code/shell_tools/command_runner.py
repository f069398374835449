"""What runs inside a sandbox around one shell command; it is sent there as text and imports nothing of ours.

Stdin: `{"tree": {path: [kind, text, mode]}, "command": ...}`. It makes the tree in the folder `files`, runs the command
there, ends every process that the command left behind, and writes `{"code": ..., "tree": ...}` to `after.json`. Texts
hold one character per byte.
"""

import ctypes
import json
import os
import signal
import stat
import sys

SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER: orphans of the command become children of this process
MOST_FILES, MOST_BYTES = 500, 1 << 18
WHEN = 10**9  # every file's time, so that no listing tells when it was made
UNPREPARED = 70  # the exit code when the tree could not be made


def make(tree):
    """Write the files. A folder comes before what lies in it, and gets its mode and time after it."""
    entries = [
        (path.encode("latin-1"), kind, text.encode("latin-1"), mode) for path, (kind, text, mode) in tree.items()
    ]
    for path, kind, text, _ in sorted(entries):
        if kind == "folder":
            os.mkdir(path)
        elif kind == "link":
            os.symlink(text, path)
        elif kind == "other":
            os.mkfifo(path)
        else:
            with open(path, "wb") as file:
                file.write(text)
    for path, kind, _, mode in sorted(entries, reverse=True):
        if kind != "link":
            os.chmod(path, mode)
        os.utime(path, (WHEN, WHEN), follow_symlinks=False)


def run(command):
    """The command's exit code, 128 and more for a signal. Nothing that it started is alive afterwards."""
    ctypes.CDLL(None, use_errno=True).prctl(SUBREAPER, 1, 0, 0, 0)
    child = os.fork()
    if not child:
        try:
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.execvp("sh", ["sh", "-c", command.encode("utf-8", "replace")])
        finally:  # a command that is too long for the system
            os._exit(126)
    _, status = os.waitpid(child, 0)
    while True:
        for pid in children():
            os.kill(pid, signal.SIGKILL)
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            break
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def children():
    """The processes whose parent is this one."""
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat") as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == os.getpid():
                yield int(name)


def look(folder, prefix, tree):
    """Add what lies in `folder` to the tree. What is no file, folder or link is `other`."""
    for name in sorted(os.listdir(folder)):
        if len(tree) >= MOST_FILES:
            raise OverflowError("too many files")
        path = f"{folder}/{name}"
        about = os.lstat(path)
        key, mode = prefix + os.fsencode(name).decode("latin-1"), stat.S_IMODE(about.st_mode)
        if stat.S_ISDIR(about.st_mode):
            tree[key] = ["folder", "", mode]
            os.chmod(path, 0o700)
            look(path, f"{key}/", tree)
        elif stat.S_ISLNK(about.st_mode):
            tree[key] = ["link", os.fsencode(os.readlink(path)).decode("latin-1"), 0]
        elif stat.S_ISREG(about.st_mode):
            os.chmod(path, 0o600)
            tree[key] = ["file", content(path, about.st_size), mode]
        else:
            tree[key] = ["other", "", mode]


def content(path, size):
    """A file's bytes."""
    global left
    left -= size
    if left < 0:
        raise OverflowError("too many bytes")
    with open(path, "rb") as file:
        return file.read(size).decode("latin-1")


left = MOST_BYTES
if __name__ == "__main__":
    top = os.getcwd()
    try:
        work = json.load(sys.stdin)
        os.mkdir("files")
        os.chdir("files")
        make(work["tree"])
    except BaseException:
        os._exit(UNPREPARED)
    code = run(work["command"])
    os.chdir(top)
    found: dict = {}
    if os.path.isdir("files") and not os.path.islink("files"):
        os.chmod("files", 0o700)
        look("files", "", found)
    if os.path.lexists("after.json"):
        os.rename("after.json", "before.json")
    with open("after.json", "x") as file:
        json.dump({"code": code, "tree": found}, file)
