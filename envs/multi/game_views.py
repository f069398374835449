"""What can be made of a game of several seats: a rendering, snapshots, a parallel and a single-agent environment."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from envs.messages import format_message
from envs.types import Message, Task


class GameViews:
    """The part of `envs.multi.multi_env.MultiEnv` that shows the game in other forms."""

    task: Task
    render_mode: str | None
    dialogue: list[tuple[str, Message]]
    spec: Any = None  # as of a Gymnasium environment that was made by its class: errors name the class

    def render(self) -> str | None:  # type: ignore[override]
        """Return the dialogue of all seats, a line `seat: text` per message, in mode "ansi"; print it in "human"."""
        lines = "\n".join(f"{seat}: {format_message(message)}" for seat, message in self.dialogue)
        if self.render_mode == "human":
            print(lines)
        return lines if self.render_mode == "ansi" else None

    def close(self) -> None:
        """Release what the environment holds. Default: nothing."""

    def snapshot(self) -> dict[str, Any]:
        """Return a copy of the state of the episode. Override it, with `restore`, where a process is part of it."""
        state = {key: value for key, value in vars(self).items() if key not in ("_spaces", "_arguments", "_own_tasks")}
        return deepcopy(state, {id(self.task): self.task})

    def restore(self, state: dict[str, Any]) -> None:
        """Put the state of a snapshot back; the snapshot may be restored again."""
        self.__dict__.update(deepcopy(state, {id(state["task"]): state["task"]}))

    @classmethod
    def parallel(cls, **arguments: Any) -> Any:
        """Make the `pettingzoo.ParallelEnv` of a game in which all seats move at once. Its `reset` raises otherwise."""
        from envs.multi.parallel import ParallelView

        return ParallelView(cls(**arguments))  # type: ignore[arg-type]

    @classmethod
    def single_agent(cls) -> Any:
        """Return the class `envs.env.Env` of this game with one free seat."""
        from envs.multi.seat_view import seat_view

        return seat_view(cls)  # type: ignore[arg-type]
