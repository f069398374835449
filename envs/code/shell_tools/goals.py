"""What a shell is asked for: families of goals in four levels, with the tree wanted and commands that make it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from envs.code.shell_tools.file_content import Sketch
from envs.code.shell_tools.file_tree import RUNNABLE, Tree, file, folder


class Goal(NamedTuple):
    """What is asked for in words, the tree that is wanted, and the commands of one way there."""

    words: str
    wanted: Tree
    commands: tuple[str, ...]


def _made(words: str, sketch: Sketch, wanted: Tree, *commands: str) -> Goal:
    return Goal(words, sketch.wanted() | wanted, commands)


def make_file(sketch: Sketch) -> Goal:
    """An empty file."""
    name = sketch.name(sketch.one_of((".txt", ".md", ".log")))
    return _made(f"make {name}", sketch, {name: file(mode=None)}, f"touch {name}")


def make_folder(sketch: Sketch) -> Goal:
    """An empty folder."""
    name = sketch.name()
    return _made(f"make folder {name}", sketch, {name: folder(None)}, f"mkdir {name}")


def delete(sketch: Sketch) -> Goal:
    """A file less."""
    path = sketch.file()
    sketch.file()
    return Goal(f"delete {path}", sketch.wanted(path), (f"rm {path}",))


def write(sketch: Sketch) -> Goal:
    """A file with a word."""
    name, word = sketch.name(".txt"), sketch.word()
    return _made(f"put {word} in {name}", sketch, {name: file(f"{word}\n", None)}, f"echo {word} > {name}")


def append(sketch: Sketch) -> Goal:
    """A line more."""
    path, word = sketch.file(text=sketch.lines(1, 3)), sketch.word()
    grown = sketch.tree[path]._replace(text=f"{sketch.tree[path].text}{word}\n")
    return _made(f"add the line {word} to {path}", sketch, {path: grown}, f"echo {word} >> {path}")


def copy(sketch: Sketch) -> Goal:
    """A second file with the same content."""
    path, name = sketch.file(), sketch.name(".txt")
    twin = sketch.tree[path]._replace(mode=None)
    return _made(f"copy {path} to {name}", sketch, {name: twin}, f"cp {path} {name}")


def rename(sketch: Sketch) -> Goal:
    """Another name for a file."""
    path, name = sketch.file(), sketch.name(".txt")
    wanted = {**sketch.wanted(path), name: sketch.tree[path]}
    return Goal(f"rename {path} to {name}", wanted, (f"mv {path} {name}",))


def move(sketch: Sketch) -> Goal:
    """A file in another folder."""
    path, place = sketch.file(), sketch.folder()
    wanted = {**sketch.wanted(path), f"{place}/{path}": sketch.tree[path]}
    return Goal(f"move {path} into {place}", wanted, (f"mv {path} {place}",))


def make_executable(sketch: Sketch) -> Goal:
    """A script that can be run."""
    path = sketch.file(".sh", f"echo {sketch.word()}\n")
    wanted = {path: sketch.tree[path]._replace(mode=RUNNABLE)}
    return _made(f"make {path} executable", sketch, wanted, f"chmod +x {path}")


def make_private(sketch: Sketch) -> Goal:
    """A file that nobody but its owner reads."""
    path = sketch.file()
    wanted = {path: sketch.tree[path]._replace(mode=0o600)}
    return _made(f"let only the owner read and write {path}", sketch, wanted, f"chmod 600 {path}")


def sort(sketch: Sketch) -> Goal:
    """The lines of a file in order, in another."""
    path, name = sketch.file(text=sketch.lines(3, 5)), sketch.name(".txt")
    lines = "".join(sorted(sketch.tree[path].text.splitlines(keepends=True)))
    words = f"put the sorted lines of {path} in {name}"
    return _made(words, sketch, {name: file(lines, None)}, f"sort {path} > {name}")


def count(sketch: Sketch) -> Goal:
    """How many lines have a word."""
    path, name = sketch.file(".log", sketch.lines(4, 9, ("ERROR", "ok", "WARN"))), sketch.name(".log")
    found = sketch.tree[path].text.count("ERROR")
    words = f"make {name} hold the number of lines with ERROR in {path}"
    return _made(words, sketch, {name: file(f"{found}\n", None)}, f"grep -c ERROR {path} > {name}")


def replace(sketch: Sketch) -> Goal:
    """A word for another, wherever it stands."""
    old, new, other = sketch.word(), sketch.word(), sketch.word()
    path = sketch.file(text=f"{old}\n{sketch.lines(2, 4, (old, other))}")
    changed = sketch.tree[path]._replace(text=sketch.tree[path].text.replace(old, new))
    words = f"replace each {old} by {new} in {path}"
    return _made(words, sketch, {path: changed}, f"sed -i s/{old}/{new}/g {path}")


def first_lines(sketch: Sketch) -> Goal:
    """The beginning of a file, in another."""
    path, name, size = sketch.file(text=sketch.lines(4, 6)), sketch.name(".txt"), sketch.number(1, 3)
    lines = "".join(sketch.tree[path].text.splitlines(keepends=True)[:size])
    what = f"{size} lines" if size > 1 else "line"
    words = f"put the first {what} of {path} in {name}"
    return _made(words, sketch, {name: file(lines, None)}, f"head -n {size} {path} > {name}")


def join(sketch: Sketch) -> Goal:
    """Two files in one."""
    one, other, name = sketch.file(), sketch.file(), sketch.name(".txt")
    both = sketch.tree[one].text + sketch.tree[other].text
    words = f"put {one} and then {other} in {name}"
    return _made(words, sketch, {name: file(both, None)}, f"cat {one} {other} > {name}")


def move_all(sketch: Sketch) -> Goal:
    """Every file of a kind, however deep, in another folder."""
    top, place = sketch.folder(), sketch.folder()
    wanted_there = _grown(sketch, top, ".txt", ".md")
    wanted = sketch.wanted(*wanted_there)
    wanted |= {f"{place}/{path.rpartition('/')[2]}": sketch.tree[path] for path in wanted_there}
    command = f"find {top} -name '*.txt' -exec mv {{}} {place} \\;"
    return Goal(f"move every .txt under {top} into {place}", wanted, (command,))


def delete_all(sketch: Sketch) -> Goal:
    """No file of a kind any more, however deep."""
    top = sketch.folder()
    gone = _grown(sketch, top, ".tmp", ".txt")
    return Goal(f"delete every .tmp under {top}", sketch.wanted(*gone), (f"find {top} -name '*.tmp' -delete",))


def most_frequent(sketch: Sketch) -> Goal:
    """The line that a file has most often."""
    common, rare, name = sketch.word(), sketch.word(), sketch.name(".txt")
    lines = [common] * sketch.number(3, 4) + [rare] * 2 + [sketch.word()]
    path = sketch.file(text="".join(f"{lines[i]}\n" for i in sketch.rng.permutation(len(lines))))
    words = f"put the most frequent line of {path} in {name}"
    command = f"sort {path} | uniq -c | sort -rn | awk 'NR==1{{print $2}}' > {name}"
    return _made(words, sketch, {name: file(f"{common}\n", None)}, command)


def count_all(sketch: Sketch) -> Goal:
    """How many lines have a word, in all files of a kind."""
    top, name = sketch.folder(), sketch.name(".log")
    paths = _grown(sketch, top, ".log", ".txt", ("ERROR", "ok"))
    found = sum(sketch.tree[path].text.count("ERROR") for path in paths)
    words = f"make {name} hold the number of lines with ERROR in all .log under {top}"
    command = f"find {top} -name '*.log' -exec cat {{}} + | grep -c ERROR > {name}"
    return _made(words, sketch, {name: file(f"{found}\n", None)}, command)


def move_by_content(sketch: Sketch) -> Goal:
    """The file that has a word, in another folder."""
    top, place = sketch.folder(), sketch.folder()
    paths = _grown(sketch, top, ".txt", ".txt")
    chosen = sketch.one_of(paths)
    wanted = {**sketch.wanted(chosen), f"{place}/{chosen.rpartition('/')[2]}": sketch.tree[chosen]}
    word = sketch.tree[chosen].text.strip()
    words = f"move the file with {word} into {place}"
    return Goal(words, wanted, (f"grep -rl {word} {top}", f"mv {chosen} {place}"))


def delete_largest(sketch: Sketch) -> Goal:
    """The largest file of a folder less."""
    top, sizes = sketch.folder(), sketch.rng.permutation(3)
    paths = [sketch.file(text=sketch.lines(1 + int(size), 1 + int(size)), under=f"{top}/") for size in sizes]
    largest = paths[int(sizes.argmax())]
    return Goal(f"delete the largest file in {top}", sketch.wanted(largest), (f"ls -S {top}", f"rm {largest}"))


def rename_by_content(sketch: Sketch) -> Goal:
    """Every file of a folder under the name that it holds."""
    top = sketch.folder()
    paths = [sketch.file(under=f"{top}/") for _ in range(sketch.number(2, 3))]
    wanted = sketch.wanted(*paths)
    wanted |= {f"{top}/{sketch.tree[path].text.strip()}": sketch.tree[path] for path in paths}
    command = f"for f in {top}/*; do mv $f {top}/$(cat $f); done"
    return Goal(f"rename each file in {top} to the word in it", wanted, (f"ls {top}", command))


def follow(sketch: Sketch) -> Goal:
    """A new file where another one says."""
    name, note = sketch.name(".txt"), sketch.file(text=f"{sketch.name()}/{sketch.name()}\n")
    path = sketch.tree[note].text.strip()
    outer = path.partition("/")[0]
    wanted = {outer: folder(None), path: folder(None), f"{path}/{name}": file(mode=None)}
    words = f"make {name} in the folder that {note} names"
    return _made(words, sketch, wanted, f"cat {note}", f"mkdir -p {path} && touch {path}/{name}")


def tally(sketch: Sketch) -> Goal:
    """The words of a file with how often they stand there."""
    path, name = sketch.file(text=sketch.lines(4, 7, (sketch.word(), sketch.word()))), sketch.name(".txt")
    held = Counter(sketch.tree[path].text.split())
    lines = "".join(f"{word} {held[word]}\n" for word in sorted(held))
    words = f"make {name} list each word of {path} and its count, as `{sketch.word()} 2`, in order of the words"
    command = f"sort {path} | uniq -c | awk '{{print $2, $1}}' > {name}"
    return _made(words, sketch, {name: file(lines, None)}, f"cat {path}", command)


def _grown(sketch: Sketch, top: str, chosen: str, other: str, words: tuple[str, ...] = ()) -> list[str]:
    """Fill a folder with files of two endings in two depths; the paths of the `chosen` ending."""
    inner = sketch.folder(f"{top}/")
    places = [f"{top}/", f"{inner}/"]
    paths = [
        sketch.file(chosen, sketch.lines(2, 4, words) if words else None, under=sketch.one_of(places)) for _ in range(2)
    ]
    sketch.file(other, under=sketch.one_of(places))
    return paths


LEVELS: tuple[tuple[Callable[[Sketch], Goal], ...], ...] = (
    (make_file, make_folder, delete),
    (write, append, copy, rename, move, make_executable),
    (sort, count, replace, first_lines, join, make_private, move_all, delete_all),
    (most_frequent, count_all, move_by_content, delete_largest, rename_by_content, follow, tally),
)
