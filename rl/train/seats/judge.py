"""The model that a run asks about its episodes, `--judge`, for the verdict parts of its recipe."""

from __future__ import annotations

import asyncio
import json
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, contextmanager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from envs.types import Messages, final_text, user
from envs.watchdog import WATCHDOG
from rl.cli import Parser, UserError, one_line, run_async
from rl.evaluate.clients.client import ChatClient, ChatRequest, StopEvaluation
from rl.evaluate.clients.function import FunctionClient, is_function_spec
from rl.evaluate.flags import add_policy_flags
from rl.evaluate.policies import LocalModel, open_endpoint_client, open_local_model
from rl.evaluate.runner import SCRIPTS
from rl.evaluate.seats.players import opponent_flags
from rl.methods.options import PartError
from rl.methods.parts.verdict.questions import TooLong
from rl.methods.recipe import Recipe, function_of
from rl.policy.engine import CutOff, Engine
from rl.policy.hf import HFPolicy
from rl.records import SamplingParams
from rl.seeds import derive
from rl.settings import Settings
from rl.train.memory.estimate import frozen_bytes

if TYPE_CHECKING:  # httpx is slow to import
    from rl.evaluate.clients.endpoint import EndpointClient

T = TypeVar("T")

FLAG = "--judge"
DEADLINE_S = 600.0  # of one reply
PROBE_S = 30.0  # without an answer of the server before the run
MAX_KEPT = 4096  # questions whose replies are kept, for those that are asked again
REPLY_ROOM = 5120  # tokens of the context of a model in this process beyond twice the longest episode
CONCURRENCY = 64  # requests to an endpoint that are open at the same time
PROBE = (user("Reply with the word yes."),)


class RunJudge:
    """A model behind `rl.methods.parts.verdict.questions.Judge`: in this process, behind an API, or a function.

    The same question has the same reply: one that was asked before, or is being asked, is not asked again, as far as
    `MAX_KEPT` replies go back.
    """

    def __init__(self, spec: str, replies: Replies | None = None) -> None:
        """Take the name of the judge and what replies for it; nobody is asked without that."""
        self.spec, self._source = spec, replies
        self._replies: OrderedDict[str, asyncio.Task[str]] = OrderedDict()

    async def ask(self, messages: Messages, *, max_tokens: int) -> str:
        """See `Judge`. Raises `PartError` where the judge replies to nothing, such as a server that is gone."""
        assert self._source, "a recipe with verdict parts has a judge"
        key = json.dumps([messages, max_tokens], sort_keys=True)
        if (task := self._replies.get(key)) is None:
            while len(self._replies) >= MAX_KEPT:
                self._replies.popitem(last=False)
            task = self._replies[key] = asyncio.ensure_future(self._ask(self._source, messages, max_tokens, key))
            task.add_done_callback(lambda task: self._forget_failure(key, task))
        self._replies.move_to_end(key)
        return await asyncio.shield(task)  # others may wait for it, should this group be given up

    async def _ask(self, source: Replies, messages: Messages, max_tokens: int, key: str) -> str:
        params = SamplingParams(max_tokens, 0.0, seed=derive(0, key), deadline_s=DEADLINE_S)
        try:
            with WATCHDOG.waiting(f"a reply of {FLAG} {self.spec}", DEADLINE_S):
                return await source.reply(messages, params)
        except CutOff:
            raise TooLong from None
        except TooLong:
            raise
        except Exception as error:
            if _is_about_one_question(error):
                return ""
            raise PartError(f"{FLAG} {self.spec}: {one_line(error)}") from error

    def _forget_failure(self, key: str, task: asyncio.Task[str]) -> None:
        """Let a question that has no reply be asked again."""
        if (task.cancelled() or task.exception() or not task.result()) and self._replies.get(key) is task:
            del self._replies[key]

    def check(self) -> None:
        """Ask something short, if it is a client, so that a wrong key shows before the work. Raises `UserError`."""
        source = self._source
        if source is None or source.client is None:
            return
        try:
            with source.impatient():
                run_async(lambda: self.during(source.reply(PROBE, SamplingParams(16, 0.0))))
        except StopEvaluation as error:
            raise UserError(str(error)) from None
        except Exception as error:
            raise UserError(f"{FLAG} {self.spec}: {one_line(error)}") from None

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` while the judge can be asked."""
        async with AsyncExitStack() as stack:
            if self._source and self._source.client is not None:
                await stack.enter_async_context(self._source.client)
            try:
                return await work
            finally:
                await self._cancel()

    async def _cancel(self) -> None:
        """End questions that nobody waits for any more."""
        tasks = [task for task in self._replies.values() if not task.done()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def bytes(self) -> int:
        """Bytes of a model in this process, its cache included; 0 for another judge."""
        engine = self._source.engine if self._source else None
        return frozen_bytes(engine.model, engine.context, engine.slots) if isinstance(engine, HFPolicy) else 0

    def description(self) -> str:
        """Return a line on who judges; "" for nobody."""
        return f"{self.spec} judges episodes" if self._source else ""

    def close(self) -> None:
        """Free what the judge holds."""
        if self._source and self._source.engine:
            self._source.engine.close()


class Replies:
    """Who replies to the questions.

    Attributes:
        client: What must be entered while questions are asked; None for nothing.
        engine: The engine of a model in this process; None for no such model.
    """

    client: AbstractAsyncContextManager[Any] | None = None
    engine: Engine | None = None

    def impatient(self) -> AbstractContextManager[Any]:
        """Context in which a server that does not answer is given up soon."""
        return nullcontext()

    @abstractmethod
    async def reply(self, messages: Messages, params: SamplingParams) -> str:
        """Return the text of a reply, without its reasoning; "" for none in time.

        Raises `TooLong` or `CutOff` for a question without room for a reply.
        """
        ...


class ModelReplies(Replies):
    """Replies of a model in this process."""

    def __init__(self, model: LocalModel) -> None:
        self.engine = model.engine
        self._model, self._num_asked = model, 0

    async def reply(self, messages: Messages, params: SamplingParams) -> str:
        """See `Replies`."""
        engine, agent = self._model.engine, self._model.make_agent()
        prompt = agent.open(messages).ids
        if (room := engine.context - len(prompt)) < 1:
            raise TooLong
        self._num_asked += 1
        session = f"judge/{self._num_asked}"
        params = replace(params, max_tokens=min(params.max_tokens, room), stop=agent.stop)
        try:
            completion = await engine.sample(prompt, params, session=session)
        finally:
            engine.release(session)
        if completion.finish in ("deadline", "abort"):
            return ""
        return final_text(self._model.renderer.parse(completion.ids, prompt=prompt))


class ClientReplies(Replies):
    """Replies of an endpoint or a function."""

    def __init__(self, chat: ChatClient, endpoint: EndpointClient | None = None) -> None:
        """Take whom to ask, and the same again if it is an endpoint."""
        self.client = self._endpoint = endpoint
        self._chat, self._num_asked = chat, 0

    @contextmanager
    def impatient(self) -> Iterator[None]:
        """See `Replies`."""
        if self._endpoint is None:
            yield
            return
        connection = self._endpoint.connection
        connection.patience_s, patience_s = PROBE_S, connection.patience_s
        try:
            yield
        finally:
            connection.patience_s = patience_s

    async def reply(self, messages: Messages, params: SamplingParams) -> str:
        """See `Replies`."""
        self._num_asked += 1
        session = f"judge/{self._num_asked}"
        try:
            response = await self._chat.complete(ChatRequest(messages, (), params, session))
        finally:
            self._chat.release(session)
        return final_text(response.message)


def _is_about_one_question(error: Exception) -> bool:
    """Whether a request failed for what it asks, or took too long, while others are answered."""
    from rl.evaluate.clients.connection import FailedAlone, Refused  # httpx is slow to import

    return isinstance(error, (Refused, FailedAlone))


def open_judge(settings: Settings, recipe: Recipe) -> RunJudge:
    """Open the judge that `settings.judge` names for the verdict parts of `recipe`; without any, one that is not asked.

    Raises `ValueError` for parts without a judge, a judge without parts, and one that does not work.
    """
    spec, names = settings.judge, [function_of(part).__name__ for part in recipe.verdict]
    if not names:
        if spec:
            raise ValueError(f"{FLAG} {spec}: no part asks it; add --verdict first_error, or leave it out")
        return RunJudge("")
    if not spec:
        raise ValueError(f"--verdict {names[0]}: needs {FLAG} SPEC, such as {FLAG} openai:MODEL@URL or a model folder")
    if spec in (*SCRIPTS, "human") or spec.startswith("replay:"):
        raise ValueError(
            f"{FLAG} {spec}: cannot answer questions; name a model folder, openai:MODEL@URL or file.py:function"
        )
    flags = Parser()
    add_policy_flags(flags)
    words = [f"--policy={spec}", f"--seed={settings.seed}", f"--concurrency={CONCURRENCY}", f"--patience={DEADLINE_S}"]
    args = opponent_flags(flags.parse_args([*words, "--no-cache"]), spec)
    args.device = settings.device
    if is_function_spec(spec):
        return RunJudge(spec, ClientReplies(FunctionClient(spec, DEADLINE_S, flag=FLAG)))
    if spec.startswith("openai:"):
        client, _ = open_endpoint_client(args, flag=FLAG)
        return RunJudge(spec, ClientReplies(client, client))
    context = 2 * (settings.max_tokens or 0) + REPLY_ROOM
    return RunJudge(spec, ModelReplies(open_local_model(args, flag=FLAG, context=context)))
