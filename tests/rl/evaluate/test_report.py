"""The evaluation report: metrics of handmade records, and comparison."""

from __future__ import annotations

import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from envs.types import Message, Stop, ToolCall, assistant
from rl.evaluate.comparison import compare
from rl.evaluate.console import print_report
from rl.evaluate.report import Report
from rl.evaluate.statistics import wilson
from rl.evaluate.voting import final_reply
from rl.records import Group, Ticket, Trajectory
from tests.support.reports import E, N, Y, group, play, report, turn


def plain_text(result: Report) -> str:
    page = io.StringIO()
    print_report(result, console=Console(file=page, width=80))
    return page.getvalue()


def test_the_figures_of_three_tasks_are_those_worked_out_by_hand() -> None:
    result = report([Y, Y, Y, N], [Y, N, N, N], [N, N, N, N])
    assert (result.episodes, result.samples, result.errors) == (3, 4, 0)
    assert result.success.mean == pytest.approx(1 / 3)
    assert result.return_mean == pytest.approx(1 / 3)
    assert result.pass_at == pytest.approx({1: 1 / 3, 2: (1 + 1 / 2) / 3, 4: 2 / 3})
    assert result.pass_hat == pytest.approx({1: 1 / 3, 2: (3 / 6) / 3, 4: 0.0})
    assert result.cons_at == pytest.approx({1: 1 / 3, 2: 1 / 3, 4: 1 / 3})
    assert (result.turns_mean, result.tokens_mean) == (1.0, 3.0)
    assert result.metrics == {"strict": pytest.approx(1 / 3)}
    assert result.per_task[1].success == [Y, N, N, N]
    assert result.per_task[1].rewards == [1.0, 0.0, 0.0, 0.0]
    assert result.per_task[1].stop == ["terminated"] * 4


def test_errored_episodes_are_counted_and_never_scored() -> None:
    result = report([Y, E, E, N], [Y, Y, Y, Y], [E, E, E, E])
    assert result.errors == 6
    assert result.success.mean == pytest.approx((1 / 2 + 1) / 2)
    assert result.pass_at == pytest.approx({1: 0.75, 2: 1.0, 4: 1.0})
    assert result.pass_hat == pytest.approx({1: 0.75, 2: 0.5, 4: 1.0})  # k = 4 is left to the task with four samples
    assert [row.task for row in result.per_task] == ["test/0", "test/1", "test/2"]
    assert result.per_task[2].rewards == result.per_task[2].stop == []


def test_a_report_of_nothing_scored_has_no_numbers_and_no_nan(tmp_path: Path) -> None:
    result = report([E, E])
    assert result.success.mean is result.success.low is result.return_mean is result.pass_at[2] is None
    result.to_json(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert data["success"] == {"mean": None, "low": None, "high": None}
    assert Report.from_json(tmp_path / "r.json") == result


def test_a_reward_that_is_not_a_number_becomes_null(tmp_path: Path) -> None:
    group_with_nan = group(0, [Y, N])
    group_with_nan.trajectories[0].turns[-1].reward = float("nan")
    result = Report.from_groups([group_with_nan], env="e", policy="p", seed=0)
    assert result.return_mean is None
    result.to_json(tmp_path / "r.json")
    data = json.loads((tmp_path / "r.json").read_text(), parse_constant=pytest.fail)
    assert data["per_task"][0]["rewards"] == [None, 0.0]
    assert Report.from_json(tmp_path / "r.json") == result


def test_one_sample_per_task_has_wilsons_interval_and_several_have_the_bootstraps() -> None:
    single = report(*[[Y]] * 14, *[[N]] * 6)
    assert (single.success.low, single.success.high) == pytest.approx(wilson(14, 20))
    several = report(*[[Y] * 8] * 14, *[[N] * 8] * 6)
    assert several.success.mean == single.success.mean
    assert several.success.high is not None and several.success.low is not None
    width = several.success.high - several.success.low
    assert 0.3 < width < 0.45  # 160 episodes, but 20 tasks: as wide as 20 tosses
    assert width > 2 * (wilson(112, 160).high - wilson(112, 160).low)
    even = report(*[[Y, Y, N, N]] * 16, *[[Y, N, N, N], [Y, Y, Y, N]] * 2)
    assert even.success.high is not None and even.success.high < 0.6  # tasks alike: far tighter than 20 tosses


def test_perfect_results_keep_an_honest_interval() -> None:
    result = report(*[[Y, Y]] * 20)
    assert (result.success.low, result.success.high) == pytest.approx((0.839, 1.0), abs=5e-4)
    assert "return_mean" not in result.intervals  # equal returns without known bounds say nothing about the next


def test_what_a_success_costs_counts_the_failures_too() -> None:
    result = report(*[[Y, N]] * 6, *[[N, N]] * 4, [E, Y])
    assert result.tokens_per_solved == pytest.approx(3 * 21 / 7)
    assert result.turns_per_solved == pytest.approx(21 / 7)
    low, high = result.intervals["tokens_per_solved"]
    assert low < 9 and high is not None and high > 9
    assert report([N, N], [N, N]).tokens_per_solved is None
    rare = report(*[[N]] * 30, [Y])
    assert rare.intervals["tokens_per_solved"][1] is None  # perhaps it never succeeds: no bound


def test_invalid_replies_are_a_share_of_all_replies_of_an_episode() -> None:
    half = play("test/0", True, turns=4)
    half.turns[0].valid = half.turns[1].valid = False
    result = Report.from_groups(
        [Group(Ticket(0, 0, "test", 0, 2), [half, play("test/0", False, member=1)])], env="e", policy="p", seed=0
    )
    assert result.invalid_mean == 0.25


def test_reasons_to_stop_are_counted_with_their_successes_and_errors_apart() -> None:
    first, second = group(0, [Y, Y, N]), group(1, [N, E, E])
    first.trajectories[2].stop = second.trajectories[0].stop = Stop.TURN_LIMIT
    second.errored[0].error, second.errored[1].error = "OSError: disk", "OSError: no: disk"
    result = Report.from_groups([first, second], env="e", policy="p", seed=0)
    assert {stop: (e.episodes, e.success) for stop, e in result.stops.items()} == {
        "terminated": (2, 1.0),
        "turn_limit": (2, 0.0),
    }
    assert (result.errors, result.faults) == (2, {"OSError": 2})


def test_avg_at_k_is_over_complete_tasks_and_auc_at_k_between_the_chances() -> None:
    result = report([Y, N, N, N], [Y, Y, N, N], [Y, E, E, E])
    assert result.avg_at == {4: pytest.approx(3 / 8)}
    assert result.auc_at[1] == result.pass_at[1]
    at_2 = [0.75, 0.25 + 0.25, 5 / 6]  # of three tasks two have two samples
    assert result.auc_at[2] == pytest.approx(((1 / 4 + 1 / 2) / 2 + (1 / 2 + at_2[2]) / 2) / 2)


def test_a_vote_of_the_environments_own_joins_what_is_said_in_other_words() -> None:
    answers = ["It is 7.", "7", "8", "8"]
    trajectories = [play("test/0", "7" in text, member=m, answer=text) for m, text in enumerate(answers)]
    groups = [Group(Ticket(0, 0, "test", 0, 4), trajectories)]
    plain = Report.from_groups(groups, env="e", policy="p", seed=0)
    last_digit = lambda t: final_reply(t).strip(".")[-1]  # noqa: E731
    by_digit = Report.from_groups(groups, env="e", policy="p", seed=0, vote=last_digit)
    assert (plain.cons_at[4], by_digit.cons_at[4]) == pytest.approx((0.0, 0.5))


def test_order_of_arrival_changes_nothing() -> None:
    groups = [group(number, outcomes) for number, outcomes in enumerate([[Y, N, N], [N, N, Y], [Y, Y, N]])]
    shuffled_groups = [replace(g, trajectories=g.trajectories[::-1]) for g in (groups[2], groups[0], groups[1])]
    first, second = (Report.from_groups(g, env="e", policy="p", seed=3) for g in (groups, shuffled_groups))
    assert first == second


def test_groups_of_one_task_are_one_cluster() -> None:
    twice = [group(0, [Y, N]), replace(group(0, [Y, Y]), ticket=Ticket(1, 0, "test", seed=1, size=2))]
    result = Report.from_groups(twice, env="e", policy="p", seed=0)
    assert result.episodes == 2
    assert [row.success for row in result.per_task] == [[Y, N, Y, Y]]


def test_seats_of_a_shared_task_are_scored_apart() -> None:
    seats = []
    for number, agent in enumerate(("white", "black")):
        seat = group(0, [agent == "white"])
        seat.trajectories[0].agent = agent
        seats.append(replace(seat, ticket=Ticket(number, 0, "test", seed=0, size=1)))
    result = Report.from_groups(seats, env="e", policy="p", seed=0)
    assert {row.task: row.success for row in result.per_task} == {"test/0#white": [Y], "test/0#black": [N]}


def test_consensus_counts_equal_final_replies() -> None:
    answers = [("42", Y), (" 42\n", Y), ("7", N), ("9", N)]
    members = [play("test/0", success, member=m, turns=2, answer=reply) for m, (reply, success) in enumerate(answers)]
    result = Report.from_groups([Group(Ticket(0, 0, "test", 0, 4), members)], env="e", policy="p", seed=0)
    assert result.cons_at == pytest.approx({1: 0.5, 2: 0.5, 4: 1.0})
    assert result.turns_mean == 2.0
    unanimous = Report.from_groups(
        [Group(Ticket(0, 0, "test", 0, 4), members)], env="e", policy="p", seed=0, vote=lambda t: "same"
    )
    assert unanimous.cons_at[4] == pytest.approx(0.5)


def test_the_vote_is_the_text_and_the_calls_of_the_last_reply() -> None:
    call: ToolCall = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 1}'}}
    calling: Message = {"role": "assistant", "content": "", "tool_calls": [call]}
    blocks: Message = {"role": "assistant", "content": [{"type": "text", "text": " on  the left "}]}
    replies = [assistant("a \n b"), calling, blocks, assistant(" "), None]
    votes = [final_reply(Trajectory([turn(assistant("x")), turn(reply)], Stop.TERMINATED)) for reply in replies]
    assert votes == ["a b", 'add {"a": 1}', "on the left", None, None]
    assert final_reply(Trajectory([], Stop.TOKEN_LIMIT)) is None


def test_named_rewards_and_metrics_are_those_of_the_last_turn() -> None:
    first, last = turn(assistant("x"), strict=5.0), turn(assistant("y"), strict=1.0)
    last.rewards = {"format": 0.5}
    trajectory = Trajectory([first, last], Stop.TERMINATED, success=True, task="test/0")
    result = Report.from_groups([Group(Ticket(0, 0, "test", 0, 1), [trajectory])], env="e", policy="p", seed=0)
    assert result.metrics == {"format": 0.5, "strict": 1.0}


def test_single_samples_are_compared_by_the_exact_test_of_their_flips() -> None:
    old = report(*[[N]] * 8, *[[Y]] * 2, *[[Y]] * 5)
    new = report(*[[Y]] * 8, *[[N]] * 2, *[[Y]] * 5)
    result = compare(new, old)
    assert (result.paired_tasks, result.gains, result.losses, result.unpaired_tasks) == (15, 8, 2, 0)
    assert result.difference == pytest.approx(6 / 15)
    assert result.low < 6 / 15 < result.high
    assert (result.test, result.p_value) == ("exact McNemar", pytest.approx(2 * 56 / 1024))
    back = compare(old, new)
    assert (back.difference, back.p_value, back.gains) == (-result.difference, result.p_value, 2)


def test_several_samples_are_compared_by_task_means() -> None:
    old = report(*[[Y, N, N, N]] * 5, [Y, Y, Y, Y])
    new = report(*[[Y, Y, N, N]] * 5, [Y, N, N, N])
    result = compare(new, old)
    assert (result.test, result.gains, result.losses) == ("sign flips", 5, 1)
    assert result.difference == pytest.approx((5 * 1 - 3) / 4 / 6)
    signs = itertools.product([-1, 1], repeat=6)  # in quarters: five tasks of 1, one of 3, observed sum 2
    assert result.p_value == np.mean([abs(sum(s[:5]) + 3 * s[5]) >= 2 for s in signs])


def test_only_tasks_scored_on_both_sides_are_paired() -> None:
    result = compare(report([Y], [E], [Y], [N]), report([N], [Y], [E]))
    assert (result.paired_tasks, result.unpaired_tasks, result.difference) == (1, 3, 1.0)


def test_equal_results_show_no_difference_and_keep_a_margin() -> None:
    result = compare(report(*[[Y]] * 50), report(*[[Y]] * 50))
    assert (result.difference, result.p_value) == (0.0, 1.0)
    assert (result.low, result.high) == pytest.approx((-wilson(0, 50).high, wilson(0, 50).high))


@pytest.mark.parametrize(
    ("old", "complaint"),
    [
        (report([Y], seed=1), "seed is 0 here and 1 in the earlier result"),
        (replace(report([Y]), env_args={"size": 9}), "env argument size is 'default' here and 9 in the earlier result"),
        (
            replace(report([Y]), env_args={"style": "full"}),
            "env argument style is 'short' here and 'full' in the earlier result; add --env-arg style=full, or",
        ),
        (replace(report([Y]), env="math/Sum-v0"), "env is 'games/Guess-v0' here and 'math/Sum-v0'"),
        (replace(report([Y]), benchmark="gsm8k"), "benchmark is None here and 'gsm8k'"),
        (report([E]), "none of 1 scored tasks is among the 0 earlier ones"),
    ],
)
def test_results_that_cannot_be_paired_are_refused(old: Report, complaint: str) -> None:
    with pytest.raises(ValueError, match="cannot compare: " + complaint):
        compare(replace(report([Y]), env_args={}), old)


def test_arguments_that_an_older_result_does_not_tell_are_not_compared() -> None:
    assert compare(replace(report([Y]), env_args={"size": 9}), report([N])).gains == 1


def test_named_rewards_are_those_of_the_episode_and_metrics_those_of_its_last_turn() -> None:
    episodes = [play("test/0", True, turns=3), play("test/0", False, member=1, turns=2)]
    for episode in episodes:
        for number, one in enumerate(episode.turns):
            one.rewards = {"step": 0.5} if number == 0 else {"step": 0.25, "both": 9.0}
            one.metrics = {"calls": float(number), "both": 1.0}
    groups = [Group(Ticket(0, 0, "test", 0, 2), episodes)]
    result = Report.from_groups(groups, env="e", policy="p", seed=0)
    assert result.metrics == {"both": 1.0, "calls": (2 + 1) / 2, "step": (1.0 + 0.75) / 2}
    assert result.last_turn == ["both", "calls"]
    labels = [line.split("  ")[0] for line in plain_text(result).splitlines()]
    assert {"calls, last turn", "step"} <= {*labels} and "calls" not in labels
    assert report([Y], [N]).last_turn == []  # one turn is the whole episode


def test_a_named_reward_that_an_episode_lacks_is_0_within_its_environment_alone() -> None:
    groups = []
    for number, split in enumerate(("a:test", "a:test", "a:test", "b:test")):
        episode = play(f"{split[0]}:{number}", False, turns=2)
        if number in (0, 1):
            episode.turns[0].rewards, episode.turns[1].metrics = {"bonus": 1.0}, {"calls": 2.0}
        elif number == 3:
            episode.turns[0].rewards = {"other": 3.0}
        groups.append(Group(Ticket(number, number, split, 0, 1), [episode]))
    whole, one = (Report.from_groups(g, env="e", policy="p", seed=0) for g in (groups, groups[1:3]))
    assert one.metrics == {"bonus": 0.5, "calls": 2.0, "strict": 0.0}
    assert whole.metrics == {"bonus": pytest.approx(2 / 3), "calls": 2.0, "other": 3.0, "strict": 0.0}
