"""Gymnasium environments for language-model agents.

Importing this package registers their ids and those of installed plug-ins, without importing any environment.
"""

from envs.arguments import arguments
from envs.catalogue import entries, entry, find, make, register, register_plug_ins
from envs.rows import ROWS

__all__ = ["arguments", "entries", "entry", "find", "make", "register"]

for _row in ROWS:
    register(_row.id, _row.entry_point)
register_plug_ins()
