"""A team of one policy in four roles, as in AgentFlow: it plans, carries out, verifies, and then writes the answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, get_args

from agents.agent import Context, Internal
from agents.chat import ChatAgent, Option
from agents.render import Renderer
from agents.requests import ask
from envs.types import Message, assistant, final_line, final_text

Role = Literal["planner", "executor", "verifier", "generator"]
CONTINUE, STOP = "continue", "stop"
REQUESTS: Mapping[str, Mapping[Role, str]] = {
    "full": {
        "planner": "You are the planner of a team. State the next step towards the goal, and the tool for it if one is "
        "needed. Do not carry it out; write no answer yet.",
        "executor": "You are the executor. Carry out the planner's step now: call its tool, or work it out in words.",
        "verifier": "You are the verifier. Check what the team has so far: is it right, and is it all that the goal "
        f"takes? Write `{CONTINUE}` on the last line if a further step is needed, else `{STOP}`.",
        "generator": "You are the generator. From what the team has found, write the reply that was asked for, in the "
        "form that was asked for. Only this reply leaves the team.",
    },
    "short": {"planner": "plan", "executor": "do", "verifier": "check", "generator": "say"},
}


class TeamAgent(ChatAgent):
    """AgentFlow's planner, executor, verifier and generator (arXiv:2510.05592), all of them the same policy.

    Each role's reply follows a request in one shared dialogue, which is the team's memory. The planner names a step and
    the executor takes it: a reply that calls tools goes to the environment, any other stays in the team. Then the
    verifier decides. If the last line of its reply begins with "continue", the planner goes on, at most `rounds` times
    per answer; otherwise the generator writes the reply that goes to the environment. The environment's answer to that
    begins another cycle. All replies are trained, those of a role that only the team has seen included.

    Args:
        renderer: Writes and reads tokens.
        system: Text for the system message, see `agents.chat.with_system`.
        rounds: Most steps that the planner may plan before the generator answers.

    Raises:
        ValueError: `rounds` is below 1.

    """

    has_internal_replies = True
    roles = get_args(Role)
    options: ClassVar[Mapping[str, Option]] = {"rounds": Option("most steps before an answer (default: 3)")}

    def __init__(self, renderer: Renderer, system: str = "", *, rounds: int = 3) -> None:
        super().__init__(renderer, system)
        if rounds < 1:
            raise ValueError(f"rounds must be at least 1, not {rounds}")
        self.rounds = rounds
        self._role: Role = "planner"
        self._next_role: Role = "planner"
        self._num_rounds = 0

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Start an episode; return the first prompt, which asks the planner."""
        self._role, self._num_rounds = "planner", 0
        return super().open(self._ask(messages), tools)._replace(role=self._role)

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Parse the reply of the role that was asked; it is internal unless it is the team's answer or calls tools."""
        message, role = self._read(ids), self._role
        self._next_role = self._successor(message)
        is_call = role == "executor" and bool(message.get("tool_calls"))
        return message if role == "generator" or is_call else Internal(message)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Add `messages` and the request to the next role; return their tokens."""
        self._role = self._next_role
        return super().observe(self._ask(messages))._replace(role=self._role)

    def demonstrate(self, reply: Message) -> Message:
        """Return the words of the role that was asked, where the oracle is about to give `reply`.

        The planner names the oracle's step, the executor takes it, and the verifier stops where it called no tool.
        """
        calls = reply.get("tool_calls") or ()
        if self._role == "planner":
            return assistant(", ".join(call["function"]["name"] for call in calls) or final_text(reply))
        if self._role == "verifier":
            return assistant(CONTINUE if calls else STOP)
        return reply

    def _ask(self, messages: Sequence[Message]) -> list[Message]:
        return ask(messages, REQUESTS[self.style][self._role], self.renderer)

    def _successor(self, message: Message) -> Role:
        """The role to ask after this reply of the current one."""
        if self._role == "planner":
            self._num_rounds += 1
            return "executor"
        if self._role == "executor":
            return "verifier"
        if self._role == "verifier":
            goes_on = final_line(message).lower().startswith(CONTINUE) and self._num_rounds < self.rounds
            return "planner" if goes_on else "generator"
        self._num_rounds = 0
        return "planner"
