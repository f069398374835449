"""Gymnasium environments for language-model agents.

Importing this package registers their ids and those of installed plug-ins, without importing any environment.
"""

import sys

if sys.argv[:1] == ["-m"] and "envs" in sys.orig_argv:  # `python -m envs` imports this file before the command's own
    from envs.stop_signals import end_on_ctrl_c

    end_on_ctrl_c()

from envs.arguments import arguments
from envs.catalogue import entries, entry, find, make, register, register_plug_ins
from envs.rows import ROWS
from envs.web.miniwob.names import TASKS

__all__ = ["arguments", "entries", "entry", "find", "make", "register"]

for _row in ROWS:
    register(_row.id, _row.entry_point)
for _task in TASKS:
    register(f"web/MiniWoB-{_task}-v0", "envs.web.miniwob.miniwob:MiniWoB", task=_task)
register_plug_ins()
