"""A library of functions: which are extracted from an episode, how they are stored, and what later episodes get."""

import json
import threading

import pytest

from envs.math.python import Python
from envs.tools.function_extraction import MAX_SOURCE, LibraryFunction, called_names, canonical_form, extract_functions
from envs.tools.library import MAX_FUNCTIONS, Library, rank_functions
from envs.tools.toolbox import MAX_OFFERS
from tests.support.games import is_won, obs_text, play_replies, step_replies
from tests.support.sandbox_hosts import why_not

DOUBLE = 'def double(x):\n    """Twice a number.\n\n    More.\n    """\n    return x * 2'
VALUE = 'def value(problem):\n    """Work out a problem."""\n    return eval(problem.rstrip("=?"))'


def names(*cells):
    return [function.name for function in extract_functions(cells)]


def function(name, line="", body="0"):
    return LibraryFunction(name, f"{name}(x)", line, f"def {name}(x):\n    return {body}")


def test_a_function_is_extracted_with_its_signature_and_docstring():
    (result,) = extract_functions(["a = 1", DOUBLE, "double(4)"])
    assert result[:3] == ("double", "double(x)", "Twice a number.")
    names = {}
    exec(result.source, names)
    assert names["double"](4) == 8


def test_it_comes_with_the_imports_and_functions_it_needs_and_no_others():
    cells = ["import math, os.path as p\nfrom itertools import chain as c, count", "def half(x): return x / 2",
             "def unused(x): return x", "def root(x, y=1): return math.sqrt(half(x)) + y + sum(c([y]))"]  # fmt: skip
    root = extract_functions(cells)[-1]
    assert root.call == "root(x, y=1)" and root.source.splitlines()[:2] == [
        "from itertools import chain as c",
        "import math",
    ]
    assert "def half" in root.source and "unused" not in root.source and "os" not in root.source
    names = {}
    exec(root.source, names)
    assert names["root"](8) == 4.0


def test_functions_may_need_each_other():
    cells = ["def even(n): return n == 0 or odd(n - 1)\ndef odd(n): return n > 0 and even(n - 1)"]
    assert names(*cells) == ["even", "odd"]
    for result in extract_functions(cells):
        space = {}
        exec(result.source, space)
        assert space["even"](4) and space["odd"](3)


def test_the_last_definition_counts():
    (result,) = extract_functions(["def f(x): return 1", "def f(x): return 2"])
    assert "2" in result.source


@pytest.mark.parametrize(
    "code",
    [
        "def f(): return 517",
        "def print(x): return x",
        "def _f(x): return x",
        "def f(x): return total + x",
        "def f(x, y=total): return x",
        "@wrapped\ndef f(x): return x",
        "def f(x): return missing(x)",
        "class A:\n    def f(self): return 1",
        "f = lambda x: x",
        "def f(x): return x +",
        "x = " + "-" * 9000 + "1\ndef f(x): return x",
        f"def f(x): return '{'a' * MAX_SOURCE}'",
        f"def f({', '.join(f'a{i}' for i in range(40))}): return 1",
        f"def {'f' * 31}(x): return x",
        "def \u0192(x): return x",
    ],
)
def test_functions_that_cannot_run_alone_are_left_out(code):
    assert names(code) == []


def test_a_recursive_function_and_one_with_names_of_its_own_stand_alone():
    assert names("def f(n):\n    total = [m for m in range(n)]\n    return f(n - 1) if n else total") == ["f"]
    assert names("def f(n):\n    def g(m): return m + n\n    return g") == ["f"]


def test_functions_that_differ_in_names_and_docstrings_have_one_canonical_form():
    one, other = extract_functions(
        ["def f(n):\n    'One.'\n    return n and f(n-1)", "def g(n): return n and g(n - 1)"]
    )
    assert (
        canonical_form(one.source)
        == canonical_form(other.source)
        != canonical_form(extract_functions(["def g(n): return n"])[0].source)
    )


@pytest.mark.parametrize("source", ["", "x =", "def f(x): return x\nf(1)"])
def test_code_without_a_function_has_no_canonical_form(source):
    with pytest.raises(ValueError, match="not the code of a function"):
        canonical_form(source)


def test_calls_of_functions_that_the_code_defines_itself_do_not_count():
    assert called_names(["f(1)\ng(h)", "x ="], ["f", "g", "h"]) == {"f", "g"}
    assert called_names(["def f(x): return 1\nf(2)"], ["f"]) == set()


def test_a_library_only_grows(tmp_path):
    path = tmp_path / "tools.json"
    library = Library(path)
    assert library.read() == [] and not path.exists()
    library.add([function("f", "One.")])
    library.add([function("f", body="2"), function("g"), function("h", body="3")], used=["f"])
    entries = Library(path).read()
    assert [(one.function.name, one.uses) for one in entries] == [("f", 1), ("h", 0)]  # g means what f does
    assert entries[0].function == function("f", "One.")
    assert [file.name for file in tmp_path.iterdir()] == ["tools.json"]


def test_adding_nothing_writes_nothing(tmp_path):
    Library(tmp_path / "tools.json").add([])
    assert not list(tmp_path.iterdir())


def test_a_full_library_takes_no_more(tmp_path):
    library = Library(tmp_path / "tools.json")
    library.add(function(f"f{i}", body=str(i)) for i in range(MAX_FUNCTIONS + 5))
    assert len(library.read()) == MAX_FUNCTIONS


def test_concurrent_writers_lose_nothing(tmp_path):
    libraries = [Library(tmp_path / "tools.json") for _ in range(4)]

    def write(number):
        for i in range(8):
            libraries[number].add([function(f"f{number}_{i}", body=f"{number} + {i}")], used=["f0_0"])

    threads = [threading.Thread(target=write, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(libraries[0].read()) == 32


@pytest.mark.parametrize("content", ["", "[]", '{"functions": [{"name": "f"}]}', '{"functions": 3}', "\ud7ff{"])
def test_a_file_that_is_no_library_is_refused(tmp_path, content):
    path = tmp_path / "tools.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=r"library '.*tools.json' cannot be read"):
        Python(style="short", library=str(path))
    assert path.read_text(encoding="utf-8") == content


def test_a_missing_folder_and_a_wrong_version_are_refused(tmp_path):
    with pytest.raises(ValueError, match="there is no folder"):
        Python(library=str(tmp_path / "no" / "tools.json"))
    path = str(tmp_path / "tools.json")
    with pytest.raises(ValueError, match="library_version -1"):
        Python(library=path, library_version=-1)
    with pytest.raises(ValueError, match=r"library_version 3 of .*: it has 0 functions"):
        Python(library=path, library_version=3).reset()


def test_matching_functions_come_first_then_the_oldest():
    functions = [function("count_words"), function("area", "The area of a circle."), function("third")]
    assert [one.name for one in rank_functions(functions, "a circle", 2)] == ["area", "count_words"]
    assert [one.name for one in rank_functions(functions, "words?", 9)] == ["count_words", "area", "third"]


@pytest.fixture
def path(tmp_path):
    if reason := why_not("local"):
        pytest.skip(reason)
    return tmp_path / "tools.json"


def solve(env, code, *, split="train", index=0):
    """The turns of an episode that runs some code and answers what it prints, and how the episode began."""
    (opening,), info = env.reset(options={"split": split, "index": index})
    problem = opening["content"].splitlines()[0]
    turns = step_replies(env, [f"```python\n{code.format(problem=problem)}\n```"])
    return opening["content"], info, [*turns, *step_replies(env, [obs_text(turns[0])])]


def test_a_rewarded_episode_adds_its_functions_to_the_library(path):
    with Python(style="short", library=str(path)) as env:
        opening, _, turns = solve(env, VALUE + "\nvalue('{problem}')")
        assert is_won(turns) and "\n" not in opening and turns[-1][4]["metrics"] == {
            "calls": 1, "failed": 0, "known": 0, "reused": 0}  # fmt: skip
        for split in ("train", "test"):
            opening, info, turns = solve(env, "value('{problem}')", split=split, index=1)
            assert opening.splitlines()[1:] == ["value(problem): Work out a problem."] and " knows 1 " in info["state"]
            assert is_won(turns) and turns[-1][4]["metrics"]["reused"] == 1
    (entry,) = Library(path).read()
    assert entry.uses == 1  # held-out episodes are not counted


@pytest.mark.parametrize(
    "code, split", [(VALUE + "\nvalue('{problem}') + 1", "train"), (VALUE + "\nvalue('{problem}')", "test")]
)
def test_unrewarded_and_held_out_episodes_add_nothing(path, code, split):
    with Python(style="short", library=str(path)) as env:
        solve(env, code, split=split)
    assert not path.exists()


def test_only_code_that_ran_to_its_end_and_loads_alone_is_added(path):
    with Python(style="short", library=str(path), max_calls=4) as env:
        env.reset(options={"split": "train", "index": 0})
        step_replies(env, [">def f(x): return x\n>1/0", ">y = 0", ">def g(x, z=print(globals()['y'])): return x",
                   ">def h(x): return x", env.task.answer])  # fmt: skip
    assert [one.function.name for one in Library(path).read()] == ["h"]


def test_a_library_version_repeats_an_earlier_episode(path):
    library = Library(path)
    library.add([function("f", "First.")])
    with Python(style="short", library=str(path)) as env:
        before = play_replies(env, [">f(1)", "5"], split="test", index=3), env.dialogue
        library.add([function("g", "Second.", "1")])
        after = play_replies(env, [">f(1)", "5"], split="test", index=3), env.dialogue
    size = int(before[0][-1][4]["metrics"]["known"])
    with Python(style="short", library=str(path), library_version=size) as env:
        assert (play_replies(env, [">f(1)", "5"], split="test", index=3), env.dialogue) == before != after


def test_at_most_a_few_are_offered_and_loaded(path):
    Library(path).add(function(f"f{i}", body=str(i)) for i in range(MAX_OFFERS + 2))
    with Python(style="short", library=str(path), max_calls=3) as env:
        (opening,), _ = env.reset()
        assert opening["content"].count("\n") == MAX_OFFERS
        first, last, _ = step_replies(env, [f">f{MAX_OFFERS - 1}(0)", f">f{MAX_OFFERS}(0)", "1"])
        assert obs_text(first) == str(MAX_OFFERS - 1) and "NameError" in obs_text(last) and "(line 1)" in obs_text(last)


def test_the_file_is_readable_json(path):
    Library(path).add([function("f", "One.")], used=[])
    assert json.loads(path.read_text())["functions"][0] == {
        "name": "f", "call": "f(x)", "line": "One.", "source": "def f(x):\n    return 0", "uses": 0}  # fmt: skip
