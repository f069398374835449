"""Serve a Turnwise environment to OpenEnv's clients: `python -m envs.adapters.openenv_server math/Arithmetic-v0`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import gymnasium

import envs
from envs.adapters.schemes import import_extra
from envs.messages import parse_action

SESSIONS = 16
RESET_KEYS = ("task", "split")
STEP_KEYS = (
    "valid",
    "rewards",
    "metrics",
    "success",
    "stop",
)  # never `answer`, nor `state`, which may name what is hidden


def application(spec: str, arguments: Mapping[str, Any] | None = None, *, sessions: int = SESSIONS) -> Any:
    """Return a FastAPI application that serves the environment `spec`; each WebSocket session plays an instance.

    An action is `{"message": "...", "tool_calls": [...]}`, an observation `{"messages": [...], "tools": [...],
    "info": {...}}`. `reset` takes `seed`, `split` and `index`; the Task API lists the splits and counts their
    tasks. The ground truth of a task is never sent. Only the WebSocket has state: over plain HTTP every call is a new
    instance.

    Args:
        spec: What `envs.make` takes.
        arguments: Arguments of the environment.
        sessions: Sessions at a time; a further client is refused with CAPACITY_REACHED.

    Raises:
        ImportError: The package openenv is not installed.
        ValueError: There is no such environment, or `sessions` is below 1.
    """
    if sessions < 1:
        raise ValueError(f"sessions must be at least 1, not {sessions}")
    server = import_extra("openenv.core.env_server", "openenv")
    import_extra("openenv.core.env_server.types", "openenv")
    envs.make(spec, **(arguments or {})).close()  # a wrong name or argument is an error now, not at the first session
    action, observation = _models(server)
    environment = _environment_class(server, observation, spec, dict(arguments or {}))
    name = spec.replace("/", "-").replace(":", "-")
    return server.create_fastapi_app(environment, action, observation, max_concurrent_envs=sessions, env_name=name)


def _models(server: Any) -> tuple[type, type]:
    from pydantic import Field, create_model, field_validator

    def check(calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if calls:
            parse_action({"role": "assistant", "content": "", "tool_calls": calls})
        return calls

    action = create_model(
        "Reply",
        __base__=server.Action,
        __validators__={"calls_are_calls": field_validator("tool_calls")(check)},
        message=(str, ...),
        tool_calls=(list[dict[str, Any]], Field(default_factory=list)),
    )
    observation = create_model(
        "Turn",
        __base__=server.Observation,
        messages=(list[dict[str, Any]], Field(default_factory=list)),
        tools=(list[dict[str, Any]], Field(default_factory=list)),
        info=(dict[str, Any], Field(default_factory=dict)),
    )
    return action, observation


def _environment_class(server: Any, observation_class: Any, spec: str, arguments: dict[str, Any]) -> type:
    class TurnwiseEnvironment(server.Environment):  # type: ignore[misc]
        """One session's instance of the environment."""

        SUPPORTS_CONCURRENT_SESSIONS = True

        def __init__(self) -> None:
            super().__init__()
            self.env: Any = envs.make(spec, **arguments)
            self.turns = 0

        def reset(self, seed: int | None = None, episode_id: str | None = None, **options: Any) -> Any:
            task = {key: options[key] for key in ("split", "index") if options.get(key) is not None}
            messages, info = self.env.reset(seed=seed, options=task)
            self.turns = 0
            info_keys = {key: info[key] for key in RESET_KEYS if key in info}
            return observation_class(messages=list(messages), tools=list(info.get("tools", ())), info=info_keys)

        def step(self, action: Any, timeout_s: float | None = None, **_: Any) -> Any:
            reply = {"role": "assistant", "content": action.message}
            if action.tool_calls:
                reply["tool_calls"] = action.tool_calls
            messages, reward, terminated, truncated, info = self.env.step(reply)
            self.turns += 1
            shared = {key: info[key] for key in STEP_KEYS if key in info}
            return observation_class(
                messages=list(messages),
                reward=float(reward),
                done=terminated or truncated,
                info={**shared, "terminated": terminated, "truncated": truncated},
            )

        @property
        def state(self) -> Any:
            return server.State(step_count=self.turns)

        def get_metadata(self) -> Any:
            return server.types.EnvironmentMetadata(name=spec, description=f"{spec}, an environment of Turnwise")

        def list_splits(self) -> list[str]:
            return list(self.env.unwrapped.splits())

        def num_tasks(self, split: str) -> int:
            return len(self.env.unwrapped.load(split))

        def get_task(self, split: str, index: int) -> dict[str, Any]:
            return {"id": f"{split}/{index}", "index": index}

        def list_tasks(self, split: str) -> list[dict[str, Any]]:
            return [self.get_task(split, index) for index in range(self.num_tasks(split))]

        def close(self) -> None:
            self.env.close()

    return TurnwiseEnvironment


def command_line() -> argparse.ArgumentParser:
    """Return the parser of this command."""
    parser = argparse.ArgumentParser(prog="python -m envs.adapters.openenv_server", description=__doc__)
    parser.add_argument("env", metavar="ID", help="what --env takes")
    parser.add_argument("--env-arg", action="append", default=[], metavar="KEY=VALUE", help="an argument of the class")
    parser.add_argument("--host", default="127.0.0.1", help="address to listen at (default: this machine alone)")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--sessions", type=int, default=SESSIONS, help=f"at a time (default: {SESSIONS})")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until interrupted. Returns 2, after one line, for a wrong argument."""
    parser = command_line()
    args = parser.parse_args(argv)
    try:
        app = application(args.env, envs.arguments(args.env_arg, envs.entry(args.env)), sessions=args.sessions)
        uvicorn = import_extra("uvicorn", "openenv")
    except (ValueError, ImportError, gymnasium.error.Error) as error:
        print(f"{parser.prog}: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    uvicorn.run(app, host=args.host, port=args.port, log_level="warning")
    return 0


if __name__ == "__main__":
    sys.exit(main())
