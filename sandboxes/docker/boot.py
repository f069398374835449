"""The first program of a container, given to its Python as text: takes the agent's modules from stdin and runs it.

So any image will do that has a Python, and none needs a part of this project.
"""

import importlib.abc
import importlib.util
import marshal
import os
import struct
import sys

OLDEST = (3, 11)


def main():
    """Read a parcel, import the agent from it, run it."""
    if sys.version_info[:2] < OLDEST:
        sys.exit(f"the image has Python {sys.version.split()[0]}; {OLDEST[0]}.{OLDEST[1]} or newer is needed")
    (size,) = struct.unpack("<I", _exactly(4))
    parcel = marshal.loads(_exactly(size))
    finder = _Parcel(parcel["modules"], parcel["magic"] == importlib.util.MAGIC_NUMBER)
    config = parcel["config"]
    del parcel  # a candidate gets a copy of this process
    sys.meta_path.insert(0, finder)
    from sandboxes.docker import agent

    agent.main(config, finder.leave)


class _Parcel(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Modules that lie in memory: by name their text and their code, which serves this Python if `is_same`."""

    def __init__(self, modules, is_same):
        self.modules, self.is_same = modules, is_same

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=not self.modules[name][0])

    def exec_module(self, module):
        text, code = self.modules[module.__name__]
        exec(marshal.loads(code) if self.is_same else compile(text, module.__name__, "exec"), module.__dict__)

    def leave(self):
        """Nothing of ours can be imported any more."""
        sys.meta_path.remove(self)
        for name in self.modules:
            sys.modules.pop(name, None)
        self.modules = {}


def _exactly(size):
    parts = []
    while size:
        part = os.read(0, min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


if __name__ == "__main__":
    main()
