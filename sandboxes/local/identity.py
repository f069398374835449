"""What programs see of the process that they were forked from: its command line, its frames, its objects.

They must see neither where things lie on the host nor anything that differs between two runs.
"""

from __future__ import annotations

import _imp
import ctypes
import gc
import sys
from types import FunctionType

COMMAND_LINE = ["python3", "main.py"]


def hide_command_line() -> None:
    """Overwrite this process's command line, which all processes forked from it show too, and `sys.orig_argv`."""
    sys.orig_argv[:] = COMMAND_LINE
    with open("/proc/self/stat", "rb") as file:
        start, end = map(int, file.read().rpartition(b")")[2].split()[45:47])
    size = end - start
    title = " ".join(COMMAND_LINE).encode()[: size - 2]
    ctypes.memset(start, 0, size)
    ctypes.memmove(start, title, len(title))
    ctypes.memset(end - 1, 1, 1)  # so the kernel shows one text that ends with the first null byte


def hide_paths() -> None:
    """Replace the file of every function of this project, which frames and tracebacks name, by its module's name."""
    for function in gc.get_objects():
        if isinstance(function, FunctionType) and (function.__module__ or "").partition(".")[0] == "sandboxes":
            _imp._fix_co_filename(function.__code__, function.__module__)  # type: ignore[attr-defined]
