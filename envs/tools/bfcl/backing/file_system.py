"""GorillaFileSystem: a small file system in memory. Nothing of it is on a disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from copy import deepcopy
from itertools import zip_longest
from typing import Any

from envs.tools.bfcl.backing.backing import Backing, Integer, Result, Text, is_absent, refuse
from envs.tools.tool import tool

Node = dict[str, Any]  # {"type": "directory", "contents": {name: Node}} or {"type": "file", "content": text}
MAX_NODES = 500  # files and directories
MAX_SIZE = 500_000  # characters of all files
MAX_DEPTH = 20  # directories within each other
MAX_NAME = 100  # characters
_UNITS = ("KB", "MB")


class GorillaFileSystem(Backing):
    """A tree of directories and text files, and a current directory, which is no part of the state.

    An episode begins in the one directory that the configuration names under `root`. Names are those of entries of the
    current directory; paths are taken by `find` alone. A call that would exceed a limit of size is refused.
    """

    def __init__(self, config: Mapping[str, Any]) -> None:
        root = config.get("root") or {"home": {"type": "directory", "contents": {}}}
        self._name: str = next(iter(root))
        self.root: Node = deepcopy(dict(root[self._name]))
        self._path: list[str] = []

    @tool
    def cat(self, file_name: Text) -> Result:
        """Return the content of a file."""
        file = self._file(file_name)
        return file if "error" in file else {"file_content": file["content"]}

    @tool
    def cd(self, folder: Text) -> Result:
        """Go to a directory within the current one, or with `..` to the one around it."""
        if folder == "..":
            if not self._path:
                return refuse("this is the top directory")
            self._path.pop()
        elif folder not in (".", "./"):
            name = folder.removesuffix("/")
            node = self._here().get(name)
            if node is None or node["type"] != "directory":
                return refuse(f"there is no directory {_shown(folder)} here")
            self._path.append(name)
        return {"current_working_directory": self._position()}

    @tool
    def cp(self, source: Text, destination: Text) -> Result:
        """Copy a file or directory to a new name, or into a directory."""
        return self._place(source, destination, deepcopy(self._here().get(source)), "copied")

    @tool
    def diff(self, file_name1: Text, file_name2: Text) -> Result:
        """Compare two files line by line: where they differ, `- ` and the first's line, `+ ` and the second's."""
        first, second = self._file(file_name1), self._file(file_name2)
        for file in (first, second):
            if "error" in file:
                return file
        parts = []
        for line, other in zip_longest(first["content"].splitlines(), second["content"].splitlines()):
            if line != other:
                parts += [f"{sign} {each}" for sign, each in (("-", line), ("+", other)) if each is not None]
        return {"diff_lines": "\n".join(parts)}

    @tool
    def du(self, human_readable: bool = False) -> Result:
        """Return the size of all files in and below the current directory: a character is a byte."""
        size = sum(len(node["content"]) for _, node in _walk(self._here()) if node["type"] == "file")
        if not human_readable:
            return {"disk_usage": str(size)}
        amount, unit = float(size), "bytes"
        for larger in _UNITS:
            if amount >= 1024:
                amount, unit = amount / 1024, larger
        return {"disk_usage": f"{size} bytes" if unit == "bytes" else f"{amount:.2f} {unit}"}

    @tool
    def echo(self, content: Text, file_name: Text | None = None) -> Result:
        """Write a text to a file, in place of what it contains, or return it."""
        if is_absent(file_name) or file_name is None:
            return {"terminal_output": content}
        node = self._here().get(file_name)
        if node is not None and node["type"] != "file":
            return refuse(f"{_shown(file_name)} is a directory")
        fault = _name_fault(file_name) or self._size_fault(nodes=node is None, size=len(content))
        if fault:
            return refuse(fault)
        self._here()[file_name] = {"type": "file", "content": content}
        return {"terminal_output": None}

    @tool
    def find(self, path: Text = ".", name: Text | None = None) -> Result:
        """List files and directories below a path whose names contain `name`, in any case; all without a name."""
        node: Node | None = self._node(self._path)
        for part in path.split("/"):
            if part not in ("", "."):
                node = node["contents"].get(part) if node and node["type"] == "directory" else None
        if node is None or node["type"] != "directory":
            return refuse(f"there is no directory {_shown(path)}")
        word = "" if is_absent(name) else str(name).lower()
        base = path.rstrip("/") or "."
        return {"matches": [f"{base}/{place}" for place, _ in _walk(node["contents"]) if word in _last(place).lower()]}

    @tool
    def grep(self, file_name: Text, pattern: Text) -> Result:
        """List the lines of a file that contain a text."""
        file = self._file(file_name)
        if "error" in file:
            return file
        return {"matching_lines": [line for line in file["content"].splitlines() if pattern in line]}

    @tool
    def ls(self, a: bool = False) -> Result:
        """List the current directory; names that begin with a dot only with `a`."""
        return {"current_directory_content": [name for name in self._here() if a or not name.startswith(".")]}

    @tool
    def mkdir(self, dir_name: Text) -> Result:
        """Create a directory in the current one."""
        return self._create(dir_name, {"type": "directory", "contents": {}})

    @tool
    def mv(self, source: Text, destination: Text) -> Result:
        """Move a file or directory into a directory, or rename it."""
        node = self._here().get(source)
        result = self._place(source, destination, node, "moved", is_move=True)
        if "error" not in result:
            del self._here()[source]
        return result

    @tool
    def pwd(self) -> Result:
        """Return the path of the current directory."""
        return {"current_working_directory": self._position()}

    @tool
    def rm(self, file_name: Text) -> Result:
        """Remove a file, or a directory with all that it contains."""
        if file_name not in self._here():
            return _nothing(file_name)
        del self._here()[file_name]
        return {"result": f"'{file_name}' is removed."}

    @tool
    def rmdir(self, dir_name: Text) -> Result:
        """Remove an empty directory."""
        node = self._here().get(dir_name)
        if node is None or node["type"] != "directory":
            return refuse(f"there is no directory {_shown(dir_name)} here")
        if node["contents"]:
            return refuse(f"the directory {_shown(dir_name)} is not empty")
        del self._here()[dir_name]
        return {"result": f"'{dir_name}' is removed."}

    @tool
    def sort(self, file_name: Text) -> Result:
        """Return the lines of a file in order. The file remains as it is."""
        file = self._file(file_name)
        return file if "error" in file else {"sorted_content": "\n".join(sorted(file["content"].splitlines()))}

    @tool
    def tail(self, file_name: Text, lines: Integer = 10) -> Result:
        """Return the last lines of a file."""
        file = self._file(file_name)
        if "error" in file:
            return file
        if lines < 0:
            return refuse(f"lines must be at least 0, not {lines}")
        every = file["content"].splitlines()
        return {"last_lines": "\n".join(every[max(0, len(every) - lines) :])}

    @tool
    def touch(self, file_name: Text) -> Result:
        """Create an empty file."""
        return self._create(file_name, {"type": "file", "content": ""})

    @tool
    def wc(self, file_name: Text, mode: Text = "l") -> Result:
        """Count lines (`l`), words (`w`) or characters (`c`) of a file."""
        file = self._file(file_name)
        if "error" in file:
            return file
        content = file["content"]
        counts = {
            "l": (len(content.splitlines()), "lines"),
            "w": (len(content.split()), "words"),
            "c": (len(content), "characters"),
        }
        if mode not in counts:
            return refuse(f"mode {_shown(mode)} is not one of l, w, c")
        count, kind = counts[mode]
        return {"count": count, "type": kind}

    def _node(self, path: list[str]) -> Node:
        node = self.root
        for name in path:
            node = node["contents"][name]
        return node

    def _here(self) -> dict[str, Node]:
        """The entries of the current directory."""
        return self._node(self._path)["contents"]

    def _position(self) -> str:
        return "/" + "/".join((self._name, *self._path))

    def _file(self, name: str) -> Node:
        """A file of the current directory, or a refusal."""
        node = self._here().get(name)
        if node is None:
            return _nothing(name)
        return node if node["type"] == "file" else refuse(f"{_shown(name)} is a directory")

    def _create(self, name: str, node: Node) -> Result:
        if name in self._here():
            return refuse(f"{_shown(name)} already exists")
        fault = _name_fault(name) or self._size_fault(nodes=1, depth=len(self._path) + 1)
        if fault:
            return refuse(fault)
        self._here()[name] = node
        return {}

    def _place(self, source: str, destination: str, node: Node | None, verb: str, *, is_move: bool = False) -> Result:
        """Put a node of the current directory into a directory or under a new name."""
        if node is None:
            return _nothing(source)
        target = self._here().get(destination)
        if target is not None and (target["type"] == "file" or (destination == source and is_move)):
            return refuse(f"{_shown(destination)} already exists")
        contents, name = (self._here(), destination) if target is None else (target["contents"], source)
        if name in contents:
            return refuse(f"{_shown(destination)} already contains {_shown(source)}")
        entries = [each for _, each in _walk({name: node})]
        size = sum(len(each.get("content", "")) for each in entries)
        depth = len(self._path) + 2 + max(place.count("/") for place, _ in _walk({name: node}))
        fault = _name_fault(name) or self._size_fault(
            nodes=0 if is_move else len(entries), size=0 if is_move else size, depth=depth
        )
        if fault:
            return refuse(fault)
        contents[name] = node
        return {"result": f"'{source}' is {verb} to '{destination}'."}

    def _size_fault(self, *, nodes: int = 0, size: int = 0, depth: int = 0) -> str:
        every = [node for _, node in _walk(self.root["contents"])]
        size += sum(len(node.get("content", "")) for node in every)
        if len(every) + nodes > MAX_NODES or size > MAX_SIZE or depth > MAX_DEPTH:
            return "the file system has no room for this"
        return ""


def _walk(contents: Mapping[str, Node], prefix: str = "") -> Iterator[tuple[str, Node]]:
    """Yield all nodes with their paths, directories before what they contain."""
    for name, node in contents.items():
        yield prefix + name, node
        if node["type"] == "directory":
            yield from _walk(node["contents"], f"{prefix}{name}/")


def _last(path: str) -> str:
    return path.rpartition("/")[2]


def _name_fault(name: str) -> str:
    if not name.strip() or name in (".", ".."):
        return "a name must not be empty, '.' or '..'"
    if "/" in name or "\x00" in name:
        return "a name, not a path, is needed: it must not contain '/'"
    return f"a name has at most {MAX_NAME} characters" if len(name) > MAX_NAME else ""


def _nothing(name: str) -> Result:
    return refuse(f"there is no {_shown(name)} here")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:60]}...")
