"""An environment whose place dies at a wrong reply, and a random policy that solves one task in five."""

from __future__ import annotations

from envs.env import Env
from envs.types import Outcome, Task, assistant, text, user
from sandboxes import SandboxBusy, SandboxDied


class Place(Env):
    """Say the number of the task. Any other reply kills the place, or finds it `busy`, which is no reply's fault."""

    def __init__(self, *, busy: bool = False, **limits):
        super().__init__(**limits)
        self.busy = busy

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"say {i}"),), str(i)) for i in range(20)]

    def reply(self, action):
        if text(action) != self.task.answer:
            raise SandboxBusy("no place") if self.busy else SandboxDied("the place is gone")
        return Outcome(reward=1.0, terminated=True, success=True)

    def random(self, rng):
        return assistant(self.task.answer if self.index % 5 == 0 else "crash")

    def oracle(self):
        yield assistant(self.task.answer)
