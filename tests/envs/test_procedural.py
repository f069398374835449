"""Generated task sets: lazy, kept, and without one problem in two splits."""

import pytest

from envs.procedural import LazyTasks, enumerated
from envs.types import Task, user


def test_a_task_is_made_when_it_is_first_read_and_then_kept():
    reads = []

    def make(index):
        reads.append(index)
        return Task("", (user(str(index)),))

    tasks = LazyTasks("val", 5, make)
    assert len(tasks) == 5 and reads == []
    assert tasks[3] is tasks[3] is tasks[-2]
    assert (tasks[3].id, reads) == ("val/3", [3])
    assert [task.id for task in tasks[1:4]] == ["val/1", "val/2", "val/3"] and reads == [3, 1, 2]
    with pytest.raises(IndexError, match="task 5 of 5 in split 'val'"):
        tasks[5]


def test_splits_of_numbered_problems_hold_each_problem_once():
    splits = [enumerated(split, 200, lambda n: Task("", answer=n), key="k") for split in ("train", "val", "test")]
    assert sorted(task.answer for tasks in splits for task in tasks) == list(range(200))
    assert [len(tasks) for tasks in splits] == [140, 20, 40]
