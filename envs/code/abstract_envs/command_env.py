"""The abstract environment in which a policy works on files by one command, or one tool call, per turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.env import Env
from envs.shared_sandbox import Lease, check_seconds


class CommandEnv(Env):
    """An environment on files with one command per turn: its options and its sandbox.

    A subclass sets `level_turns`, the turns that the longest solution of each level needs, and `tool_schemas`.

    Args:
        level: The difficulty, an index of `level_turns`.
        shown: Characters of an observation before it is cut.
        spare: Turns beyond those that the level needs.
        timeout_s: Seconds of one command.
        sandbox: The sandbox's name, as for `sandboxes.open`.
        max_turns: Turns of an episode; None for those of the level plus `spare`.
        **limits: The other arguments of `envs.env.Env`.

    Raises:
        ValueError: If an argument is out of range.
    """

    blocking = True
    level_turns: Sequence[int] = ()
    tool_schemas: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        *,
        level: int = 0,
        shown: int,
        spare: int = 1,
        timeout_s: float = 10.0,
        sandbox: str = "local",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        bounds = (("level", level, len(self.level_turns) - 1), ("shown", shown, 10**6), ("spare", spare, 100))
        for name, value, most in bounds:
            if isinstance(value, bool) or value not in range(most + 1):
                raise ValueError(f"{name} {value!r} is outside 0..{most}")
        super().__init__(max_turns=self.level_turns[level] + spare if max_turns is None else max_turns, **limits)
        self.level, self.max_chars = level, shown
        self.timeout_s = check_seconds("timeout_s", timeout_s)
        self.tools = self.tool_schemas if self.style == "full" else ()
        self._lease = Lease(sandbox)

    def close(self) -> None:
        """Release the share in the sandbox."""
        self._lease.close()
        super().close()
