"""The first program of a container, passed to its Python as text: reads the agent's modules from stdin and runs it.

So every image with a Python will do, and none has to contain a part of this project.
"""

import importlib.abc
import importlib.util
import marshal
import os
import struct
import sys

MIN_PYTHON = (3, 11)


def main():
    """Read a bundle of this project's modules from stdin, import the agent, the container's server, from it and run it.

    The bundle is a `marshal` dump behind its length, four bytes, least significant first. Exits with a message where
    the image's Python is older than `MIN_PYTHON`.
    """
    if sys.version_info[:2] < MIN_PYTHON:
        version = f"{MIN_PYTHON[0]}.{MIN_PYTHON[1]}"
        sys.exit(f"the image has Python {sys.version.split()[0]}; {version} or newer is needed")
    (size,) = struct.unpack("<I", _read_exactly(4))
    bundle = marshal.loads(_read_exactly(size))
    importer = _BundleImporter(bundle["modules"], bundle["magic"] == importlib.util.MAGIC_NUMBER)
    config = bundle["config"]
    del bundle  # a candidate gets a copy of this process
    sys.meta_path.insert(0, importer)
    from sandboxes.docker import agent

    agent.main(config, importer.forget)


class _BundleImporter(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports modules from memory: (text, code) by name, where the code is used if this is the `same_python`."""

    def __init__(self, modules, same_python):
        self.modules, self.same_python = modules, same_python

    def find_spec(self, name, path=None, target=None):
        if name not in self.modules:
            return None
        return importlib.util.spec_from_loader(name, self, is_package=not self.modules[name][0])

    def exec_module(self, module):
        text, code = self.modules[module.__name__]
        exec(marshal.loads(code) if self.same_python else compile(text, module.__name__, "exec"), module.__dict__)

    def forget(self):
        """Remove all modules, so that none of them can be found or imported any more."""
        sys.meta_path.remove(self)
        for name in self.modules:
            sys.modules.pop(name, None)
        self.modules = {}


def _read_exactly(size):
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
