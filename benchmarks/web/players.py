"""Players of MiniWoB++ pages, each in a process of its own: `python -m benchmarks.web.players NAME`.

A line `TASK EPISODES FIRST` on standard input plays that many episodes by a script and is answered with a line of JSON:
`episodes`, `solved`, `steps`, `seconds` by the clock, and `cpu`, seconds of the process and what it has started. The
first line names the packages' versions. Imports of this project are made where its own player needs them: the other
players run in environments of other packages.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

TASKS = ("click-test", "click-button", "enter-text", "login-user")
PLAYERS = ("turnwise", "turnwise-reuse", "miniwob", "miniwob-default", "browsergym", "browsergym-default")
PACKAGES = {"miniwob": ("miniwob", "selenium"), "browsergym": ("browsergym-core", "playwright")}


def plan(goal: str, task: str) -> list[tuple[str, str, str]]:
    """What to do: "click" or "type", the element by its text or HTML id, and what to type."""
    quotes = re.findall(r'"([^"]*)"', goal)
    return {
        "click-test": [("click", "Click Me!", "")],
        "click-button": [("click", quotes[0] if quotes else "", "")],
        "enter-text": [("type", "#tt", quotes[0] if quotes else ""), ("click", "Submit", "")],
        "login-user": [
            ("type", "#username", quotes[0] if quotes else ""),
            ("type", "#password", quotes[1] if len(quotes) > 1 else ""),
            ("click", "Login", ""),
        ],
    }[task]


class Ours:
    """This project's environment, a context of its own for every episode, or the same page again."""

    def __init__(self, *, reuse: bool) -> None:
        self.reuse, self.envs = reuse, {}

    def play(self, task: str, seed: int) -> tuple[bool, int]:
        """Play an episode; whether it was solved, and its steps."""
        import envs

        arguments = {"reuse": True} if self.reuse else {}
        env: Any = self.envs.setdefault(task, None) or envs.make(f"web/MiniWoB-{task}-v0", **arguments).unwrapped
        self.envs[task] = env
        env.reset(options={"split": "train", "index": seed})
        steps = 0
        for reply in env.oracle():
            _, reward, terminated, *_ = env.step(reply)
            steps += 1
            if terminated:
                return reward == 1.0, steps
        return False, steps

    def close(self) -> None:
        """Close all browsers."""
        for env in self.envs.values():
            env.close()


class MiniWoBPackage:
    """The package's own environment, driven by Selenium; it starts the next episode on the same page.

    It takes a screenshot at each step, or, so that this does not count against it, none.
    """

    def __init__(self, *, screenshots: bool) -> None:
        import gymnasium
        import miniwob

        gymnasium.register_envs(miniwob)
        self.gymnasium, self.envs, self.options = gymnasium, {}, {"record_screenshots": screenshots}

    def play(self, task: str, seed: int) -> tuple[bool, int]:
        """Play an episode; whether it was solved, and its steps."""
        from miniwob.action import ActionTypes

        if task not in self.envs:
            self.envs[task] = self.gymnasium.make(f"miniwob/{task}-v1", disable_env_checker=True).unwrapped
        env = self.envs[task]
        observation, _ = env.reset(seed=seed, options=self.options)
        reward, steps = 0.0, 0
        for act, name, words in plan(observation["utterance"], task):
            key = "id" if name.startswith("#") else "text"
            ref = next(
                each["ref"]
                for each in observation["dom_elements"]
                if each[key] == name.removeprefix("#") or each["value"] == name
            )
            if act == "click":
                action = env.create_action(ActionTypes.CLICK_ELEMENT, ref=ref)
            else:
                action = env.create_action(ActionTypes.FOCUS_ELEMENT_AND_TYPE_TEXT, ref=ref, text=words)
            observation, reward, terminated, *_ = env.step(action)
            steps += 1
            if terminated:
                break
        return reward > 0, steps

    def close(self) -> None:
        """Close all browsers."""
        for env in self.envs.values():
            env.close()


class BrowserGym:
    """BrowserGym, with its own pauses or, so that they do not count against it, without."""

    def __init__(self, *, pauses: bool) -> None:
        import miniwob
        import playwright.sync_api

        importlib.import_module("browsergym.miniwob")  # registers the tasks
        self.envs: dict[str, Any] = {}
        self.arguments = {} if pauses else {"pre_observation_delay": 0.0, "slow_mo": 0}
        self.url = f"{(Path(miniwob.__file__).parent / 'html' / 'miniwob').as_uri()}/"
        launch = playwright.sync_api.BrowserType.launch

        def launch_ours(kind: Any, **options: Any) -> Any:
            return launch(kind, **{"executable_path": os.environ["TURNWISE_BROWSER"], **options})

        playwright.sync_api.BrowserType.launch = launch_ours  # type: ignore[method-assign]

    def play(self, task: str, seed: int) -> tuple[bool, int]:
        """Play an episode; whether it was solved, and its steps."""
        import gymnasium

        if task not in self.envs:
            options: dict[str, Any] = {"task_kwargs": {"base_url": self.url}, **self.arguments}
            self.envs[task] = gymnasium.make(
                f"browsergym/miniwob.{task}", disable_env_checker=True, **options
            ).unwrapped
        env = self.envs[task]
        observation, _ = env.reset(seed=seed)
        reward, steps = 0.0, 0
        for act, name, words in plan(observation["goal"], task):
            bid = next(self._bids(env, name))
            action = f"click({bid!r})" if act == "click" else f"fill({bid!r}, {words!r})"
            observation, reward, terminated, *_ = env.step(action)
            steps += 1
            if terminated:
                break
        return reward > 0, steps

    @staticmethod
    def _bids(env: Any, name: str) -> Iterator[str]:
        selector = name if name.startswith("#") else "button, input[type=button], input[type=submit]"
        for element in env.page.query_selector_all(selector):
            words = (element.inner_text() or element.get_attribute("value") or "").strip()
            if name.startswith("#") or words == name:
                yield element.get_attribute("bid")

    def close(self) -> None:
        """Close all browsers."""
        for env in self.envs.values():
            env.close()


def cpu_seconds() -> float:
    """CPU time so far of this process and of all that it has started, those that have ended included."""
    parents, own = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:  # it has ended
                continue
            parents[int(entry.name)] = int(words[1])
            own[int(entry.name)] = sum(map(int, words[11:15]))  # with those of its children that have ended
    family = [os.getpid()]
    for pid in family:
        family += [child for child, parent in parents.items() if parent == pid]
    return sum(own.get(pid, 0) for pid in family) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Answer lines of standard input until it ends."""
    name = sys.argv[1]
    makers = {
        "turnwise": lambda: Ours(reuse=False),
        "turnwise-reuse": lambda: Ours(reuse=True),
        "miniwob": lambda: MiniWoBPackage(screenshots=False),
        "miniwob-default": lambda: MiniWoBPackage(screenshots=True),
        "browsergym": lambda: BrowserGym(pauses=False),
        "browsergym-default": lambda: BrowserGym(pauses=True),
    }
    player: Any = makers[name]()
    packages = PACKAGES.get(name.partition("-")[0], ("playwright",))
    print(json.dumps({package: version(package) for package in packages}), flush=True)
    for line in sys.stdin:
        task, count, first = line.split()
        cpu, start = cpu_seconds(), time.perf_counter()
        results = [player.play(task, int(first) + number) for number in range(int(count))]
        result = {
            "episodes": len(results),
            "solved": sum(is_solved for is_solved, _ in results),
            "steps": sum(steps for _, steps in results),
            "seconds": time.perf_counter() - start,
            "cpu": cpu_seconds() - cpu,
        }
        print(json.dumps(result), flush=True)
    player.close()


if __name__ == "__main__":
    main()
