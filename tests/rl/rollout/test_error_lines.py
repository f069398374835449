"""Where in a user's code an environment failed: kept beside the error, from workers too."""

import importlib.util
import json
import sys
import textwrap

import pytest

from envs.exits import EnvExit, containment
from envs.types import Stop
from rl.evaluate import __main__ as evaluate
from rl.rollout.faults import set_error
from rl.rollout.workers.errors import dump_error, line_in_worker, load_error
from sandboxes.source_files import user_code_line
from tests.support.episodes import make_failing_env, make_runner, play_member

ENV = """
    import json

    from envs.env import Env
    from envs.procedural import enumerated
    from envs.types import Outcome, Task, assistant, user


    class Broken(Env):
        def tasks(self, split):
            return enumerated(split, 30, self.task_of, key="Broken")

        def task_of(self, number):
            return Task("", (user("say it"),), "it", {})

        def reply(self, action):
            return self.read("{")

        def read(self, text):
            return Outcome(reward=json.loads(text), terminated=True, success=True)  # the line that is named

        def oracle(self):
            yield assistant("it")
"""
LINE = next(number for number, line in enumerate(ENV.splitlines(), 1) if "that is named" in line)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "broken.py"
    path.write_text(textwrap.dedent(ENV))
    return path


@pytest.fixture
def raised(file):
    """The error of a reply to the environment."""
    spec = importlib.util.spec_from_file_location("broken", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with pytest.raises(json.JSONDecodeError) as caught:
        module.Broken().reply(None)
    return caught.value


def test_the_line_is_the_users_and_not_that_of_the_library_that_it_called(raised, file):
    assert user_code_line(raised) == f"{file}, line {LINE}"
    assert user_code_line(ValueError("never raised")) == ""
    with pytest.raises(EnvExit) as caught, containment():
        sys.exit("no more")
    assert user_code_line(caught.value).startswith(f"{__file__}, line ")


def test_a_worker_sends_the_line_with_the_error(raised, file):
    received = load_error(dump_error(raised))
    assert user_code_line(received) == "" and line_in_worker(received) == f"{file}, line {LINE}"
    assert line_in_worker(raised) == ""


def test_an_errored_episode_has_the_line_unless_the_infrastructure_failed(raised, file):
    make, _ = make_failing_env("reply", 1)
    record = play_member(make_runner(make))
    assert (record.stop, record.error) == (Stop.ERROR, "OSError: no reply")
    assert record.failure == f"OSError: no reply ({record.error_line})" and "episodes.py, line " in record.error_line
    set_error(record, load_error(dump_error(raised)))
    assert record.error_line == f"{file}, line {LINE}"
    record.error_line = ""
    try:
        raise ConnectionRefusedError("no container engine")
    except ConnectionRefusedError as error:
        set_error(record, error)
    assert (record.error_line, record.failure) == ("", "ConnectionRefusedError: no container engine")


@pytest.mark.parametrize("more", [[], ["--workers", "1"]], ids=["here", "in a worker"])
def test_an_evaluation_names_it_in_its_one_line(more, file, capsys):
    assert evaluate.main(["--env", f"{file}:Broken", "--policy", "oracle", "--episodes", "2", *more]) == 1
    assert f"({file}, line {LINE})" in capsys.readouterr().err.splitlines()[-1]
