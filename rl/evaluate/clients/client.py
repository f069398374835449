"""Chat clients as policies: a model behind an API, stored replies or a human plays episodes like a local model.

A client receives and returns whole messages, while `rl.rollout.episode` exchanges tokens with a policy. `ClientPolicy`
and `MessageAgent` bridge the two: each message is one token of a vocabulary that grows as messages arrive. Seeds,
deadlines, error handling and test-time strategies therefore work as for any other policy.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

import gymnasium

from agents.agent import Context
from agents.chat import with_system
from envs.types import Message
from rl.cli import UserError
from rl.evaluate.runner import IncompleteEvaluation, OnGroup, evaluate
from rl.policy.engine import Policy
from rl.records import Completion, Finish, Group, SamplingParams, Ticket
from rl.rollout.runner import Runner


class ChatRequest(NamedTuple):
    """A dialogue that the client is to continue with one message.

    `tools` are the schemas of the tools offered. `params.seed` is the seed of this reply alone. `session` names the
    episode, as "TICKET/MEMBER".
    """

    messages: Sequence[Message]
    tools: Sequence[Mapping[str, Any]]
    params: SamplingParams
    session: str


@dataclass(frozen=True, slots=True)
class ChatResponse:
    """A reply and its size in tokens: `tokens` were sampled, `context` is the whole dialogue. 0 if not counted.

    The reply cache stores these fields under their names.
    """

    message: Message
    finish: Finish = "stop"
    tokens: int = 0
    context: int = 0


class ChatClient(Protocol):
    """Anything that continues a dialogue by one message."""

    async def complete(self, request: ChatRequest) -> ChatResponse:
        """Return the next message of the dialogue.

        Raises:
            CutOff: The episode is to be truncated.
            StopEvaluation: The whole evaluation is to end.
            Exception: Any other error fails this episode only.
        """
        ...

    def release(self, session: str) -> None:
        """Forget an episode that ended; `session` is its name, as in `ChatRequest`."""
        ...


class StopEvaluation(BaseException):
    """Raised by a client to end the evaluation in all episodes; the text is the reason.

    `is_user_error` tells a mistake in the command, such as a wrong key, from a limit that was reached: after a limit
    the completed groups are still reported. The class derives from `BaseException` because an `Exception` would count
    as the failure of a single episode.
    """

    def __init__(self, reason: str, *, is_user_error: bool = False) -> None:
        super().__init__(reason)
        self.is_user_error = is_user_error


class MessageVocabulary:
    """Gives token ids to messages and lists of tools: the id of an entry is its index, and `[id]` returns the entry."""

    def __init__(self) -> None:
        self._entries: list[Any] = []
        self._ids: dict[str, int] = {}  # by the JSON of an entry

    def add(self, entry: Any) -> int:
        """Return the token id of an entry: a new one, unless an equal entry has one."""
        number = self._ids.setdefault(json.dumps(entry, sort_keys=True, default=repr), len(self._entries))
        if number == len(self._entries):
            self._entries.append(entry)
        return number

    def __getitem__(self, token: int) -> Any:
        return self._entries[token]


class MessageAgent:
    """An agent for `ClientPolicy`: it encodes each message as one token of `vocabulary` and decodes replies.

    `system` is a text for the system message, see `agents.chat.with_system`.
    """

    stop: tuple[int, ...] = ()

    def __init__(self, vocabulary: MessageVocabulary, system: str = "") -> None:
        self.vocabulary, self.system = vocabulary, system

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Encode the first prompt: one token for the list of tools, then one per message."""
        return Context(
            (self.vocabulary.add(tuple(tools)), *map(self.vocabulary.add, with_system(messages, self.system)))
        )

    def act(self, ids: Sequence[int]) -> Message:
        """Decode a reply, which is a single token."""
        return self.vocabulary[ids[0]]

    def amend(self, message: Message) -> tuple[int, ...]:
        """Encode a reply that replaces the sampled one."""
        return (self.vocabulary.add(message),)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Encode new messages of the environment."""
        return Context(tuple(map(self.vocabulary.add, messages)))

    def demonstrate(self, reply: Message) -> Message:
        """Return `reply`, as an agent without roles does."""
        return reply


class ClientPolicy(Policy):
    """A chat client as a `Policy`: a prompt is decoded to messages, the reply is encoded as one token."""

    version = 0

    def __init__(self, client: ChatClient) -> None:
        self.client = client
        self.vocabulary = MessageVocabulary()

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", resume_from: Completion | None = None
    ) -> Completion:
        """Ask the client to continue the dialogue; return its reply as one token, with log-probability 0.

        `prompt` holds the token of the tools, then one per message. `session` names the episode, as "TICKET/MEMBER".
        `resume_from` is always None: a message arrives as a whole. Raises what `ChatClient.complete` raises.
        """
        tools, *messages = (self.vocabulary[token] for token in prompt)
        response = await self.client.complete(ChatRequest(messages, tools, params, session))
        token = self.vocabulary.add(response.message)
        return Completion((token,), (0.0,), (0.0,), (0,), response.finish, response.tokens)

    def release(self, session: str) -> None:
        """Let the client forget an episode that ended; `session` is its name, "TICKET/MEMBER"."""
        self.client.release(session)


async def evaluate_client(
    make_env: Callable[[], gymnasium.Env],
    client: ChatClient,
    params: SamplingParams,
    tickets: Sequence[Ticket],
    *,
    concurrency: int = 1,
    episode_s: float = inf,
    on_group: OnGroup = lambda group: None,
    system: str = "",
) -> list[Group]:
    """Play every ticket with a chat client and return the groups in the order of the tickets.

    Works like `rl.evaluate.runner.evaluate`, but by default an episode has no time limit other than the environment's.

    Args:
        make_env: Creates an environment; called once per episode played at the same time.
        client: The client that replies.
        params: How replies are sampled; the client enforces limits on tokens.
        tickets: The groups to play.
        concurrency: About how many episodes are played at the same time.
        episode_s: Seconds after which an episode is truncated.
        on_group: Called with each group when its last episode has ended.
        system: A text for the system message, before the environment's own.

    Raises:
        UserError: The client stopped the evaluation because of a mistake in the command.
        IncompleteEvaluation: The client stopped the evaluation for another reason, or the environment hangs.
    """
    policy = ClientPolicy(client)
    # The runner's token limit would count messages, so it is switched off.
    runner = Runner(
        make_env,
        lambda: MessageAgent(policy.vocabulary, system),
        policy,
        params,
        sys.maxsize,
        episode_s=episode_s,
    )
    groups: list[Group] = []

    def record_group(group: Group) -> None:
        groups.append(group)
        on_group(group)

    try:
        return await evaluate(runner, tickets, concurrency=concurrency, on_group=record_group)
    except BaseExceptionGroup as error:
        stops = stop_errors(error)
        if not stops:
            raise
    finally:
        runner.close()
    raise stopped_evaluation(stops, groups)


def stopped_evaluation(stops: Sequence[StopEvaluation], groups: Sequence[Group]) -> Exception:
    """Return what to raise for an evaluation that clients stopped: `UserError` or `IncompleteEvaluation`.

    `groups` are those that were complete, in any order.
    """
    for stop in stops:
        if stop.is_user_error:
            return UserError(str(stop))
    return IncompleteEvaluation(str(stops[0]), sorted(groups, key=lambda group: group.ticket.number))


def stop_errors(group: BaseExceptionGroup) -> list[StopEvaluation]:
    """Return the `StopEvaluation` errors in a group of exceptions, nested groups included."""
    stops: list[StopEvaluation] = []
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            stops += stop_errors(error)
        elif isinstance(error, StopEvaluation):
            stops.append(error)
    return stops
