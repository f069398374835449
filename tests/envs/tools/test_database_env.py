"""Databases of episodes: images, digests, forks, and values that no database can hold."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

import pytest

from envs.tools.database import MAX_TEXT, Database, database_image
from envs.tools.database_env import DatabaseEnv
from envs.tools.tool import tool
from envs.types import Message, Messages, Outcome, Task, ToolError, assistant, user

IMAGE = database_image("create table notes (id integer primary key, text text);", [("notes", [(1, "one"), (2, "two")])])


class Notes(DatabaseEnv):
    """Writes notes."""

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/0", (user(f"note three, {split}"),))]

    def start(self) -> Messages:
        self.load_world(IMAGE, [])
        return self.task.prompt

    @tool
    def write(self, text: str) -> int:
        """Write a note."""
        self.database.write("insert into notes (text) values (?)", text)
        self.memory.append(text)
        return len(self.database.rows("select * from notes"))

    def answer(self, reply: str) -> Outcome:
        success = self.database.row("select * from notes where text = 'three'") is not None
        return Outcome(reward=float(success), terminated=True, success=success)

    def oracle(self) -> Iterator[Message]:
        yield assistant(tool_calls=[("write", {"text": "three"})])
        yield assistant("done")


def call(text: str) -> Message:
    return assistant(tool_calls=[("write", {"text": text})])


@pytest.fixture
def env() -> Any:
    env = Notes()
    env.reset(seed=0)
    yield env
    env.close()


def test_a_database_is_its_image_and_its_digest_is_that_of_its_rows() -> None:
    database, same = Database(IMAGE), Database(IMAGE)
    assert database.digest() == same.digest()
    database.write("insert into notes values (3, ?)", "x'); drop table notes; --")
    assert database.digest() != same.digest() and len(database.rows("select * from notes")) == 3
    copy = pickle.loads(pickle.dumps(database))
    assert copy.digest() == database.digest()
    database.write("delete from notes where id = 3")
    assert database.digest() == same.digest() and copy.digest() != same.digest()
    other = Database(
        database_image("create table notes (id integer primary key, text text);", [("notes", [(2, "two"), (1, "one")])])
    )
    assert other.digest() == same.digest()


@pytest.mark.parametrize("value", ["\ud800", 2**70, "a" * (MAX_TEXT + 1)])
def test_a_value_that_cannot_be_stored_is_the_models_mistake(value: Any) -> None:
    database = Database(IMAGE)
    with pytest.raises(ToolError):
        database.row("select * from notes where text = ?", value)
    with pytest.raises(ToolError):
        database.write("insert into notes values (9, ?)", value)
    assert database.digest() == Database(IMAGE).digest()


def test_an_episode_forks_by_copying_the_database(env: Any) -> None:
    env.step(call("a"))
    moment, state = env.snapshot(), env.state()
    first = [env.step(call(text)) for text in ("b", "three", "c")]
    other = Notes()
    for fork in (env, other, env):
        fork.reset(seed=0)
        fork.restore(moment)
        assert fork.state() == state and fork.memory == ["a"] and fork.turns == 1
        assert [fork.step(call(text)) for text in ("b", "three", "c")] == first
    env.restore(moment)
    assert env.step("done")[4]["success"] is False


def test_the_state_tells_situations_apart(env: Any) -> None:
    states = [env.state()]
    for text in ("a", "b"):
        env.step(call(text))
        states.append(env.state())
    assert len(set(states)) == 3


def test_a_write_changes_the_digest_of_its_table_alone() -> None:
    image = database_image("create table a (x text); create table b (x text);", [("a", [("one",)]), ("b", [("two",)])])
    database = Database(image)
    before = dict(database.table_digests())
    database.load(image, before)
    for statement in ("update b set x = 'three'", "insert or replace into b values ('four')", "DELETE FROM b"):
        database.write(statement)
        after = dict(database.table_digests())
        assert after["a"] == before["a"] and after["b"] != before["b"]
        assert database.digest() == Database(database.image()).digest()
    with pytest.raises(ValueError, match="no insert, update or delete"):
        database.write("drop table b")
