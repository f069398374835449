"""Reads files of tasks as WebArena writes them, and says which hosts they reach."""

from __future__ import annotations

import ipaddress
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from envs.web.webarena.judgement import LAST, Judgement, Unsupported, read_judgement

PORTS = {"http": 80, "https": 443}
SPLITS = ("train", "val", "test")


@dataclass(frozen=True)
class WebTask:
    """A task of a file.

    Attributes:
        id: Its `task_id`, else its place in the file.
        start: Address of the first page.
        intent: What to do.
        judgement: What counts.
        storage: File of cookies and local storage to begin with; None for nothing.
        split: Its split, if the file says so.
    """

    id: str
    start: str
    intent: str
    judgement: Judgement
    storage: str | None = None
    split: str = ""

    def addresses(self) -> tuple[str, ...]:
        """Return all addresses that the task names."""
        targets = (target.url for target in self.judgement.targets if target.url != LAST)
        return (self.start, *self.judgement.urls, *targets)


@lru_cache(maxsize=16)
def read_tasks(path: Path, urls: tuple[tuple[str, str], ...], skip_unsupported: bool) -> tuple[WebTask, ...]:
    """Return the tasks of a file: a JSON list or object, or a JSON object a line.

    Args:
        path: The file.
        urls: Texts in it, such as "__SHOP__", and the addresses that stand for them.
        skip_unsupported: Whether to leave out tasks whose judgement is not made here.

    Raises:
        ValueError: The file cannot be read, or a task is none; the message names the file and the task.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the task file {str(path)!r} cannot be read: {error}") from None
    for name, url in urls:
        text = text.replace(name, url.rstrip("/"))
    try:
        items = json.loads(text) if text.lstrip().startswith("[") else _objects(text)
    except ValueError as error:
        raise ValueError(f"the task file {str(path)!r} is no JSON: {error}") from None
    tasks = []
    for place, item in enumerate(items):
        name = str(item.get("task_id", place)) if isinstance(item, Mapping) else str(place)
        try:
            tasks.append(_read_task(item, name, path.parent))
        except Unsupported as error:
            if not skip_unsupported:
                advice = "skip_unsupported=true leaves such tasks out"
                raise ValueError(f"{path.name}, task {name}: {error}; {advice}") from None
        except ValueError as error:
            raise ValueError(f"{path.name}, task {name}: {error}") from None
    if not tasks:
        raise ValueError(f"the task file {str(path)!r} has no tasks")
    return tuple(tasks)


def check_hosts(tasks: Iterable[WebTask], hosts: Sequence[str]) -> None:
    """Raise ValueError for the first address that is neither on the loopback interface nor at one of `hosts`."""
    for task in tasks:
        for url in task.addresses():
            host, place = urlsplit(url).hostname or "", place_of(url)
            if not (is_loopback(host) or host in hosts or place in hosts):
                raise ValueError(
                    f"task {task.id}: {url!r} is not on this machine; name its host by hosts={host}, "
                    "or put your own address in its place by urls="
                )


def reachable(tasks: Iterable[WebTask], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return what the browser may reach, hosts with their ports: what the tasks name, and `hosts`."""
    places = {place_of(url) for task in tasks for url in task.addresses()}
    return tuple(sorted(places | set(hosts)))


def origins(tasks: Iterable[WebTask], hosts: Sequence[str]) -> tuple[str, ...]:
    """Return the origins that links may lead to."""
    own = {f"{urlsplit(url).scheme}://{urlsplit(url).netloc}" for task in tasks for url in task.addresses()}
    return tuple(sorted(own | {f"{scheme}://{host}" for scheme in PORTS for host in hosts}))


def place_of(url: str) -> str:
    """Return host and port of an address: `127.0.0.1:80`."""
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or PORTS.get(parts.scheme, 80)}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine: `localhost`, or an address of the loopback interface."""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def split_of(tasks: Sequence[WebTask], split: str) -> list[WebTask]:
    """Return the tasks of a split: those that say so; if none says any, half for training and a quarter each."""
    if any(task.split for task in tasks):
        return [task for task in tasks if (task.split or "train") == split]
    slices = {"train": slice(0, None, 2), "val": slice(1, None, 4), "test": slice(3, None, 4)}
    return list(tasks[slices[split]])


def _objects(text: str) -> list[Any]:
    """The objects of a text, one after the other."""
    decoder, place, items = json.JSONDecoder(), 0, []
    text = text.strip()
    while place < len(text):
        item, place = decoder.raw_decode(text, place)
        items.append(item)
        while place < len(text) and text[place].isspace():
            place += 1
    return items


def _is_address(url: str) -> bool:
    """Whether a page can have this address; not if its host or port is none."""
    try:
        parts = urlsplit(url)
        return parts.scheme in PORTS and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _read_task(item: Any, name: str, folder: Path) -> WebTask:
    if not isinstance(item, Mapping):
        raise ValueError("it is no object")
    start, intent = item.get("start_url"), item.get("intent")
    for key, value in (("start_url", start), ("intent", intent)):
        if not isinstance(value, str) or not value.strip():
            raise ValueError(f"{key} is missing")
    assert isinstance(start, str) and isinstance(intent, str)
    if " |AND| " in start:
        raise Unsupported("it begins with several pages")
    judgement = read_judgement(item.get("eval") or {})
    task = WebTask(name, start, " ".join(intent.split()), judgement)
    for url in task.addresses():
        if not _is_address(url):
            raise ValueError(f"{url!r} is no address such as http://127.0.0.1:8000/; urls= names what stands for it")
    split = str(item.get("split", ""))
    if split and split not in SPLITS:
        raise ValueError(f"split {split!r} is not one of {', '.join(SPLITS)}")
    storage = item.get("storage_state")
    if storage is None:
        return replace(task, split=split)
    file = (folder / str(storage)).resolve()
    if not file.is_file():
        raise ValueError(f"there is no file {str(storage)!r}, which storage_state names")
    return replace(task, split=split, storage=str(file))
