"""Play scripts of web tasks, and pages of a few lines to try an engine on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import envs
from envs.rows import ROWS
from envs.web.case import Step
from envs.web.site import Request, Response
from envs.web.web_env import WebEnv

SITES = [row.id for row in ROWS if row.id.startswith("web/") and "MiniWoB" not in row.id]


def make(id: str, **arguments: Any) -> WebEnv:
    env = envs.make(id, **arguments).unwrapped
    assert isinstance(env, WebEnv)
    return env


def play(env: WebEnv, index: int, steps: Sequence[Step], *, split: str = "train") -> dict[str, Any]:
    """Reset to a task and play a script; the last info, with the reward as "reward"."""
    env.reset(seed=0, options={"split": split, "index": index})
    for step in steps:
        for reply in env.play_step(step):
            _, reward, terminated, truncated, info = env.step(reply)
            if terminated or truncated:
                return {**info, "reward": reward}
    raise AssertionError("the script does not end the episode")


class Pages:
    """A site of fixed pages by path; what forms send is noted in `requests` and answered by the path's page."""

    start = "/"

    def __init__(self, pages: Mapping[str, str | Response]) -> None:
        self.pages = pages
        self.requests: list[Request] = []

    def respond(self, request: Request) -> Response:
        self.requests.append(request)
        page = self.pages.get(request.path)
        if page is None:
            return Response("<title>none</title>nothing here", status=404)
        return page if isinstance(page, Response) else Response(page)

    def state(self) -> dict[str, Any]:
        return {"requests": len(self.requests)}
