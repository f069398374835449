"""A small SQLite database in memory that episodes copy: load an image, query, write, take a digest."""

from __future__ import annotations

import hashlib
import re
import sqlite3
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from envs.types import ToolError

MAX_TEXT = 2_000  # characters of a text that a model may give as a value


def database_image(schema: str, rows: Iterable[tuple[str, Iterable[tuple[Any, ...]]]]) -> bytes:
    """Create a database and return its image.

    Args:
        schema: The `CREATE TABLE` statements.
        rows: Pairs of a table's name and its rows.
    """
    connection = sqlite3.connect(":memory:")
    try:
        connection.executescript(schema)
        for table, values in rows:
            values = list(values)
            if values:
                connection.executemany(f"insert into {table} values ({','.join('?' * len(values[0]))})", values)
        connection.commit()
        return connection.serialize()
    finally:
        connection.close()


class Database:
    """An SQLite database in memory. Its image is bytes, so it can be copied, pickled and restored at any moment.

    Values go into statements as parameters only. The connection is used by one thread at a time.
    """

    def __init__(self, image: bytes) -> None:
        self._open(image)

    def load(self, image: bytes, digests: Mapping[str, str] | None = None) -> None:
        """Replace the whole database by that of an image, as `image` returns it, with its `table_digests`, if known."""
        self._connection.deserialize(image)
        self._digest, self._tables = "", dict(digests or {})
        self._names: tuple[str, ...] | None = None  # of the tables

    def image(self) -> bytes:
        """Return the image of the database as it is now."""
        return self._connection.serialize()

    def rows(self, query: str, *values: Any) -> list[dict[str, Any]]:
        """Return the rows of a query as dicts by column. Raises ToolError for a text that no database can hold."""
        cursor = self._execute(query, values)
        names = self._column_names(query, cursor)
        return [dict(zip(names, row)) for row in cursor.fetchall()]  # noqa: B905 (as many names as values)

    def row(self, query: str, *values: Any) -> dict[str, Any] | None:
        """Return the first row of a query as a dict by column, None if there is none. Raises ToolError as `rows`."""
        cursor = self._execute(query, values)
        row = cursor.fetchone()
        return None if row is None else dict(zip(self._column_names(query, cursor), row))  # noqa: B905

    def write(self, statement: str, *values: Any) -> None:
        """Run a statement that changes one table: insert, update or delete. Raises ToolError as `rows`.

        Raises ValueError for another statement.
        """
        table = _written_table(statement)
        self._execute(statement, values)
        self._tables.pop(table, None)
        self._digest = ""

    def digest(self) -> str:
        """Return a hash, in hex, of all tables; equal for databases with equal rows, whatever their order."""
        if not self._digest:
            self._digest = _hash(repr(sorted(self.table_digests().items())))
        return self._digest

    def table_digests(self) -> Mapping[str, str]:
        """Return the digest of each table by its name. Only those of changed tables are computed."""
        if self._names is None:
            tables = self._connection.execute("select name from sqlite_master where type = 'table'")
            self._names = tuple(name for (name,) in tables)
        for name in self._names:
            if name not in self._tables:
                rows = self._connection.execute(f'select * from "{name}"').fetchall()
                self._tables[name] = _hash("\n".join(sorted(map(repr, rows))))
        return self._tables

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def __getstate__(self) -> dict[str, Any]:
        return {"image": self.image()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._open(state["image"])

    def _open(self, image: bytes) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._columns: dict[str, tuple[str, ...]] = {}  # of results, by query
        self.load(image)

    def _column_names(self, query: str, cursor: sqlite3.Cursor) -> tuple[str, ...]:
        """The columns of a query's result, looked up once per statement."""
        if query not in self._columns:
            self._columns[query] = tuple(column[0] for column in cursor.description)
        return self._columns[query]

    def _execute(self, statement: str, values: tuple[Any, ...]) -> sqlite3.Cursor:
        for value in values:
            if isinstance(value, str) and len(value) > MAX_TEXT:
                raise ToolError(f"a text of {len(value)} characters is too long; {MAX_TEXT} are the most")
        try:
            return self._connection.execute(statement, values)
        except (UnicodeEncodeError, OverflowError):  # a lone surrogate; an integer of more than 64 bits
            raise ToolError("a value holds characters or a number that no database can store") from None


@lru_cache(maxsize=256)
def _written_table(statement: str) -> str:
    """The table that a statement changes. Raises ValueError for one that is no insert, update or delete."""
    match = re.match(r"\s*(?:insert (?:or \w+ )?into|update|delete from) +\"?(\w+)", statement, re.I)
    if not match:
        raise ValueError(f"{statement!r} is no insert, update or delete")
    return match[1]


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
