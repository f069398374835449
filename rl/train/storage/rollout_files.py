"""The files in a run's `rollouts/`: one for each update, with its digest; the older ones are compressed."""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path

from rl import checksums
from rl.records import Group
from rl.seeds import generator
from rl.train.storage.durable_files import replace_file

PLAIN_FILES = 100  # of the latest updates, at least; older ones are compressed
PACK_EVERY = 10  # updates between two looks for files to compress
_MOST_AT_ONCE = 40  # files compressed at once, so that an old run does not stop to compress all it has


def select_groups(groups: Sequence[Group], choice: str, seed: int, update: int) -> list[Group]:
    """Return the groups of an update to write, in their order: those that `--rollouts` asks for.

    `choice` is `all`, `none` or `sample:N`, which draws whole groups until another would make more than N episodes;
    one group is drawn at least. The draw depends on the run's seed and the number of the update only.
    """
    if choice in ("all", "none"):
        return list(groups) if choice == "all" else []
    limit, count = int(choice.partition(":")[2]), 0
    selection: list[int] = []
    for index in generator(seed, "rollouts", update).permutation(len(groups)).tolist():
        count += len(groups[index].trajectories) + len(groups[index].errored)
        if selection and count > limit:
            break
        selection.append(index)
    return [groups[index] for index in sorted(selection)]


def write(folder: Path, update: int, text: str) -> None:
    """Write `text` to `update-N.jsonl` in `folder`, add its digest, and compress files of updates long ago.

    Raises `OSError` if a file cannot be written.
    """
    path = folder / f"update-{update:06d}.jsonl"
    content = text.encode("utf-8", "backslashreplace")
    path.write_bytes(content)
    with open(folder / checksums.NAME, "a", encoding="utf-8") as file:
        file.write(checksums.lines([(path.name, checksums.digest(content))]))
    if update % PACK_EVERY:
        return
    for old in sorted(folder.glob("update-*.jsonl"))[:-PLAIN_FILES][:_MOST_AT_ONCE]:
        replace_file(old.with_name(f"{old.name}.gz"), gzip.compress(old.read_bytes(), compresslevel=6, mtime=0))
        old.unlink()


def rewind(folder: Path, update: int) -> list[str]:
    """Remove the files of all updates after `update`, and their digests.

    Returns a line if the file of digests is damaged, or nothing. Raises `OSError` if the folder cannot be written.
    """
    last = f"update-{update:06d}"
    for path in folder.glob("update-*.jsonl*"):
        if path.name.partition(".")[0] > last:
            path.unlink()
    digests = folder / checksums.NAME
    if not digests.exists():
        return []
    lines = digests.read_bytes().splitlines(keepends=True)
    names = [line.decode("utf-8", "replace").partition("  ")[2].rstrip("\n") for line in lines]
    remaining = [
        line for line, name in zip(lines, names, strict=True) if name.partition(".")[0] <= last and line.endswith(b"\n")
    ]
    replace_file(digests, b"".join(remaining))
    try:
        checksums.read(digests)
    except checksums.DamagedFile as error:
        return [f"{digests}: {error}; the rollouts cannot be checked any more"]
    return []
