"""The console scripts of `rl`. They work where `python -m rl.train` finds another package called `rl`."""

from __future__ import annotations

from typing import NoReturn

from rl.own_packages import put_own_packages_first

SCRIPTS = {  # console script: module and what it does; `python -m MODULE` is the same
    "turnwise-train": ("rl.train", "train an agent on an environment"),
    "turnwise-evaluate": ("rl.evaluate", "measure a policy on held-out tasks, compare results"),
    "turnwise-view": ("rl.view", "read the episodes of a run in the browser"),
    "turnwise-attribution": ("rl.attribution", "measure what each switch of an environment contributes"),
    "turnwise-envs": ("envs", "list, check and play environments"),
    "turnwise-sandboxes": ("sandboxes", "serve a sandbox to other machines"),
}


def train() -> NoReturn:
    """Run `turnwise-train`."""
    put_own_packages_first(is_script=True)
    from rl.cli import run
    from rl.train.__main__ import main

    run(main)


def evaluate() -> NoReturn:
    """Run `turnwise-evaluate`."""
    put_own_packages_first(is_script=True)
    from rl.cli import run
    from rl.evaluate.__main__ import main

    run(main)


def view() -> NoReturn:
    """Run `turnwise-view`."""
    put_own_packages_first(is_script=True)
    from rl.cli import run
    from rl.view import main

    run(main)


def attribution() -> NoReturn:
    """Run `turnwise-attribution`."""
    put_own_packages_first(is_script=True)
    from rl.attribution import main
    from rl.cli import run

    run(main)
