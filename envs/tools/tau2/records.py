"""The records of a tau2 domain during an episode: a shared database that never changes, and the records that did."""

from __future__ import annotations

import hashlib
import json
from copy import deepcopy
from pathlib import Path
from typing import Any

from envs.tools.tau2.files import load_json

Changes = dict[tuple[str, str], dict[str, Any]]  # records by table and key


class Records:
    """A database of records by table and key. Copies share what is unchanged, so that an episode costs next to nothing.

    Args:
        path: The file `db.json`, which is loaded once per process.
        changes: Records that replace those of the file.
    """

    def __init__(self, path: Path, changes: Changes | None = None) -> None:
        self._path = path
        self._tables = load_json(path)
        self.changes: Changes = changes or {}

    def keys(self, table: str) -> list[str]:
        """Return the keys of a table, in the order of the file."""
        return list(self._tables.get(table, ()))

    def get(self, table: str, key: str) -> dict[str, Any] | None:
        """Return a record, which must not be changed; None if there is none."""
        return self.changes.get((table, key)) or self._tables.get(table, {}).get(key)

    def edit(self, table: str, key: str) -> dict[str, Any]:
        """Return a record that exists as an object of this episode's own, to be changed in place."""
        place = (table, key)
        if place not in self.changes:
            self.changes[place] = deepcopy(self._tables[table][key])
        return self.changes[place]

    def digest(self) -> str:
        """Return a hash, in hex, of what differs from the file: equal exactly if the databases are equal."""
        different = [
            [table, key, record]
            for (table, key), record in sorted(self.changes.items())
            if record != self._tables[table][key]
        ]
        line = json.dumps(different, sort_keys=True)
        return hashlib.blake2b(line.encode(), digest_size=8).hexdigest()

    def __deepcopy__(self, memo: dict[int, Any]) -> Records:
        return Records(self._path, deepcopy(self.changes, memo))

    def __getstate__(self) -> dict[str, Any]:
        return {"_path": self._path, "changes": self.changes}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["_path"], state["changes"])  # type: ignore[misc]
