"""Gymnasium environments for language-model agents. Importing this registers their ids and imports none of them."""

from envs.catalogue import entries, entry, find, make, register
from envs.convert import arguments
from envs.rows import ROWS

__all__ = ["arguments", "entries", "entry", "find", "make", "register"]

for _row in ROWS:
    register(_row.id, _row.entry_point)
