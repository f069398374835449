"""What environments share in which files are worked on by a command, or a call of a tool, a turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from envs.env import Env
from envs.shared_sandbox import Lease, seconds


class Commanded(Env):
    """A base: `levels` says how many turns the longest way of each level needs, `offered` holds the tools."""

    blocking = True
    levels: Sequence[int] = ()
    offered: Sequence[Mapping[str, Any]] = ()

    def __init__(
        self,
        *,
        level: int = 0,
        shown: int,
        spare: int = 1,
        prose: bool = False,
        tools: bool = False,
        timeout_s: float = 10.0,
        sandbox: str = "local",
        max_turns: int | None = None,
        **limits: Any,
    ) -> None:
        bounds = (("level", level, len(self.levels) - 1), ("shown", shown, 10**6), ("spare", spare, 100))
        for name, value, most in bounds:
            if isinstance(value, bool) or value not in range(most + 1):
                raise ValueError(f"{name} {value!r} is outside 0..{most}")
        super().__init__(max_turns=self.levels[level] + spare if max_turns is None else max_turns, **limits)
        self.level, self.shown, self.prose, self.timeout_s = level, shown, bool(prose), seconds("timeout_s", timeout_s)
        self.tools = self.offered if tools else ()
        self._lease = Lease(sandbox)

    def close(self) -> None:
        """Give the sandbox back."""
        self._lease.close()
        super().close()
