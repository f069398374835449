"""Printing of reports: on a terminal, and to a pipe of 80 columns."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console

from envs.types import Stop
from rl.evaluate.comparison import compare
from rl.evaluate.console import print_report
from rl.evaluate.report import Report
from rl.evaluate.runner import sampling_record
from rl.evaluate.seats.results import PairRow, SeatResults, SeatRow
from rl.evaluate.statistics import Estimate
from rl.prompt_options import PromptOptions
from rl.records import Group, SamplingParams, Ticket, Trajectory


def make_report(*tasks: Sequence[bool], errors: int = 0, policy: str = "random") -> Report:
    groups = []
    for number, outcomes in enumerate(tasks):
        task = f"test/{number}"
        trajectories = [
            Trajectory([], Stop.TERMINATED, success=success, task=task, member=m) for m, success in enumerate(outcomes)
        ]
        failures = [Trajectory([], Stop.ERROR, task=task) for _ in range(errors if number == 0 else 0)]
        groups.append(
            Group(Ticket(number, number, "test", seed=0, size=len(outcomes) + len(failures)), trajectories, failures)
        )
    return Report.from_groups(groups, env="games/Guess-v0", policy=policy, seed=0)


def render(report: Report, old: Report | None = None, width: int = 80, **terminal: Any) -> str:
    page = io.StringIO()
    print_report(
        report, compare(report, old) if old else None, Console(file=page, width=width, highlight=False, **terminal)
    )
    return page.getvalue()


Y, N = True, False


def test_off_a_terminal_the_result_is_plain_ascii_within_80_columns() -> None:
    policy = "openai:some-organisation/a-model-with-a-long-name-4B-Instruct@http://[::1]:8000/v1/and/more"
    text = render(make_report(*[[Y] * 8] * 31, errors=4, policy=policy), make_report(*[[N] * 8] * 40))
    assert text.isascii() and "\x1b" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert policy in text.replace("\n", "").replace(" ", "")
    for expected in (
        "31 tasks x up to 12 samples, 248 episodes scored, seed 0",
        "4 left out",
        "pass^k",
        "31 gained, 0 lost",
        "p < 0.001",
        "better",
    ):
        assert expected in text


def test_figures_and_intervals_stand_on_the_line_of_their_name() -> None:
    lines = [line.split() for line in render(make_report(*[[Y]] * 14, *[[N]] * 6)).splitlines()]
    assert ["success", "70.0%", "48.1", "to", "85.5"] in lines
    assert ["tokens", "0.000"] in lines
    assert not any("pass@k" in line for line in lines)  # one sample leaves no k to choose


def test_a_wide_table_of_chances_keeps_every_digit() -> None:
    lines = render(make_report(*[[Y] * 128] * 40)).splitlines()
    row = next(line for line in lines if line.startswith("128 "))
    assert len(row.rstrip()) <= 80
    assert row.split()[1:9] == ["100.0%", "91.2", "to", "100.0"] * 2


@pytest.mark.parametrize("is_team", [False, True])
def test_figures_of_seats_with_long_names_stand_on_one_line(is_team: bool) -> None:
    share, mean = Estimate(0.525, 0.321, 0.713), Estimate(-0.125, -0.331, -0.071)
    first, second = "abcdefghijklmnop", "qrstuvwxyzabcdef"
    seats = [SeatRow(first, second, 20000, share, mean), SeatRow(second, first, 20000, share, mean)]
    pairs = [PairRow(first, second, 40000, share, mean), PairRow(second, first, 40000, share, mean)]
    results = SeatResults(is_team, seats, pairs, {name: Estimate(10.0, -99.0, 99.0) for name in (first, second, "c")})
    text = render(replace(make_report([Y], [N]), seats=results))
    assert max(map(len, text.splitlines())) <= 80
    assert len(re.findall(r"0000 +52\.5% +32\.1 to 71\.3 +-0\.125 +-0\.331 to -0\.071$", text, re.MULTILINE)) == 4


@pytest.mark.parametrize("width", [30, 50, 58, 60, 66, 80])
def test_tables_of_seats_hold_every_digit_and_name_at_any_width(width: int) -> None:
    share, mean = Estimate(0.525, 0.321, 0.713), Estimate(-0.125, -0.331, -0.071)
    seats = [SeatRow("player_0", "against_1", 20000, share, mean)]
    pairs = [PairRow("abcdef", "uvwxyz", 40000, share, mean), PairRow("uvwxyz", "abcdef", 40000, share, mean)]
    results = SeatResults(
        False, seats, pairs, {name: Estimate(10.0, -99.0, 99.0) for name in ("abcdef", "uvwxyz", "c")}
    )
    report = make_report([Y], [N])
    text = render(replace(report, seats=results), width=width)
    assert max(map(len, text.splitlines())) <= width

    def letters(width: int) -> Counter[str]:
        whole, rest = render(replace(report, seats=results), width=width), render(report, width=width)
        return Counter("".join(whole.split())) - Counter("".join(rest.split()))

    assert letters(width) == letters(200)
    is_on_one_line = [line.endswith("-0.331 to -0.071") for line in text.splitlines() if line.startswith("player_0")]
    assert any(is_on_one_line) == (width == 80)


def test_a_terminal_gets_styles_and_the_same_words() -> None:
    report = make_report([Y, N], [N, N])
    styled_text, plain_text = render(report, force_terminal=True, color_system="standard"), render(report)
    assert "\x1b[1m" in styled_text
    assert all(word in styled_text for word in plain_text.split())


def test_each_verdict_is_said_in_words() -> None:
    good, bad = make_report(*[[Y]] * 12), make_report(*[[N]] * 12)
    verdicts = [render(*pair).splitlines()[-1].split() for pair in ((good, bad), (bad, good), (good, good))]
    assert verdicts == [["verdict", "better"], ["verdict", "worse"], ["verdict", "no", "difference", "shown"]]


def test_tasks_with_unequal_numbers_of_samples_are_said_where_k_is_chosen() -> None:
    result = make_report(*[[Y]] * 4, *[[Y, N, N, N]] * 2)
    assert result.tasks_at == {1: 6, 2: 2, 4: 2} and result.avg_at == {4: 0.25}
    text = render(result)
    assert "6 tasks x up to 4 samples, 12 episodes scored, seed 0\n" in text and "avg@" not in text
    lines = [line.split() for line in text.splitlines()]
    assert ["success", "75.0%"] in [line[:2] for line in lines]
    assert ["k", "tasks", "pass@k"] in [line[:3] for line in lines]
    for row in (["1", "6", "75.0%"], ["2", "2", "50.0%"], ["4", "2", "100.0%"]):
        assert row in [line[:3] for line in lines]
    for other in (make_report(*[[Y, N]] * 6), replace(result, tasks_at={})):  # all tasks at each k; an older result
        assert ["k", "pass@k"] in [line.split()[:2] for line in render(other).splitlines()]
    wide = render(make_report(*[[Y] * 128] * 40, *[[Y]] * 9))
    row = next(line for line in wide.splitlines() if line.startswith("128 "))
    assert row.split()[1:3] == ["40", "100.0%"] and row.rstrip().endswith("100.0%") and len(row.rstrip()) <= 80


def test_in_seats_the_table_counts_seats_and_an_older_result_its_results_by_seat() -> None:
    older = replace(make_report([Y, N], [Y], [N, N], errors=1), seats=SeatResults(False, []))
    text = render(older)
    assert "3 tasks x up to 3 samples, 5 results by seat scored" in text
    assert ["k", "seats", "pass@k"] in [line.split()[:3] for line in text.splitlines()]


def test_nothing_scored_prints_dashes() -> None:
    lines = [line.split() for line in render(make_report([], errors=2)).splitlines()]
    assert ["success", "-"] in lines and ["return", "-"] in lines
    assert ["1", "-", "-", "-", "-"] in lines


def test_how_replies_were_sampled_is_shown_and_so_is_what_differs_from_an_earlier_result() -> None:
    settings = {"temperature": 0.0, "top_p": 1.0, "top_k": 0, "turn_tokens": 24, "max_tokens": 512}
    other = {**settings, "temperature": 1.0, "system": "Be brief.", "template_args": {"enable_thinking": False}}
    new, old = (replace(make_report([Y], [N]), sampling=one) for one in (settings, other))
    text = render(new, old)
    assert "sampled    greedily, at most 24 tokens a reply, 512 tokens an episode\n" in text
    assert "temperature 0 here, 1 there" in text and "a system prompt there only" in text
    assert "template args not set here, enable_thinking=false there" in " ".join(text.split())
    words = "at temperature 1, at most 24 tokens a reply, 512 tokens an episode, with a system prompt, enable_thinking=false"
    assert words in " ".join(render(old).split())
    assert "differs in" not in render(new, new) + render(new, make_report([Y], [N]))  # an older result does not say


def test_fields_of_requests_stand_for_what_they_replace() -> None:
    params, prompts = SamplingParams(4096, 0.0), PromptOptions()
    fields = ["temperature=null", "max_tokens=null", "max_completion_tokens=8192", "top_k=all"]
    record = sampling_record(params, None, prompts, fields)
    usual = {"top_p": 1.0, "turn_tokens": 8192, "max_tokens": None}
    assert record == {**usual, "api_args": {"temperature": None, "top_k": "all"}}
    report = replace(make_report([Y], [N]), sampling=record)
    text = " ".join(render(report, replace(report, sampling=sampling_record(params, 512, prompts))).split())
    assert 'sampled at most 8192 tokens a reply, temperature=null, top_k="all" success' in text.replace(
        "mean 95% interval ", ""
    )
    assert "max tokens without a limit here, 512 there" in text and "temperature not set here, 0 there" in text


def test_a_field_of_requests_and_the_flag_of_the_same_value_are_one_way_to_sample() -> None:
    prompts, plain = PromptOptions(), make_report([Y], [N])
    fields = ["temperature=0.9", "top_p=0.5", "top_k=20", "max_completion_tokens=64"]
    by_fields = sampling_record(SamplingParams(4096, 0.0), None, prompts, fields)
    by_flags = sampling_record(SamplingParams(64, 0.9, 0.5, 20), None, prompts)
    assert by_fields == by_flags
    text = render(replace(plain, sampling=by_fields), replace(plain, sampling=by_flags))
    assert "differs in" not in text and "sampled    at temperature 0.9, top-p 0.5, top-k 20, at most 64 tokens" in text
    older = {"turn_tokens": 64, "max_tokens": None, "api_args": {"temperature": 0.9, "top_p": 0.5, "top_k": 20}}
    for pair in ((older, by_flags), (by_fields, older)):
        assert "differs in" not in render(*(replace(plain, sampling=one) for one in pair))
    assert "temperature 0.9 here, 0 there" in render(*(replace(plain, sampling=s) for s in (older, {"temperature": 0})))


def test_fields_of_requests_that_say_no_limit_or_the_same_twice_stay_fields() -> None:
    def record(*fields: str) -> dict[str, Any]:
        return sampling_record(SamplingParams(4096, 0.0), None, PromptOptions(), fields)

    no_limit = record("top_k=-1", "repetition_penalty=1")
    assert "top_k" not in no_limit and no_limit["api_args"] == {"top_k": -1, "repetition_penalty": 1}
    assert record("top_k=0")["api_args"] == {"top_k": 0}
    twice = record("max_tokens=10", "max_completion_tokens=20")
    assert "turn_tokens" not in twice and twice["api_args"] == {"max_tokens": 10, "max_completion_tokens": 20}
    both = [replace(make_report([Y], [N]), sampling=one) for one in (record("top_k=-1"), record())]
    assert "api args top_k=-1 here, not set there" in " ".join(render(*both).split())


@pytest.mark.parametrize("name", ["temperature", "top_p", "top_k", "max_tokens"])
def test_a_result_is_printed_also_where_a_field_of_requests_removes_how_replies_are_sampled(name: str) -> None:
    record = sampling_record(SamplingParams(4096, 0.0), None, PromptOptions(), [f"{name}=null"])
    assert f"{name}=null" in " ".join(render(replace(make_report([Y], [N]), sampling=record)).split())
