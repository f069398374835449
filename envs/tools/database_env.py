"""Base class of tool environments whose world is a database: copying it forks an episode, its digest is the state."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from envs.tools.database import Database
from envs.tools.tool_env import ToolEnv

_CONVERSATION = ("memory", "turns", "dialogue", "_dialogue_digest", "_digest_length", "_phase")
_RANDOMNESS = ("_rng_pending", "_np_random", "_np_random_seed", "_task_draw")
EPISODE_FIELDS = _CONVERSATION + _RANDOMNESS  # what a snapshot copies besides the world


class DatabaseEnv(ToolEnv):
    """A tool environment whose tools read and write `database`.

    A subclass calls `load_world(image, memory)` in `start`. Whatever else changes during an episode stands in `memory`,
    an object whose attributes have a `repr` that says all of it: what the other side of a conversation has said, for
    instance. Both are copied by `snapshot`, so that tree methods fork an episode anywhere, and both make up `state`.
    """

    _database: Database | None = None
    memory: Any = None

    @property
    def database(self) -> Database:
        """The database of the episode."""
        assert self._database is not None, "load_world comes first"
        return self._database

    def load_world(self, image: bytes, memory: Any, digests: Mapping[str, str] | None = None) -> None:
        """Begin an episode.

        Args:
            image: Of the database (`envs.tools.database.database_image`).
            memory: Whatever else changes during the episode.
            digests: `table_digests` of the database, if they are known; they are computed otherwise.
        """
        if self._database is None:
            self._database = Database(image)
        self._database.load(image, digests)
        self.memory = memory

    def state(self) -> str:
        """The task, digests of the database and of the memory, and the turns left."""
        content = repr(getattr(self.memory, "__dict__", self.memory))  # the repr of a dataclass takes far longer
        memory = hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=8).hexdigest()
        left = self.max_turns - self.turns
        return f"{self.task.id} database {self.database.digest()} memory {memory} left {left}"

    def snapshot(self) -> tuple[bytes, dict[str, Any]]:
        """Copy the moment of an episode: the database's image, the memory, and what `Env` holds."""
        return self.database.image(), deepcopy(
            {name: vars(self)[name] for name in EPISODE_FIELDS if name in vars(self)}
        )

    def restore(self, moment: tuple[bytes, dict[str, Any]]) -> None:
        """Go back to a moment that `snapshot` has returned, any number of times, on any instance with its task."""
        image, own = moment
        self.load_world(image, None)
        vars(self).update(deepcopy(own))

    def close(self) -> None:
        """Close the database."""
        if self._database is not None:
            self._database.close()
            self._database = None
