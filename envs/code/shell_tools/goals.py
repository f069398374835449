"""Goals for the shell: families in four levels, each with its target tree and commands that reach it.

Each public function adds the files of its goal to `builder` and returns the goal, with new names and words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from envs.code.shell_tools.file_tree import RUNNABLE, Tree, file, folder
from envs.code.shell_tools.tree_builder import TreeBuilder


class Goal(NamedTuple):
    """The text of a goal, `copy ab.txt to cd.txt`, the target tree, and the commands of one solution, in order."""

    text: str
    target: Tree
    commands: tuple[str, ...]


def _goal_with(text: str, builder: TreeBuilder, entries: Tree, *commands: str) -> Goal:
    """A goal whose target is the builder's tree with new or changed entries."""
    return Goal(text, builder.tree_without() | entries, commands)


def make_file(builder: TreeBuilder) -> Goal:
    """Goal: make an empty file, under a name from `builder`."""
    name = builder.name(builder.choice((".txt", ".md", ".log")))
    return _goal_with(f"make {name}", builder, {name: file(mode=None)}, f"touch {name}")


def make_folder(builder: TreeBuilder) -> Goal:
    """Goal: make an empty folder, under a name from `builder`."""
    name = builder.name()
    return _goal_with(f"make folder {name}", builder, {name: folder(None)}, f"mkdir {name}")


def delete(builder: TreeBuilder) -> Goal:
    """Goal: delete one of two files; adds its files to `builder`."""
    path = builder.file()
    builder.file()
    return Goal(f"delete {path}", builder.tree_without(path), (f"rm {path}",))


def write(builder: TreeBuilder) -> Goal:
    """Goal: write a word to a new file, under a name from `builder`."""
    name, word = builder.name(".txt"), builder.word()
    return _goal_with(f"put {word} in {name}", builder, {name: file(f"{word}\n", None)}, f"echo {word} > {name}")


def append(builder: TreeBuilder) -> Goal:
    """Goal: add a line at the end of a file; adds its files to `builder`."""
    path, word = builder.file(text=builder.lines(1, 3)), builder.word()
    entry = builder.tree[path]._replace(text=f"{builder.tree[path].text}{word}\n")
    return _goal_with(f"add the line {word} to {path}", builder, {path: entry}, f"echo {word} >> {path}")


def copy(builder: TreeBuilder) -> Goal:
    """Goal: copy a file to a new name; adds its files to `builder`."""
    path, name = builder.file(), builder.name(".txt")
    twin = builder.tree[path]._replace(mode=None)
    return _goal_with(f"copy {path} to {name}", builder, {name: twin}, f"cp {path} {name}")


def rename(builder: TreeBuilder) -> Goal:
    """Goal: rename a file; adds its files to `builder`."""
    path, name = builder.file(), builder.name(".txt")
    target = {**builder.tree_without(path), name: builder.tree[path]}
    return Goal(f"rename {path} to {name}", target, (f"mv {path} {name}",))


def move(builder: TreeBuilder) -> Goal:
    """Goal: move a file into a folder; adds its files to `builder`."""
    path, place = builder.file(), builder.folder()
    target = {**builder.tree_without(path), f"{place}/{path}": builder.tree[path]}
    return Goal(f"move {path} into {place}", target, (f"mv {path} {place}",))


def make_executable(builder: TreeBuilder) -> Goal:
    """Goal: make a script executable; adds its files to `builder`."""
    path = builder.file(".sh", f"echo {builder.word()}\n")
    entries = {path: builder.tree[path]._replace(mode=RUNNABLE)}
    return _goal_with(f"make {path} executable", builder, entries, f"chmod +x {path}")


def make_private(builder: TreeBuilder) -> Goal:
    """Goal: let only the owner read and write a file; adds its files to `builder`."""
    path = builder.file()
    entries = {path: builder.tree[path]._replace(mode=0o600)}
    return _goal_with(f"let only the owner read and write {path}", builder, entries, f"chmod 600 {path}")


def sort(builder: TreeBuilder) -> Goal:
    """Goal: write the sorted lines of a file to a new one; adds its files to `builder`."""
    path, name = builder.file(text=builder.lines(3, 5)), builder.name(".txt")
    lines = "".join(sorted(builder.tree[path].text.splitlines(keepends=True)))
    text = f"put the sorted lines of {path} in {name}"
    return _goal_with(text, builder, {name: file(lines, None)}, f"sort {path} > {name}")


def count(builder: TreeBuilder) -> Goal:
    """Goal: write the number of lines of a file that have a word to a new file; adds its files to `builder`."""
    path, name = builder.file(".log", builder.lines(4, 9, ("ERROR", "ok", "WARN"))), builder.name(".log")
    number = builder.tree[path].text.count("ERROR")
    text = f"make {name} hold the number of lines with ERROR in {path}"
    return _goal_with(text, builder, {name: file(f"{number}\n", None)}, f"grep -c ERROR {path} > {name}")


def replace(builder: TreeBuilder) -> Goal:
    """Goal: replace every occurrence of a word in a file by another; adds its files to `builder`."""
    old, new, other = builder.word(), builder.word(), builder.word()
    path = builder.file(text=f"{old}\n{builder.lines(2, 4, (old, other))}")
    entry = builder.tree[path]._replace(text=builder.tree[path].text.replace(old, new))
    text = f"replace each {old} by {new} in {path}"
    return _goal_with(text, builder, {path: entry}, f"sed -i s/{old}/{new}/g {path}")


def first_lines(builder: TreeBuilder) -> Goal:
    """Goal: write the first lines of a file to a new one; adds its files to `builder`."""
    path, name, size = builder.file(text=builder.lines(4, 6)), builder.name(".txt"), builder.number(1, 3)
    lines = "".join(builder.tree[path].text.splitlines(keepends=True)[:size])
    what = f"{size} lines" if size > 1 else "line"
    text = f"put the first {what} of {path} in {name}"
    return _goal_with(text, builder, {name: file(lines, None)}, f"head -n {size} {path} > {name}")


def join(builder: TreeBuilder) -> Goal:
    """Goal: write two files, one after the other, to a new one; adds its files to `builder`."""
    one, other, name = builder.file(), builder.file(), builder.name(".txt")
    both = builder.tree[one].text + builder.tree[other].text
    text = f"put {one} and then {other} in {name}"
    return _goal_with(text, builder, {name: file(both, None)}, f"cat {one} {other} > {name}")


def move_all(builder: TreeBuilder) -> Goal:
    """Goal: move every file with an ending, at any depth, into another folder; adds both to `builder`."""
    top, place = builder.folder(), builder.folder()
    paths = _fill_folder(builder, top, ".txt", ".md")
    target = builder.tree_without(*paths)
    target |= {f"{place}/{path.rpartition('/')[2]}": builder.tree[path] for path in paths}
    command = f"find {top} -name '*.txt' -exec mv {{}} {place} \\;"
    return Goal(f"move every .txt under {top} into {place}", target, (command,))


def delete_all(builder: TreeBuilder) -> Goal:
    """Goal: delete every file with an ending, at any depth of a folder; adds its files to `builder`."""
    top = builder.folder()
    paths = _fill_folder(builder, top, ".tmp", ".txt")
    return Goal(f"delete every .tmp under {top}", builder.tree_without(*paths), (f"find {top} -name '*.tmp' -delete",))


def most_frequent(builder: TreeBuilder) -> Goal:
    """Goal: write the most frequent line of a file to a new one; adds its files to `builder`."""
    common, rare, name = builder.word(), builder.word(), builder.name(".txt")
    lines = [common] * builder.number(3, 4) + [rare] * 2 + [builder.word()]
    path = builder.file(text="".join(f"{lines[i]}\n" for i in builder.rng.permutation(len(lines))))
    text = f"put the most frequent line of {path} in {name}"
    command = f"sort {path} | uniq -c | sort -rn | awk 'NR==1{{print $2}}' > {name}"
    return _goal_with(text, builder, {name: file(f"{common}\n", None)}, command)


def count_all(builder: TreeBuilder) -> Goal:
    """Goal: write the number of lines with a word, in all files of an ending, to a file; adds them to `builder`."""
    top, name = builder.folder(), builder.name(".log")
    paths = _fill_folder(builder, top, ".log", ".txt", ("ERROR", "ok"))
    number = sum(builder.tree[path].text.count("ERROR") for path in paths)
    text = f"make {name} hold the number of lines with ERROR in all .log under {top}"
    command = f"find {top} -name '*.log' -exec cat {{}} + | grep -c ERROR > {name}"
    return _goal_with(text, builder, {name: file(f"{number}\n", None)}, command)


def move_by_content(builder: TreeBuilder) -> Goal:
    """Goal: move the file of a folder that holds a word into another folder; adds its files to `builder`."""
    top, place = builder.folder(), builder.folder()
    paths = _fill_folder(builder, top, ".txt", ".txt")
    path = builder.choice(paths)
    target = {**builder.tree_without(path), f"{place}/{path.rpartition('/')[2]}": builder.tree[path]}
    word = builder.tree[path].text.strip()
    text = f"move the file with {word} into {place}"
    return Goal(text, target, (f"grep -rl {word} {top}", f"mv {path} {place}"))


def delete_largest(builder: TreeBuilder) -> Goal:
    """Goal: delete the largest file of a folder; adds its files to `builder`."""
    top, sizes = builder.folder(), builder.rng.permutation(3)
    paths = [builder.file(text=builder.lines(1 + int(size), 1 + int(size)), under=f"{top}/") for size in sizes]
    largest = paths[int(sizes.argmax())]
    return Goal(f"delete the largest file in {top}", builder.tree_without(largest), (f"ls -S {top}", f"rm {largest}"))


def rename_by_content(builder: TreeBuilder) -> Goal:
    """Goal: rename every file of a folder to the word in it; adds its files to `builder`."""
    top = builder.folder()
    paths = [builder.file(under=f"{top}/") for _ in range(builder.number(2, 3))]
    target = builder.tree_without(*paths)
    target |= {f"{top}/{builder.tree[path].text.strip()}": builder.tree[path] for path in paths}
    command = f"for f in {top}/*; do mv $f {top}/$(cat $f); done"
    return Goal(f"rename each file in {top} to the word in it", target, (f"ls {top}", command))


def follow(builder: TreeBuilder) -> Goal:
    """Goal: make a new file in the folder that another file names; adds its files to `builder`."""
    name, note = builder.name(".txt"), builder.file(text=f"{builder.name()}/{builder.name()}\n")
    path = builder.tree[note].text.strip()
    outer = path.partition("/")[0]
    entries = {outer: folder(None), path: folder(None), f"{path}/{name}": file(mode=None)}
    text = f"make {name} in the folder that {note} names"
    return _goal_with(text, builder, entries, f"cat {note}", f"mkdir -p {path} && touch {path}/{name}")


def tally(builder: TreeBuilder) -> Goal:
    """Goal: write each word of a file and its count to a new file; adds its files to `builder`."""
    path, name = builder.file(text=builder.lines(4, 7, (builder.word(), builder.word()))), builder.name(".txt")
    counts = Counter(builder.tree[path].text.split())
    lines = "".join(f"{word} {counts[word]}\n" for word in sorted(counts))
    text = f"make {name} list each word of {path} and its count, as `{builder.word()} 2`, in order of the words"
    command = f"sort {path} | uniq -c | awk '{{print $2, $1}}' > {name}"
    return _goal_with(text, builder, {name: file(lines, None)}, f"cat {path}", command)


def _fill_folder(builder: TreeBuilder, top: str, ending: str, other: str, words: tuple[str, ...] = ()) -> list[str]:
    """Fill a folder with files of two endings at two depths; return the paths with the first ending."""
    inner = builder.folder(f"{top}/")
    places = [f"{top}/", f"{inner}/"]
    paths = [
        builder.file(ending, builder.lines(2, 4, words) if words else None, under=builder.choice(places))
        for _ in range(2)
    ]
    builder.file(other, under=builder.choice(places))
    return paths


LEVELS: tuple[tuple[Callable[[TreeBuilder], Goal], ...], ...] = (
    (make_file, make_folder, delete),
    (write, append, copy, rename, move, make_executable),
    (sort, count, replace, first_lines, join, make_private, move_all, delete_all),
    (most_frequent, count_all, move_by_content, delete_largest, rename_by_content, follow, tally),
)
