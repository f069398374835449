"""Where the model of a name is: a folder, the local cache of the Hugging Face hub, or the hub. Imports no torch."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread

from rl.spec_paths import MODEL_CONFIGS, role_models

ADAPTER_CONFIG = "adapter_config.json"
ANSWER_S = 10.0  # the time in which the hub must answer, in seconds

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def find_model(name: str) -> tuple[str, bool]:
    """Return the folder or hub id of the model `name`, and whether it can be read without the network.

    Raises `ValueError` for a folder without a model, and for a name that neither this machine nor the hub knows.
    """
    folder = Path(name).expanduser()
    if not name.strip():
        raise ValueError(f"model {name!r}: give tiny, a folder or a hub id")
    if folder.is_dir():
        for inner in (folder, folder / "model", folder / "checkpoints" / "latest" / "model"):
            if any((inner / config).is_file() for config in MODEL_CONFIGS):
                return str(inner), True
        if roles := role_models(folder):
            raise ValueError(f"model {name!r} is a run with a model for each role; give {' or '.join(map(str, roles))}")
        raise ValueError(f"model {name!r}: no config.json in this folder, its model/ or its checkpoints/latest/model/")
    if folder.exists():
        raise ValueError(f"model {name!r} is a file; give its folder, {str(folder.parent)!r}")
    if not _HUB_ID.fullmatch(name):
        raise ValueError(f"model {name!r}: no such folder; {_suggest_path(folder)}")
    if "/" not in name and get_close_matches(name.lower(), ["tiny"]):
        raise ValueError(f"no model {name!r}; did you mean 'tiny'?")
    return name, _is_in_hub_cache(name, folder)


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, with the next where it ends in a colon; its type without one."""
    first, *others = (str(error).strip() or type(error).__name__).splitlines()
    return f"{first} {others[0].strip()}" if first.endswith(":") and others else first


def _suggest_path(path: Path) -> str:
    """A hint for a mistyped path: the existing path that it is closest to."""
    nearest = next(parent for parent in path.absolute().parents if parent.is_dir())
    for part in path.absolute().relative_to(nearest).parts:
        names = [entry.name for entry in nearest.iterdir()] if nearest.is_dir() else []
        close = [part] if part in names else get_close_matches(part, names, n=1)
        if not close:
            return f"the nearest that exists is {str(nearest)!r}"
        nearest /= close[0]
    return f"did you mean {str(nearest)!r}?"


def _is_in_hub_cache(name: str, folder: Path) -> bool:
    """Whether the hub's local cache holds the model; raises `ValueError` if neither cache nor hub has it."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return True
    try:
        files = _hub_files(name)
    except GatedRepoError:
        raise ValueError(f"model {name!r} is gated: accept its licence on the hub, then run `hf auth login`") from None
    except RepositoryNotFoundError:
        raise ValueError(
            f"no model {name!r}: neither on the Hugging Face hub nor here; {_suggest_path(folder)}"
        ) from None
    except Exception as error:  # offline mode, no network, a proxy's answer: all mean the same to the user
        raise ValueError(
            f"model {name!r}: no such folder here ({_suggest_path(folder)}), and the Hugging Face hub is out of reach "
            f"({first_line(error)})"
        ) from error
    if ADAPTER_CONFIG in files and "config.json" not in files:
        raise ValueError(f"model {name!r} is an adapter: `hf download {name} --local-dir DIR`, then give DIR")
    return False


def _hub_files(name: str) -> set[str]:
    """The files of a model on the hub, by one request. Raises what that raises, `TimeoutError` after `ANSWER_S`.

    A thread asks, because the limit of a request does not hold while the hub's address is looked up.
    """
    from huggingface_hub import HfApi

    answers: SimpleQueue[set[str] | Exception] = SimpleQueue()

    def ask() -> None:
        try:
            info = HfApi().model_info(name, timeout=ANSWER_S)
            answers.put({one.rfilename for one in info.siblings or ()})
        except Exception as error:
            answers.put(error)

    Thread(target=ask, name="hub lookup", daemon=True).start()
    try:
        answer = answers.get(timeout=ANSWER_S)
    except Empty:
        raise TimeoutError(f"no answer in {ANSWER_S:g} s") from None
    if isinstance(answer, Exception):
        raise answer
    return answer
