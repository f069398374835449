"""Steps and resets of this project's pages with several contexts at once, an observation's cost, and stale ones."""

from __future__ import annotations

import threading
import time
from statistics import median
from typing import Any

import envs
from benchmarks.web.players import cpu_seconds
from envs.web.browser import ChromiumPage
from envs.web.site import Request, Response

LATE = (
    "setTimeout(() => out.textContent = n, 120)",
    "fetch('/slow').then(r => r.text()).then(() => out.textContent = n)",
    "setTimeout(() => location.href = '/?n=' + n, 50)",
    "setTimeout(() => fetch('/slow').then(() => setTimeout(() => out.textContent = n, 30)), 30)",
    "requestAnimationFrame(() => requestAnimationFrame(() => out.textContent = n))",
)


def measure_contexts(count: int, seconds: float, id: str = "web/Shop-v0") -> dict[str, float]:
    """Play the oracle's episodes in `count` contexts of one browser for about `seconds`; return rates by the clock."""
    made = [envs.make(id, engine="chromium").unwrapped for _ in range(count)]
    for env in made:
        env.reset(options={"split": "train", "index": 0})
    lock, sums = threading.Lock(), {"steps": 0, "resets": 0, "step_s": 0.0, "reset_s": 0.0}
    end = time.perf_counter() + seconds

    def work(env: Any, number: int) -> None:
        index = number * 100
        while time.perf_counter() < end:
            began = time.perf_counter()
            env.reset(options={"split": "train", "index": index})
            reset_s, steps, start = time.perf_counter() - began, 0, time.perf_counter()
            for reply in env.oracle():
                steps += 1
                if any(env.step(reply)[2:4]):
                    break
            index += 1
            with lock:
                sums["steps"] += steps
                sums["resets"] += 1
                sums["step_s"] += time.perf_counter() - start
                sums["reset_s"] += reset_s

    threads = [threading.Thread(target=work, args=(env, number)) for number, env in enumerate(made)]
    cpu, start = cpu_seconds(), time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took, cpu = time.perf_counter() - start, cpu_seconds() - cpu
    for env in made:
        env.close()
    return {
        "episodes_per_s": sums["resets"] / took,
        "steps_per_s": sums["steps"] / took,
        "reset_ms": 1000 * sums["reset_s"] / sums["resets"],
        "step_ms": 1000 * sums["step_s"] / sums["steps"],
        "cpu_ms_per_step": 1000 * cpu / sums["steps"],
    }


class Fixed:
    """A site of fixed pages."""

    start = "/"

    def __init__(self, pages: dict[str, str]) -> None:
        self.pages = pages

    def respond(self, request: Request) -> Response:
        """Answer with the page of a path."""
        if request.path == "/slow":
            time.sleep(0.08)
        return Response(self.pages.get(request.path, "x"))

    def state(self) -> dict[str, Any]:
        """Return nothing."""
        return {}


def observation_ms(rounds: int = 200) -> dict[str, float]:
    """Milliseconds of reading a page of 102 elements by one walk of its DOM, and of the whole observation."""
    row = "<div><p>Row {0}</p><a href=/{0}>Link {0}</a><button>Button {0}</button><input aria-label=F{0}></div>"
    page = ChromiumPage()
    page.open(Fixed({"/": "<title>T</title>" + "".join(row.format(i) for i in range(34))}))
    assert len(page.observe().elements()) == 102
    walks, observations = [], []
    for _ in range(rounds):
        start = time.perf_counter()
        page._host.call(page._evaluate, "read", deadline_s=10)
        walks.append(1000 * (time.perf_counter() - start))
        start = time.perf_counter()
        page.observe()
        observations.append(1000 * (time.perf_counter() - start))
    page.close()
    return {"walk": median(walks), "walk_least": min(walks), "observation": median(observations)}


def stale_observations(actions: int = 300) -> dict[str, int]:
    """Click what changes the page late, in ways that take turns; count the observations without the change."""
    stale, page = 0, ChromiumPage()
    for how in LATE:
        html = f"""<title>T</title><p id=out></p><button id=b>Go</button><script>
        let n = +(new URLSearchParams(location.search).get('n') ?? 0); out.textContent = n;
        b.onclick = () => {{ n++; {how} }}</script>"""
        page.open(Fixed({"/": html}))
        page.observe()
        for number in range(1, actions // len(LATE) + 1):
            page.click(1)
            texts = [getattr(node, "content", "") for node in page.observe().nodes]
            stale += str(number) not in texts
    page.close()
    return {"actions": actions // len(LATE) * len(LATE), "stale": stale}
