"""Test-time strategies: their choices, their costs and their gain."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import pytest

from envs.env import Env
from envs.suite import Suite
from envs.types import Message, Messages, Outcome, Stop, Task, assistant, text, user
from rl import cli
from rl.evaluate import __main__ as evaluate
from rl.evaluate import strategies
from rl.evaluate.attempts import Choice, cost, make_choice
from rl.evaluate.metrics import trajectories_by_task
from rl.evaluate.report import Report
from rl.evaluate.runner import SCRIPTS, evaluate_script
from rl.evaluate.strategies import (
    BestOf,
    Listwise,
    Majority,
    Sequential,
    StrategyContext,
    apply_strategy,
    widen_tickets,
    with_rounds,
)
from rl.evaluate.strategies.gains import Gain
from rl.evaluate.strategies.listwise import ChoiceEnv, transcript
from rl.evaluate.strategies.strategy import MakeEnv, Strategy
from rl.evaluate.voting import final_reply
from rl.records import Completion, Group, Ticket, Trajectory, Turn


class Digit(Env):
    """Ten tasks; the right reply is the task's own digit. With `tries`, wrong replies may be repeated."""

    def __init__(self, *, tries: int = 1, **limits: object) -> None:
        super().__init__(max_turns=tries, **limits)

    def tasks(self, split: str) -> list[Task]:
        return [Task(f"{split}/{i}", (user(f"digit {i}?"),), str(i)) for i in range(10)]

    def start(self) -> Messages:
        self.luck = int(self.np_random.integers(1000))
        return (user(f"{text(self.task.prompt[0])} luck {self.luck}"),)

    def reply(self, action: Message) -> Outcome:
        success = text(action) == self.task.answer
        return Outcome((user("no"),) if not success else (), float(success), success or self.max_turns == 1, success)

    def oracle(self) -> Iterator[Message]:
        yield assistant(self.task.answer)


def play(task: int, reply: str, member: int, logprob: float = -1.0, tokens: int = 2) -> Trajectory:
    """One reply in `Digit`."""
    completion = Completion((7,) * tokens, (logprob,) * tokens, (logprob,) * tokens, (0,) * tokens)
    success = reply == str(task)
    turn = Turn((1,), completion, (user(f"digit {task}?"),), assistant(reply), reward=float(success))
    return Trajectory([turn], Stop.TERMINATED, success, f"test/{task}", member=member)


def group(task: int, replies: Sequence[str | None], logprobs: Sequence[float] = ()) -> Group:
    """Samples of one task; None is one that failed."""
    each = list(logprobs) or [-1.0] * len(replies)
    trajectories = [play(task, r, m, p) for m, (r, p) in enumerate(zip(replies, each, strict=True)) if r is not None]
    failures = [Trajectory([], Stop.ERROR, member=m, error="down: x") for m, r in enumerate(replies) if r is None]
    return Group(Ticket(task, task, "test", task, len(replies)), trajectories, failures)


def choose(strategy: Strategy, *groups: Group) -> list[Group]:
    return asyncio.run(apply_strategy(strategy, groups, StrategyContext(final_reply)))


def replies(result: Group) -> list[str]:
    return [text(t.turns[-1].reply) for t in result.trajectories if t.turns[-1].reply]


def with_script(strategy: Strategy, script: str, tickets: Sequence[Ticket], make_env: MakeEnv = Digit) -> list[Group]:
    """Play the strategy in full, by a scripted policy."""
    full = with_rounds(strategy, make_env)

    async def all_rounds() -> list[Group]:
        first = await evaluate_script(full, SCRIPTS[script], widen_tickets(strategy, tickets))
        context = StrategyContext(final_reply, partial(evaluate_script, full, SCRIPTS[script]))
        return await apply_strategy(strategy, first, context)

    return asyncio.run(all_rounds())


TICKETS = [Ticket(i, i, "test", 100 + i, 2) for i in range(10)]


def test_words_are_read_and_written_back() -> None:
    assert strategies.parse("best_of:n=4,scorer=logprob") == BestOf(4, "logprob")
    assert strategies.parse("majority") == Majority(8)
    for strategy in (BestOf(3), Majority(5), Listwise(4, orders=3, chars=10), Sequential(2, "logprob", -0.5)):
        assert strategies.parse(strategies.format_spec(strategy)) == strategy


@pytest.mark.parametrize(
    ("word", "complaint"),
    [
        ("best-of:n=4", "--strategy best-of: unknown; did you mean 'best_of'?"),
        ("vote", "--strategy vote: unknown; choose from best_of, majority, listwise, sequential"),
        ("best_of:k=4", "--strategy best_of: no option 'k'; it takes n, scorer"),
        ("majority:n=0", "n='0' is not a whole number of at least 1"),
        ("best_of:scorer=judge", "scorer='judge' is none of env, logprob"),
    ],
)
def test_a_wrong_word_is_named_with_the_right_ones(word: str, complaint: str) -> None:
    with pytest.raises(ValueError, match="strategy") as error:
        strategies.parse(word)
    assert complaint in str(error.value)


def test_the_best_by_the_verdict_wins_if_any_does_and_is_called_an_upper_bound() -> None:
    (result,) = choose(BestOf(3), group(4, ["1", "4", "4", "5", "6", "7"]))
    assert [t.success for t in result.trajectories] == [True, False]
    assert replies(result) == ["4", "5"]  # of equals the earliest
    assert BestOf(3).upper_bound and not BestOf(3, "logprob").upper_bound


def test_the_best_by_log_probability_may_be_wrong() -> None:
    (result,) = choose(BestOf(3, "logprob"), group(4, ["4", "5", "6"], [-0.9, -0.1, -0.5]))
    assert replies(result) == ["5"] and not result.trajectories[0].success


def test_replies_without_log_probabilities_cannot_be_scored_by_them() -> None:
    bare = group(4, ["4", "5"])
    for trajectory in bare.trajectories:
        trajectory.turns[0].completion = Completion((), (), (), ())
    with pytest.raises(ValueError, match="scorer=logprob needs the log-probabilities"):
        choose(BestOf(2, "logprob"), bare)


def test_the_majority_wins_and_of_a_tie_the_answer_that_came_first() -> None:
    first, second, third = choose(
        Majority(4), group(3, ["1", "3", "3", "9"]), group(4, ["5", "4", "4", "5"]), group(5, ["", "", "", "5"])
    )
    assert (replies(first), replies(second), replies(third)) == (["3"], ["5"], ["5"])
    assert not any(t.fallback for t in (*first.trajectories, *third.trajectories))  # type: ignore[attr-defined]
    (silent,) = choose(Majority(2), group(0, ["", ""]))
    assert silent.trajectories[0].fallback  # type: ignore[attr-defined]


def test_an_attempt_chooses_among_what_did_not_fail_and_one_without_any_is_an_error() -> None:
    (result,) = choose(BestOf(2), group(1, [None, "1", None, None]))
    assert [(t.member, t.success) for t in result.trajectories] == [(0, True)]
    assert [(t.member, t.error) for t in result.errored] == [(1, "down: x")]
    assert result.ticket.size == 2


def test_recorded_samples_of_another_number_are_used_up() -> None:
    (result,) = choose(BestOf(4), group(1, ["2", "1", "3", "3", "4"]))
    assert [len(t.candidates) for t in result.trajectories] == [4, 1]  # type: ignore[attr-defined]
    assert [t.success for t in result.trajectories] == [True, False]


def test_a_choice_costs_all_its_candidates_and_its_judges() -> None:
    (result,) = choose(BestOf(3), group(1, ["1", "2", "3"]))
    assert cost(result.trajectories[0]) == (3, 6)
    judge = play(0, "1", 0, tokens=5)
    choice = result.trajectories[0]
    assert isinstance(choice, Choice)
    choice.judgements = (judge, judge)
    assert cost(choice) == (5, 16)
    report = Report.from_groups([result], env="e", policy="p", seed=0)
    assert (report.turns_mean, report.tokens_mean, report.per_task[0].turns) == (5, 16, [5])
    assert (report.turns_per_solved, report.tokens_per_solved) == (5, 16)


def test_the_oracle_chooses_a_right_answer_wherever_there_is_one_and_noop_the_first() -> None:
    problem = Task("choose/0", (user("which?"),), [2], {"answers": 3})
    outcomes = {}
    for reply in ("1", "2", "The best is 2.", "4", "", "1 or 2"):
        env = ChoiceEnv([problem])
        env.reset(seed=0, options={"split": "test", "index": 0})
        *_, info = env.step(reply)
        outcomes[reply] = (info["success"], info["valid"], info["metrics"]["choice"])
    assert outcomes["2"] == outcomes["The best is 2."] == (True, True, 2.0)
    assert outcomes["1"] == (False, True, 1.0)
    assert outcomes["4"] == outcomes[""] == outcomes["1 or 2"] == (False, False, 0.0)


def test_a_listwise_prompt_shows_the_task_and_every_answer_in_both_orders_cut_from_the_front() -> None:
    strategy = Listwise(3, chars=6)
    prompts: list[str] = []

    async def judge(tickets: Sequence[Ticket]) -> list[Group]:
        suite = with_rounds(strategy, Digit)()
        result = []
        for ticket in tickets:
            (message,), _ = suite.reset(seed=0, options={"split": ticket.split, "index": ticket.index})
            prompts.append(text(message))
            place = (
                text(message)
                .split("Answer ")[1:]
                .index(next(a for a in text(message).split("Answer ")[1:] if "so: 4" in a))
            )
            *_, info = suite.step(str(place + 1))
            turn = Turn((), Completion((), (), (), ()), (message,), assistant("x"), metrics=info["metrics"])
            result.append(Group(ticket, [Trajectory([turn], Stop.TERMINATED, info["success"])]))
        return result

    samples = group(4, ["1", "so: 4", "a long way to say that it is 5"])
    samples.trajectories[1].success = True
    (result,) = asyncio.run(apply_strategy(strategy, [samples], StrategyContext(final_reply, judge)))
    assert replies(result) == ["so: 4"] and result.trajectories[0].success
    assert len(prompts) == 2 and all(prompt.startswith("digit 4?\n\nAnswer 1:\n") for prompt in prompts)
    assert all("\nt is 5\n" in prompt and "long way" not in prompt for prompt in prompts)
    orders = [[part.split("\n")[1] for part in prompt.split("Answer ")[1:]] for prompt in prompts]
    assert orders[0] == orders[1][::-1]


def test_listwise_choice_works_with_any_policy_and_says_where_it_could_not_read_one() -> None:
    result = with_script(Listwise(3), "random", TICKETS)
    assert all(len(t.judgements) == 2 for g in result for t in g.trajectories)  # type: ignore[attr-defined]
    silent = with_script(Listwise(2), "noop", TICKETS)
    assert all(t.fallback for g in silent for t in g.trajectories)  # type: ignore[attr-defined]
    assert all(t.success for g in with_script(Listwise(2), "oracle", TICKETS) for t in g.trajectories)


def test_what_is_judged_is_the_reply_or_the_dialogue_after_its_opening() -> None:
    assert transcript(play(1, "one", 0)) == "one"
    long = play(1, "one", 0)
    long.turns.append(Turn((), Completion((), (), (), ()), (user("no"),), assistant("two")))
    long.final = (user("over"),)
    assert transcript(long) == "assistant: one\nuser: no\nassistant: two\nuser: over"


def play_revisions(
    strategy: Sequential, make_env: MakeEnv, tries: dict[int, list[str]]
) -> tuple[list[Group], list[Messages]]:
    """Play `strategy` with the replies `tries[i]` on task i; return the groups and the first messages of each episode."""
    full = with_rounds(strategy, make_env)
    openings: list[Messages] = []
    rounds = {task: iter(replies) for task, replies in tries.items()}

    async def round_of(tickets: Sequence[Ticket]) -> list[Group]:
        suite, groups = full(), []
        for ticket in tickets:
            opening, info = suite.reset(seed=ticket.seed, options={"split": ticket.split, "index": ticket.index})
            openings.append(opening)
            task = int(info["task"].rpartition("/")[2])
            trajectory = Trajectory([], Stop.TERMINATED, task=info["task"], seed=ticket.seed)
            terminated = truncated = False
            messages = opening
            while not (terminated or truncated):
                reply = assistant(next(rounds[task]))
                obs, reward, terminated, truncated, info = suite.step(reply)
                trajectory.turns.append(Turn((), Completion((), (), (), ()), messages, reply, reward))
                messages = obs
            trajectory.success, trajectory.final = info["success"], messages
            groups.append(Group(ticket, [trajectory]))
        return groups

    async def all_rounds() -> list[Group]:
        first = await round_of(widen_tickets(strategy, [Ticket(i, i, "test", 7, 1) for i in tries]))
        return await apply_strategy(strategy, first, StrategyContext(final_reply, round_of))

    return asyncio.run(all_rounds()), openings


def test_a_revision_shows_the_attempt_and_starts_from_the_same_state_and_the_last_one_counts() -> None:
    result, openings = play_revisions(Sequential(3), Digit, {0: ["5", "0", "6"], 1: ["1", "1", "1"]})
    assert [g.trajectories[0].success for g in result] == [False, True]
    assert [len(g.trajectories[0].candidates) for g in result] == [3, 3]  # type: ignore[attr-defined]
    opening, *later = [messages for messages in openings if "digit 0?" in text(messages[0])]
    second, third = later
    assert second[:2] == (*opening, assistant("5")) and opening[0] == third[0]  # the same luck: the same seed
    assert text(second[2]) == "no\nCheck your answer, then answer again."
    assert third[:4] == (*second, assistant("0")) and len(third) == 5
    gain = Gain.from_tasks(Sequential(3), "s", trajectories_by_task(result), final_reply)
    assert gain is not None
    assert {k: point.success for k, point in gain.curve.items()} == {1: 0.5, 2: 1.0, 3: 0.5}
    assert (gain.one, gain.any, gain.success, gain.efficiency) == (0.5, 1.0, 0.5, 0.0)


def test_with_the_verdict_only_failures_are_revised_and_told_so() -> None:
    result, openings = play_revisions(Sequential(3, "env"), Digit, {0: ["5", "0"], 1: ["1"], 2: ["3", "4", "5"]})
    assert [g.trajectories[0].success for g in result] == [True, True, False]
    assert [len(g.trajectories[0].candidates) for g in result] == [2, 1, 3]  # type: ignore[attr-defined]
    assert all("That was wrong. Check your answer" in text(messages[-1]) for messages in openings[3:])


def test_an_attempt_of_several_turns_is_begun_again_with_its_opening() -> None:
    _, openings = play_revisions(Sequential(2), partial(Digit, tries=2), {3: ["1", "2", "3"]})
    first, second = openings
    assert [m["role"] for m in second] == ["user", "assistant", "user", "assistant", "user"]
    assert text(second[-1]) == f"no\nTry again from the start.\n{text(first[0])}"


def test_sure_attempts_are_kept_and_unsure_ones_revised() -> None:
    strategy = Sequential(2, "logprob", below=-0.5)
    sure, unsure = group(1, ["1"], [-0.1]), group(2, ["1"], [-0.9])

    async def again(tickets: Sequence[Ticket]) -> list[Group]:
        return [Group(ticket, [play(2, "2", 0)]) for ticket in tickets]

    first, second = asyncio.run(apply_strategy(strategy, [sure, unsure], StrategyContext(final_reply, again)))
    assert [len(g.trajectories[0].candidates) for g in (first, second)] == [1, 2]  # type: ignore[attr-defined]
    assert second.trajectories[0].success


def test_recorded_episodes_are_not_enough_for_a_strategy_of_several_rounds() -> None:
    for strategy in (Listwise(2), Sequential(2)):
        with pytest.raises(ValueError, match="recorded episodes are not enough"):
            choose(strategy, group(1, ["1", "2"]))


def test_rounds_leave_the_environments_own_tasks_and_names_alone() -> None:
    suite = with_rounds(Sequential(2), Digit)()
    assert isinstance(suite, Suite)
    _, info = suite.reset(seed=0, options={"split": "test", "index": 3})
    assert info["task"] == "test/3"
    assert with_rounds(BestOf(2), Digit) is Digit


def test_the_gain_lies_between_one_episode_and_the_best_of_all() -> None:
    strategy = Majority(4)
    result = choose(
        strategy, group(3, ["3", "3", "1", "2"]), group(4, ["5", "4", "5", "6"]), group(5, ["1", "1", "2", "2"])
    )
    gain = Gain.from_tasks(strategy, "majority:n=4", trajectories_by_task(result), final_reply)
    assert gain is not None
    assert (gain.success, gain.one, gain.any) == pytest.approx((1 / 3, 1 / 4, 2 / 3))
    assert gain.efficiency == pytest.approx((1 / 3 - 1 / 4) / (2 / 3 - 1 / 4))
    assert {k: point.tokens for k, point in gain.curve.items()} == {1: 2, 2: 4, 4: 8}
    assert (gain.curve[1].success, gain.curve[4].success) == pytest.approx((gain.one, gain.success))


def test_tokens_of_k_episodes_are_those_of_any_k_and_in_a_sequence_of_the_first_k() -> None:
    lengths = (8, 2, 2, 4)
    episodes = [play(3, "3", member, tokens=tokens) for member, tokens in enumerate(lengths)]
    for strategy, expected in ((Majority(4), {1: 4, 2: 8, 4: 16}), (Sequential(4), {1: 8, 2: 10, 4: 16})):
        choice = make_choice(episodes[0], 0, tuple(episodes))
        gain = Gain.from_tasks(strategy, "", {"test/3": [choice]}, final_reply)
        assert gain is not None
        assert {k: point.tokens for k, point in gain.curve.items()} == expected


def test_the_command_prints_and_stores_what_a_strategy_bought(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    flags = ["--env", f"{__file__}:Digit", "--policy", "oracle", "--strategy", "best_of:n=2", "--samples", "2"]
    with pytest.raises(SystemExit) as stop:
        cli.run(partial(evaluate.main, [*flags, "--json", str(tmp_path / "r.json")]))
    out = capsys.readouterr().out
    assert not stop.value.code
    assert "the environment's own verdict: an upper bound" in " ".join(out.split())
    fields = json.loads((tmp_path / "r.json").read_text())
    assert fields["strategy"]["strategy"] == "best_of:n=2,scorer=env"
    assert (fields["samples"], fields["turns_mean"], fields["strategy"]["upper_bound"]) == (2, 2, True)
    assert Report.from_json(tmp_path / "r.json").strategy.curve[2].success == 1.0
