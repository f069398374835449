"""A judge behind a server, in this process or as a stand-in: questions, errors, limits, and who is to blame."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from agents.agent import Context
from envs.types import assistant, user
from rl.cli import UserError
from rl.evaluate.clients.client import StopEvaluation
from rl.methods.options import PartError
from rl.methods.parts.verdict.questions import TooLong
from rl.methods.recipe import Recipe, load, parse
from rl.methods.recipe import words as words_of
from rl.policy.engine import CutOff
from rl.records import Completion, SamplingParams
from rl.settings import Settings
from rl.train.credit.advice import Advice
from rl.train.seats import judge as judges
from rl.train.seats.judge import RunJudge, max_reply_tokens, open_judge
from rl.train.seats.judge_backends import Backend, ModelBackend
from tests.support.chat_server import Answer, completion
from tests.support.fake_endpoint import ScriptedServer, with_server
from tests.support.runs import flags, small_model, train, training_error

QUESTION = (user("1: 2+3=5"),)
VERDICT = load("fapo").but(**parse({"verdict": "first_error"}))


class Source(Backend):
    """Backend with `answers`, one after the other; an exception among them is raised."""

    def __init__(self, *answers: Any, wait: asyncio.Event | None = None) -> None:
        self.answers, self.wait, self.num_asked = list(answers), wait, 0

    async def reply(self, messages: Any, params: Any) -> str:
        self.num_asked += 1
        answer = self.answers.pop(0)
        if self.wait is not None:
            await self.wait.wait()
        if isinstance(answer, BaseException):
            raise answer
        return str(answer)


def ask(judge: RunJudge, *times: Any) -> list[Any]:
    """Ask the same question several times at once; return the replies, or the exceptions."""

    async def ask_all() -> list[Any]:
        asking = [judge.ask(QUESTION, max_tokens=8) for _ in times or (0,)]
        return await asyncio.gather(*asking, return_exceptions=True)

    return asyncio.run(judge.during(ask_all()))


def test_questions_without_a_reply_are_asked_again_and_others_are_not() -> None:
    source = Source("", "\\boxed{1}", "never")
    judge = RunJudge("toy", source)

    async def ask_in_turn() -> list[str]:
        return [await judge.ask(QUESTION, max_tokens=8) for _ in range(4)]

    assert asyncio.run(ask_in_turn()) == ["", "\\boxed{1}", "\\boxed{1}", "\\boxed{1}"]
    assert source.num_asked == 2
    one = Source("a")
    assert ask(RunJudge("toy", one), 1, 2, 3) == ["a", "a", "a"] and one.num_asked == 1


def test_old_replies_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "MAX_KEPT", 2)
    source = Source(*"abcd")
    judge = RunJudge("toy", source)

    async def ask_in_turn() -> list[str]:
        return [await judge.ask((user(str(n)),), max_tokens=8) for n in (1, 2, 1, 3, 1, 2)]

    assert asyncio.run(ask_in_turn()) == ["a", "b", "a", "c", "a", "d"]


def test_a_group_that_is_given_up_does_not_end_the_question_of_another() -> None:
    async def give_up() -> tuple[str, int]:
        wait = asyncio.Event()
        source = Source("a", wait=wait)
        judge = RunJudge("toy", source)
        first, second = (asyncio.ensure_future(judge.ask(QUESTION, max_tokens=8)) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        wait.set()
        return await second, source.num_asked

    assert asyncio.run(give_up()) == ("a", 1)


def test_the_end_of_a_run_ends_questions_that_wait() -> None:
    source = Source("a", wait=asyncio.Event())
    judge = RunJudge("toy", source)

    async def leave() -> asyncio.Task[str]:
        task = asyncio.ensure_future(judge.ask(QUESTION, max_tokens=8))
        await asyncio.sleep(0)
        return task

    async def run() -> bool:
        task = await judge.during(leave())
        await asyncio.gather(task, return_exceptions=True)
        return task.cancelled()

    assert asyncio.run(run())


@pytest.mark.parametrize(
    "error, kind",
    [
        (CutOff("token_limit"), TooLong),
        (TooLong(), TooLong),
        (OSError("gone"), PartError),
        (StopEvaluation("--judge toy: no key"), StopEvaluation),
    ],
)
def test_what_becomes_of_errors(error: BaseException, kind: type[BaseException]) -> None:
    (result,) = ask(RunJudge("toy", Source(error)))
    assert type(result) is kind
    if kind is PartError:
        assert str(result) == "--judge toy: gone"


def served(server: ScriptedServer, *, path: str = "/v1", checks: bool = True) -> Any:
    """Open a judge behind the server, check it, and ask it a question; return the reply or the exception."""

    async def use(url: str) -> Any:
        settings = Settings(env="x", judge=f"openai:qwen3-8b@{url}", max_tokens=64, seed=3)
        judge = open_judge(settings, VERDICT)
        try:
            if checks:
                await asyncio.to_thread(judge.check, 64)
            return await judge.during(judge.ask(QUESTION, max_tokens=8))
        except (Exception, StopEvaluation) as error:
            return error

    return with_server(server, use, path)


def test_a_server_judges_greedily_without_a_word_of_the_task_but_the_question() -> None:
    server = ScriptedServer(
        *2 * [Answer(body=completion("yes"))], Answer(body=completion("<think>5?</think>\n\\boxed{-1}"))
    )
    assert served(server) == "\\boxed{-1}"
    probe, longer, question = (body for _, _, body in server.requests)
    assert (probe["max_tokens"], longer["max_tokens"]) == (16, 64)
    assert question["messages"] == [dict(QUESTION[0])]
    assert (question["model"], question["temperature"], question["max_tokens"]) == ("qwen3-8b", 0.0, 8)
    assert "tools" not in question


@pytest.mark.parametrize(
    "answer, message",
    [
        (Answer(401, {"error": "who?"}), "it needs an API key; set OPENAI_API_KEY"),
        (Answer(404, {"error": {"message": "model x", "code": "model_not_found"}}), "unknown model"),
        (Answer(400, {"error": "seed is not allowed"}), "seed is not allowed"),
        (Answer(400, {"error": {"message": "context_length_exceeded"}}), "too long"),
    ],
)
def test_a_server_that_refuses_is_named_before_the_run(answer: Answer, message: str) -> None:
    error = served(ScriptedServer(answer))
    assert isinstance(error, UserError) and message in str(error), error
    assert str(error).startswith("--judge openai:qwen3-8b@http://127.0.0.1:") and "--p" not in str(error)
    assert "\n" not in str(error)


def test_a_server_that_is_away_is_given_up_after_a_moment_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.train.seats.judge_backends.PROBE_S", 0.2)
    judge = open_judge(Settings(env="x", judge="openai:m@http://127.0.0.1:1/v1", max_tokens=64), VERDICT)
    with pytest.raises(UserError, match=r"^--judge openai:m@http://127.0.0.1:1/v1: .*refused; no answer for \d s$"):
        judge.check(64)


@pytest.mark.parametrize("status", [400, 500])
def test_a_question_that_the_server_refuses_while_it_answers_others_has_no_reply(
    status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rl.evaluate.clients.connection.MIN_BACKOFF_S", 0.01)

    class Server(ScriptedServer):
        async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
            if b"2+3" in body:
                return Answer(status, {"error": "I crash on this"})
            return await super().__call__(path, headers, body)

    async def use(url: str) -> list[Any]:
        judge = open_judge(Settings(env="x", judge=f"openai:m@{url}", max_tokens=64), VERDICT)
        await asyncio.to_thread(judge.check, 64)

        async def work() -> list[Any]:
            bad = asyncio.ensure_future(judge.ask(QUESTION, max_tokens=8))
            others = 0
            while not bad.done():
                await judge.ask((user(f"{others} + 1"),), max_tokens=8)
                others += 1
            return [await bad, others > 0]

        return await judge.during(work())

    assert with_server(Server(), use) == ["", True]


def test_a_question_that_is_too_long_for_the_server_is_the_policys_fault() -> None:
    long = Answer(400, {"error": {"message": "maximum context length is 8", "code": "context_length_exceeded"}})
    yes = Answer(body=completion("yes"))
    assert isinstance(served(ScriptedServer(yes, yes, long)), TooLong)
    error = served(ScriptedServer(yes, long))
    assert isinstance(error, UserError)
    assert str(error).endswith("its context has no room for a reply of 64 tokens; lower max_tokens= of --verdict")


@pytest.mark.parametrize(
    "text",
    [
        "The input (9000 tokens) is longer than the maximum model length of 8192",
        "the request exceeds the available context size",
        "Input length 9000 exceeds the maximum allowed length 8192",
        "please lower max_model_len",
    ],
)
def test_servers_say_in_many_ways_that_a_question_is_too_long(text: str) -> None:
    yes = Answer(body=completion("yes"))
    assert isinstance(served(ScriptedServer(yes, yes, Answer(400, {"error": text}))), TooLong)
    assert isinstance(served(ScriptedServer(yes, yes, Answer(413, {"error": "no"}))), TooLong)


def test_a_reply_that_is_cut_because_the_question_left_no_room_is_too_long() -> None:
    yes, cut = Answer(body=completion("yes")), completion("...")
    cut["choices"][0]["finish_reason"] = "length"
    assert isinstance(served(ScriptedServer(yes, yes, Answer(body=cut))), TooLong)  # 3 of 8 tokens


def test_a_server_that_cuts_replies_early_is_named_before_the_run() -> None:
    cut = completion("...")
    cut["choices"][0]["finish_reason"] = "length"
    error = served(ScriptedServer(Answer(body=cut)))
    assert isinstance(error, UserError) and "it cuts replies before max_tokens= of --verdict; raise" in str(error)


def test_a_question_that_alone_brings_the_server_down_has_no_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.evaluate.clients.connection.MIN_BACKOFF_S", 0.01)
    monkeypatch.setattr(judges, "DEADLINE_S", 0.5)

    class Server(ScriptedServer):
        async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
            if b"2+3" in body:
                return Answer(500, {"error": "I crash on this"})
            return await super().__call__(path, headers, body)

    assert served(Server()) == ""


def test_a_server_that_hangs_is_given_up_before_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(judges, "PROBE_S", 0.1)
    monkeypatch.setattr(judges, "PROBE_FULL_S", 0.1)

    class Server(ScriptedServer):
        async def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
            await asyncio.sleep(60)
            raise AssertionError

    error = served(Server())
    assert isinstance(error, UserError) and "no answer within 0.1 s" in str(error)


def test_a_run_asks_its_judge_before_it_begins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rl.train.seats.judge_backends.PROBE_S", 0.1)
    own = {"algo": "fapo", "verdict": "first_error", "judge": "openai:m@http://127.0.0.1:1/v1", "updates": 1}
    assert "no answer for" in training_error(*flags("Low", **own), "--out", tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_advice_names_a_judge_whose_verdicts_are_missing() -> None:
    advice = Advice(8, compares_states=True)
    lines = [advice.add({"update": n, "judge/unread": 0.5, "judge/too_long": n / 20}) for n in range(1, 21)]
    assert lines[:-1] == [""] * 19
    assert lines[-1] == (
        "50% of the judge's replies state no verdict: it may need a larger max_tokens=; "
        "52% of the episodes are too long for the judge: give it a longer context"
    )


def test_a_rubric_is_found_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "style.md").write_text("Be brief.")
    monkeypatch.chdir(tmp_path)
    recipe = load("grpo").but(**parse({"verdict": "rating:rubric=style.md"}))
    assert words_of(recipe)["verdict"] == [f"rating:rubric={tmp_path}/style.md"]
    assert (
        max_reply_tokens(recipe)
        == 4096
        > max_reply_tokens(VERDICT.but(**parse({"verdict": "rating:max_tokens=9"})))
        == 9
    )


def test_a_model_without_room_for_the_question_says_so() -> None:
    settings = Settings(env="x", judge=small_model(), max_tokens=64)
    judge = open_judge(settings, VERDICT)
    assert judge.bytes > 0
    room = judge._backend.engine.context  # type: ignore[union-attr]

    async def work() -> list[Any]:
        asking = (judge.ask((user(text),), max_tokens=8) for text in ("x" * room, "x"))
        return await asyncio.gather(*asking, return_exceptions=True)

    long, short = asyncio.run(judge.during(work()))
    judge.close()
    assert isinstance(long, TooLong) and isinstance(short, str)


class Engine:
    """An engine with room for 20 tokens, whose replies are as long as they may be."""

    context = 20

    def __init__(self) -> None:
        self.limits = list[int]()

    async def sample(self, prompt: Any, params: Any, *, session: str) -> Completion:
        self.limits.append(params.max_tokens)
        return Completion((1,) * params.max_tokens, (0.0,) * params.max_tokens, (), (), "length")

    def release(self, session: str) -> None: ...


class Agent:
    stop = ()

    def open(self, messages: Any) -> Context:
        return Context((1,) * 12)


@pytest.mark.parametrize("most, limit", [(5, 5), (8, 8), (9, 8)])
def test_a_reply_that_the_models_context_cuts_off_is_too_long(most: int, limit: int) -> None:
    engine, renderer = Engine(), SimpleNamespace(parse=lambda ids, prompt: assistant(f"{len(ids)} tokens"))
    model = SimpleNamespace(engine=engine, renderer=renderer, make_agent=Agent)

    async def reply() -> Any:
        try:
            return await ModelBackend(cast(Any, model)).reply(QUESTION, SamplingParams(most, 0.0))
        except TooLong:
            return "too long"

    assert asyncio.run(reply()) == (f"{most} tokens" if most == limit else "too long")
    assert engine.limits == [limit]


def test_the_estimate_of_memory_counts_a_judge_in_this_process() -> None:
    own = flags("Low", algo="fapo", verdict="first_error:max_tokens=64", judge=small_model(), updates=1)
    assert "other models " in train(*own, "--dry-run").out
    plain = train(*flags("Low", updates=1), "--dry-run").out
    assert "memory, about" in plain and "other models " not in plain


def test_a_recipe_without_verdicts_has_no_judge() -> None:
    judge = open_judge(Settings(env="x"), Recipe())
    judge.check(64)
    assert (judge.bytes, judge.description()) == (0, "")
    assert json.loads(json.dumps(asyncio.run(judge.during(asyncio.sleep(0, "done"))))) == "done"
    judge.close()
