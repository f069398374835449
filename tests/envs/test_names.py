"""Names of environments: what each form of them finds, how a wrong one is answered, and who may register which."""

import subprocess
import sys
from pathlib import Path

import gymnasium as gym
import pytest

import envs
from envs.suggestions import nearest, unknown_message
from tests.support.environments import Echo
from tests.support.paths import ENVIRONMENTS, ROOT


def test_every_kind_of_name_makes_the_same_environment():
    file = Path(envs.__file__).with_name("math") / "arithmetic.py"
    names = ["math/Arithmetic-v0", "envs:math/Arithmetic-v0", "envs.math.arithmetic:Arithmetic", f"{file}:Arithmetic"]
    openings = [envs.make(name, level=2).reset(seed=5)[0] for name in names]
    assert openings == [openings[0]] * 4
    assert envs.make(names[0], level=2).spec.kwargs == {"level": 2}
    assert envs.make("CartPole-v1").unwrapped.spec.id == "CartPole-v1"


@pytest.mark.parametrize(
    "name, hint",
    [
        ("math/Arithmatic-v0", "did you mean 'math/Arithmetic-v0'"),
        ("arithmetic", "did you mean 'math/Arithmetic-v0'"),
        ("CartPoll-v1", "did you mean 'CartPole-v1'"),
        ("xyzzy", "`python -m envs list` lists all"),
        ("envs.math.arithmetic:Aritmetic", "did you mean 'Arithmetic'"),
        (f"{ENVIRONMENTS}:Ecko", "did you mean 'Echo'"),
        ("math/MBPP-v0", "did you mean 'code/MBPP-v0'"),
        ("taxi", "did you mean 'games/Taxi-v0'"),
        ("nope", "'nope'; `python -m envs list` lists all"),
        ("math/Nope-v0", "'math/Nope-v0'; `python -m envs list` lists all"),
        ("nowhere.py", "no file 'nowhere.py'"),
        (str(ENVIRONMENTS), f"name a class of it: {ENVIRONMENTS}:Echo, "),
        (f"{ENVIRONMENTS}:Evn", "; there are: AcceptsAnything, "),
        ("..:x", "no module '..'"),
        ("nowhere.py:Echo", "no file 'nowhere.py'"),
        ("no_such_module:Echo", "no module 'no_such_module'"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name, hint):
    with pytest.raises(ValueError, match="(?s)" + hint) as error_info:
        envs.make(name)
    assert "\n" not in str(error_info.value)


def test_an_unknown_argument_is_answered_with_the_nearest():
    with pytest.raises(ValueError, match="did you mean 'level'"):
        envs.make("math/Arithmetic-v0", leval=1)


@pytest.fixture
def plug_ins(monkeypatch, tmp_path):
    """Installed packages with entry points in our group, and a clean registry afterwards."""

    def install(**points):
        package = tmp_path / "plug-1.dist-info"
        package.mkdir()
        (package / "METADATA").write_text("Metadata-Version: 2.1\nName: plug\nVersion: 1\n")
        lines = "\n".join(f"{name} = {value}" for name, value in points.items())
        (package / "entry_points.txt").write_text(f"[turnwise.envs]\n{lines}\n")
        monkeypatch.syspath_prepend(tmp_path)
        envs.catalogue._entry_points.cache_clear()

    before = set(gym.registry)
    yield install
    envs.catalogue._entry_points.cache_clear()
    for name in set(gym.registry) - before:
        del gym.registry[name]


def test_an_installed_plug_in_is_found_by_its_id(plug_ins, tmp_path):
    (tmp_path / "plugmod.py").write_text(
        'import envs\nenvs.register("games/Loud-v0", "tests.support.environments:Echo", prefix="!")'
    )
    plug_ins(**{"games/Plug-v0": "tests.support.environments:Echo", "loud": "plugmod", "broken": "no_such_plug_in"})
    assert type(envs.make("games/Plug-v0")) is Echo
    assert "games/Plug-v0" in [row.id for row in envs.entries()]
    assert envs.make("games/Loud-v0").prefix == "!"
    with pytest.raises(ValueError, match=r"did you mean 'games/Plug-v0'.*'broken' failed to import"):
        envs.make("games/Plugg-v0")


@pytest.mark.parametrize(
    "target, fault",
    [
        ("no_such_plug_in:Game", "no module 'no_such_plug_in' for environment 'games/Bad-v0'"),
        ("badplug:Gaem", "games/Bad-v0: unknown environment 'Gaem' in badplug; did you mean 'Game'?"),
        ("badplug:Plain", "games/Bad-v0: badplug:Plain is a class, but no environment"),
        ("badplug.raises:Game", "raises.py, line 2: RuntimeError: one two"),
        ("badplug.syntax:Game", "syntax.py, line 1: SyntaxError: invalid syntax"),
        ("badplug.imports:Game", "imports.py, line 1: ModuleNotFoundError: No module named 'no_such_module'"),
        ("badplug.exits:Game", "exits.py, line 1: SystemExit: 3"),
    ],
)
@pytest.mark.parametrize("command", ["make", "entry"])
def test_a_plug_in_that_fails_is_one_line_that_says_where(plug_ins, tmp_path, target, fault, command):
    (tmp_path / "badplug").mkdir()
    for name, text in {
        "__init__": "from envs.math.arithmetic import Arithmetic\nclass Game(Arithmetic):\n    pass\nclass Plain:\n    pass\n",
        "raises": "x = 1\nraise RuntimeError('one\\ntwo')\n",
        "syntax": "def f(:\n",
        "imports": "import no_such_module\n",
        "exits": "raise SystemExit(3)\n",
    }.items():
        (tmp_path / "badplug" / f"{name}.py").write_text(text)
    plug_ins(**{"games/Bad-v0": target})
    try:
        with pytest.raises(ValueError) as error_info:
            getattr(envs, command)("games/Bad-v0")
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "badplug"]:
            del sys.modules[name]
    assert fault in str(error_info.value)
    assert "\n" not in str(error_info.value)


def test_a_plug_in_whose_constructor_raises_is_named_with_its_line(plug_ins, tmp_path):
    (tmp_path / "plug_that_breaks.py").write_text(
        "from tests.support.environments import Echo\n\n\nclass Game(Echo):\n    def __init__(self):\n        {}['x']\n"
    )
    plug_ins(**{"games/Breaks-v0": "plug_that_breaks:Game"})
    with pytest.raises(ValueError, match=r"^games/Breaks-v0: its constructor: .*breaks\.py, line 6: KeyError: 'x'$"):
        envs.make("games/Breaks-v0")


def test_an_id_cannot_silently_get_another_meaning(plug_ins):
    envs.register("games/Twice-v0", "tests.support.environments:Echo")
    envs.register("games/Twice-v0", "tests.support.environments:Echo")
    with pytest.raises(ValueError, match="already registered"):
        envs.register("games/Twice-v0", "tests.support.environments:Silent")


def test_gymnasium_knows_an_installed_plug_in_once_envs_is_imported(plug_ins, tmp_path):
    plug_ins(
        **{
            "games/Plug-v0": "tests.support.environments:Echo [extra]",
            "games/Odd-v0": "no_such:Outer.Inner",
            "loud": "nowhere",
        }
    )
    root = ROOT
    code = f"""
import sys, warnings
sys.path[:0] = [{str(tmp_path)!r}, {str(root)!r}]
import gymnasium
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    import envs
print("tests.support.environments" in sys.modules, [str(each.message) for each in caught])
print(type(gymnasium.make("games/Plug-v0").unwrapped).__name__)
print([row.id for row in envs.entries() if row.line.startswith("plug-in")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    message = "plug-in plug: entry point 'no_such:Outer.Inner' of 'games/Odd-v0' is not of the form 'module:Class'"
    assert done.stdout.splitlines() == [f"False {[message]!r}", "Echo", "['games/Plug-v0']"], done.stderr


@pytest.mark.parametrize("entry_point", ["a.b.C", "a:b:C", "a:", ":C", "a b:C", ""])
def test_an_entry_point_that_names_no_class_is_refused_at_once(entry_point):
    with pytest.raises(ValueError, match="'games/Wrong-v0' is not of the form 'module:Class'"):
        envs.register("games/Wrong-v0", entry_point)
    assert "games/Wrong-v0" not in gym.registry


def test_a_package_offers_what_it_defines_and_not_what_it_imports(tmp_path, monkeypatch):
    package = tmp_path / "packaged"
    package.mkdir()
    (package / "__init__.py").write_text("from envs.env import Env\nfrom packaged.inner import Mine\n")
    (package / "inner.py").write_text("from envs.env import Env\nclass Mine(Env):\n    pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"unknown environment 'zzzz' in packaged; there are: Mine$"):
        envs.find("packaged:zzzz")


@pytest.mark.parametrize(
    "name, near",
    [
        ("a/Blue-v3", "b/Blue-v0"),
        ("a/Blue", "b/Blue-v0"),
        ("b/Brim-v0", None),
        ("a/Grean-v1", "b/Green-v1"),
        ("--v", "-v"),
    ],
)
def test_the_nearest_name_is_nearest_in_its_bare_part(name, near):
    choices = ["-v", "b/Blue-v0", "b/Grown-v0", "b/Green-v2", "b/Green-v1"]
    assert nearest(name, choices) == near


def test_another_name_must_be_nearer_than_a_preferred_one():
    choices = ["Hopper-v5", "games/Hobby-v0"]
    assert "'games/Hobby-v0'" in unknown_message("environment", "hoby", choices, prefer=choices[1:])
    assert "'Hopper-v5'" in unknown_message("environment", "Hoper-v5", choices, prefer=choices[1:])
    assert unknown_message("environment", "nope", choices, prefer=choices[1:]).endswith("there are: games/Hobby-v0")


def test_a_file_that_fails_says_where(tmp_path):
    file = tmp_path / "half.py"
    file.write_text("known = {}\nknown['digits']\n")
    with pytest.raises(ValueError, match=r"half\.py, line 2: KeyError: 'digits'"):
        envs.find(f"{file}:Half")


def test_the_spec_of_every_id_can_be_written_to_json_and_made_again():
    for id in [*(row.id for row in envs.entries()), *(id for id in gym.registry if id.startswith("web/MiniWoB-"))]:
        assert gym.envs.registration.EnvSpec.from_json(gym.spec(id).to_json()).id == id
    env = gym.make("multi/TicTacToe-v0", opponent="noop")
    again = gym.make(gym.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert type(again.unwrapped) is type(env.unwrapped) and again.unwrapped.opponent == "noop"


def test_an_opponent_that_is_a_number_is_refused_with_the_names():
    with pytest.raises(ValueError, match=r"opponent 3 of TicTacToe: must be a name \(random, oracle, "):
        envs.make("multi/TicTacToe-v0", opponent=3)


def test_an_id_of_a_file_is_found_from_any_folder(tmp_path):
    (tmp_path / "solo.py").write_text(
        "import envs\nfrom tests.support.environments import Echo\n\n\nclass Solo(Echo):\n    pass\n\n\n"
        'envs.register("games/Solo-v0", "solo:Solo")\n'
    )
    spec = f"{tmp_path}/solo.py:games/Solo-v0"
    program = (
        f"import envs; print(type(envs.make({spec!r}).unwrapped).__name__, type(envs.make('games/Solo-v0')).__name__)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("Solo "), done.stderr


@pytest.mark.parametrize("kind", ["RuntimeError", "Own", "TypeError", "RecursionError", "KeyError"])
def test_a_constructor_that_raises_is_named_with_its_line(kind, tmp_path):
    (tmp_path / "broken.py").write_text(
        "from tests.support.environments import Echo\n\n\nclass Own(Exception):\n    pass\n\n\nclass Broken(Echo):\n"
        f"    def __init__(self, **limits):\n        raise {kind}('several\\nlines')\n"
    )
    with pytest.raises(ValueError, match=rf"broken\.py, line 10: {kind}: .*several") as caught:
        envs.make(f"{tmp_path}/broken.py:Broken")
    assert type(caught.value.__cause__).__name__ == kind


@pytest.mark.parametrize("kind", ["ValueError", "OSError", "NotImplementedError"])
def test_what_commands_report_as_it_is_passes_unchanged(kind, tmp_path):
    (tmp_path / "refusing.py").write_text(
        "from tests.support.environments import Echo\n\n\nclass Refusing(Echo):\n"
        f"    def __init__(self, **limits):\n        raise {kind}('the reason')\n"
    )
    with pytest.raises(Exception, match=r"^the reason$") as caught:
        envs.make(f"{tmp_path}/refusing.py:Refusing")
    assert type(caught.value).__name__ == kind
