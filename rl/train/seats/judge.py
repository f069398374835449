"""The model that a run asks about its episodes, `--judge`, for the verdict parts of its recipe."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import OrderedDict
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, TypeVar

from envs.types import Messages, user
from envs.watchdog import WATCHDOG
from rl.cli import Parser, UserError, one_line, run_async
from rl.evaluate.clients.client import StopEvaluation
from rl.evaluate.clients.failures import FailedAlone, Refused
from rl.evaluate.clients.function import FunctionClient, is_function_spec
from rl.evaluate.flags import add_policy_flags
from rl.evaluate.policies import open_endpoint_client, open_local_model
from rl.evaluate.runner import SCRIPTS
from rl.evaluate.seats.players import opponent_flags
from rl.methods import options
from rl.methods.options import PartError
from rl.methods.parts import shape
from rl.methods.parts.verdict import first_error, rating
from rl.methods.parts.verdict.questions import FLAWED, RATING, TOO_LONG, UNREAD, TooLong
from rl.methods.recipe import Recipe, function_of
from rl.policy.engine import CutOff
from rl.policy.hf import HFPolicy
from rl.records import SamplingParams
from rl.seeds import derive
from rl.settings import Settings
from rl.train.memory.estimate import frozen_bytes
from rl.train.seats.judge_backends import PROBE_S, Backend, ClientBackend, ModelBackend

T = TypeVar("T")

FLAG = "--judge"
DEADLINE_S = 600.0  # of one reply
PROBE_FULL_S = 3.0  # in which a server refuses a question for which it has no room
MAX_KEPT = 4096  # questions whose replies are kept, for those that are asked again
QUESTION_TOKENS = 1024  # of the context of a model in this process, beyond twice the longest episode and its reply
SLOTS = 32  # questions that a model in this process replies to at the same time
CONCURRENCY = 64  # requests to an endpoint that are open at the same time
FORMS = "a model folder, openai:MODEL@URL or file.py:function"
VERDICT_METRICS: dict[Callable[..., Any], tuple[str, ...]] = {  # the metrics that bundled verdict parts write
    rating: (RATING, UNREAD, TOO_LONG),
    first_error: (FLAWED, UNREAD, TOO_LONG),
}
PREFIX = "judge/"
PROBE = (user("Reply with the word yes."),)


class RunJudge:
    """A model behind `rl.methods.parts.verdict.questions.Judge`: in this process, behind an API, or a function.

    The same question has the same reply: one that was asked before, or is being asked, is not asked again, as far as
    `MAX_KEPT` replies go back.
    """

    def __init__(self, spec: str, backend: Backend | None = None) -> None:
        """Take the name of the judge and what replies for it; nobody is asked without that."""
        self.spec, self._backend = spec, backend
        self._replies: OrderedDict[str, asyncio.Task[str]] = OrderedDict()  # by the digest of the question
        self._pending: set[asyncio.Task[str]] = set()

    async def ask(self, messages: Messages, *, max_tokens: int) -> str:
        """See `Judge`. Raises `PartError` where the judge replies to nothing, such as a server that is gone."""
        assert self._backend, "a recipe with verdict parts has a judge"
        key = hashlib.sha256(json.dumps([messages, max_tokens], sort_keys=True).encode()).hexdigest()
        if (task := self._replies.get(key)) is None:
            while len(self._replies) >= MAX_KEPT:
                self._replies.popitem(last=False)
            task = self._replies[key] = asyncio.ensure_future(self._ask(self._backend, messages, max_tokens, key))
            self._pending.add(task)
            task.add_done_callback(lambda task: self._end(key, task))
        self._replies.move_to_end(key)
        return await asyncio.shield(task)  # others may wait for it, should this group be given up

    async def _ask(self, backend: Backend, messages: Messages, max_tokens: int, key: str) -> str:
        params = SamplingParams(max_tokens, 0.0, seed=derive(0, key), deadline_s=DEADLINE_S)
        try:
            with WATCHDOG.waiting(f"a reply of {FLAG} {self.spec}", DEADLINE_S):
                return await backend.reply(messages, params)
        except CutOff:
            raise TooLong from None
        except TooLong:
            raise
        except Exception as error:
            if _is_about_one_question(error) or await self._answers(backend):
                return ""
            raise PartError(f"{FLAG} {self.spec}: {one_line(error)}") from error

    async def _answers(self, backend: Backend) -> bool:
        """Whether a client answers another question than one that has failed again and again."""
        try:
            async with asyncio.timeout(PROBE_S):
                return bool(backend.client) and bool(await backend.reply(PROBE, SamplingParams(16, 0.0)))
        except Exception:
            return False

    def _end(self, key: str, task: asyncio.Task[str]) -> None:
        """Let a question that has no reply be asked again."""
        self._pending.discard(task)
        if (task.cancelled() or task.exception() or not task.result()) and self._replies.get(key) is task:
            del self._replies[key]

    def check(self, max_tokens: int) -> None:
        """Ask a client something short, so that a wrong key or too short a context shows before the work.

        `max_tokens` is what questions leave room for. Raises `UserError`.
        """
        backend = self._backend
        if backend is None or backend.client is None:
            return
        try:
            with backend.short_patience():
                run_async(lambda: self.during(_probe(backend, max_tokens)))
        except TimeoutError:
            raise UserError(f"{FLAG} {self.spec}: no answer within {PROBE_S:g} s") from None
        except CutOff as error:
            limit = f"; its context has no room for a reply of {max_tokens} tokens; lower max_tokens= of --verdict"
            raise UserError(f"{FLAG} {self.spec}: {one_line(error)}{limit}") from None
        except TooLong:
            cut = "it cuts replies before max_tokens= of --verdict; raise the server's own limit, or lower that one"
            raise UserError(f"{FLAG} {self.spec}: {cut}") from None
        except StopEvaluation as error:
            raise UserError(str(error)) from None
        except Exception as error:
            raise UserError(f"{FLAG} {self.spec}: {one_line(error)}") from None

    async def during(self, work: Coroutine[Any, Any, T]) -> T:
        """Await `work` while the judge can be asked."""
        async with AsyncExitStack() as stack:
            if self._backend and self._backend.client is not None:
                await stack.enter_async_context(self._backend.client)
            try:
                return await work
            finally:
                await self._cancel()

    async def _cancel(self) -> None:
        """End questions that nobody waits for any more."""
        tasks = list(self._pending)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def bytes(self) -> int:
        """Bytes of a model in this process, its cache included; 0 for another judge."""
        engine = self._backend.engine if self._backend else None
        return frozen_bytes(engine.model, engine.context, engine.slots) if isinstance(engine, HFPolicy) else 0

    def description(self) -> str:
        """Return a line on who judges; "" for nobody."""
        return f"{self.spec} judges episodes" if self._backend else ""

    def close(self) -> None:
        """Free what the judge holds."""
        if self._backend and self._backend.engine:
            self._backend.engine.close()


async def _probe(backend: Backend, max_tokens: int) -> None:
    async with asyncio.timeout(PROBE_S + PROBE_FULL_S):
        await backend.reply(PROBE, SamplingParams(16, 0.0))
    with suppress(TimeoutError):  # what is refused is refused at once, and the reply itself is not needed
        async with asyncio.timeout(PROBE_FULL_S):
            await backend.reply(PROBE, SamplingParams(max_tokens, 0.0))


def _is_about_one_question(error: Exception) -> bool:
    """Whether a request failed for what it asks, or took too long, while others are answered."""
    return isinstance(error, (Refused, FailedAlone))


def max_reply_tokens(recipe: Recipe) -> int:
    """Return the most tokens that a verdict part asks for by its option `max_tokens`; 0 without one."""
    limits = [options.of(part).get("max_tokens") for part in recipe.verdict]
    return max((int(limit.default) for limit in limits if limit), default=0)


def check_metrics(recipe: Recipe) -> None:
    """Raise `ValueError` for a bundled shape part that reads a metric of verdicts which no part of `recipe` writes.

    What a verdict part of one's own writes is not known, and beside one nothing is refused. A metric under another name
    may be the environment's.
    """
    verdicts = [function_of(part) for part in recipe.verdict]
    if any(verdict not in VERDICT_METRICS for verdict in verdicts):
        return
    own = [metric for verdict in verdicts for metric in VERDICT_METRICS[verdict]]
    writers = {metric: verdict.__name__ for verdict, metrics in VERDICT_METRICS.items() for metric in metrics}
    for part in recipe.shape:
        option, name = options.of(part).get("metric"), f"--shape {function_of(part).__name__}"
        metric = str(option.default) if option and function_of(part).__module__ == shape.__name__ else ""
        if own and metric.startswith(PREFIX) and metric not in own:
            raise ValueError(f"{name}: no verdict writes {metric}; those of this run write {', '.join(own)}")
        if not own and metric in writers:
            raise ValueError(
                f"{name}: reads {metric}, which no verdict writes; add --verdict {writers[metric]} {FLAG} SPEC, "
                "or metric=NAME for one that the environment reports"
            )


def open_judge(settings: Settings, recipe: Recipe) -> RunJudge:
    """Open the judge that `settings.judge` names for the verdict parts of `recipe`; without any, one that is not asked.

    Raises `ValueError` for parts without a judge, a judge without parts, and one that does not work.
    """
    check_metrics(recipe)
    spec, names = settings.judge, [function_of(part).__name__ for part in recipe.verdict]
    if not names:
        if spec:
            raise ValueError(f"{FLAG} {spec}: no part asks it; add --verdict first_error, or leave it out")
        return RunJudge("")
    if not spec:
        raise ValueError(f"--verdict {names[0]}: needs {FLAG} SPEC, such as {FLAG} openai:MODEL@URL or a model folder")
    if spec in (*SCRIPTS, "human") or spec.startswith("replay:"):
        raise ValueError(f"{FLAG} {spec}: cannot answer questions; name {FORMS}")
    try:
        return RunJudge(spec, _open_backend(settings, recipe))
    except ValueError as error:
        text = one_line(error)
        raise ValueError(text if text.startswith(FLAG) else f"{FLAG} {spec}: {text}") from None


def _open_backend(settings: Settings, recipe: Recipe) -> Backend:
    spec = settings.judge
    if is_function_spec(spec):
        return ClientBackend(FunctionClient(spec, DEADLINE_S, flag=FLAG))
    flags = Parser()
    add_policy_flags(flags)
    words = [f"--policy={spec}", f"--seed={settings.seed}", f"--concurrency={CONCURRENCY}", f"--patience={DEADLINE_S}"]
    args = opponent_flags(flags.parse_args([*words, "--no-cache"]), spec)
    args.device = settings.device
    if spec.startswith("openai:"):
        client, _ = open_endpoint_client(args, flag=FLAG)
        return ClientBackend(client, client)
    context = 2 * (settings.max_tokens or 0) + QUESTION_TOKENS + max_reply_tokens(recipe)
    return ModelBackend(open_local_model(args, names=None, flag=FLAG, context=context, slots=SLOTS))
