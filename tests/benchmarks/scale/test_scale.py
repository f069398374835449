"""The simulator of schedules: its clock, its engines, the reference table, and what it reads of real runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from benchmarks.scale import __main__ as scale
from benchmarks.scale.engines import Engines, Speed
from benchmarks.scale.measured import ALWAYS_ROOM, Reply, _fit, read_run
from benchmarks.scale.simulation import Load, Simulation
from benchmarks.scale.table import TABLE, simulate
from benchmarks.scale.virtual_time import Deadlock, run_virtual
from rl.cli import UserError
from rl.train.scheduling.plan import Plan
from tests.support.runs import flags, train_run


def test_time_passes_without_waiting_and_in_order() -> None:
    async def main() -> list[tuple[str, float]]:
        seen, loop = [], asyncio.get_running_loop()

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, loop.time()))

        await asyncio.gather(sleeper("day", 86400.0), sleeper("hour", 3600.0), sleeper("now", 0))
        return seen

    assert run_virtual(main()) == [("now", 0.0), ("hour", 3600.0), ("day", 86400.0)]


def test_a_wait_that_cannot_end_is_an_error() -> None:
    async def main() -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock):
        run_virtual(main())


def ends(speed: Speed, requests: list[tuple[float, int]], during: Any = None, sync: float = 0.0) -> list[float]:
    """The times at which these requests, (tokens, context), end on one engine; `during` is called with the engines."""

    async def main() -> list[float]:
        engines, loop = Engines(1, speed, sync, colocated=True), asyncio.get_running_loop()

        async def ask(number: int, tokens: float, context: int) -> float:
            await engines.sample(f"0/{number}", tokens, context)
            return loop.time()

        asked = [ask(number, *one) for number, one in enumerate(requests)]
        return (await asyncio.gather(*asked, *([during(engines)] if during else [])))[: len(asked)]

    return [round(end, 6) for end in run_virtual(main())]


def test_requests_share_slots_and_others_wait_their_turn() -> None:
    assert ends(Speed(2), [(10, 0), (4, 0), (5, 0)]) == [10, 4, 9]


def test_an_engine_is_slower_the_more_requests_it_has() -> None:
    # together until the shorter one has 4 tokens, at 1 + 2 * 0.5 a token; then 6 more at 1.5
    assert ends(Speed(8, step=1.0, row=0.5), [(10, 0), (4, 0)]) == [17, 8]


def test_new_weights_stop_an_engine_and_let_it_read_contexts_again() -> None:
    async def sync(engines: Engines) -> None:
        await asyncio.sleep(3)
        engines.sync_weights()

    # 3 tokens, 60 of loading, 7 tokens and the reading of 2000 at 0.001 each
    assert ends(Speed(2, prefill=0.001), [(10, 2000)], sync, sync=60) == [72]


@pytest.mark.parametrize(("name", "deviation"), [("partial, 2 x groups", 0.6), ("async, lag 2", 0.6)])
def test_a_run_of_one_seed_comes_near_the_reference_table(name: str, deviation: float) -> None:
    cell, outcome = TABLE[name, deviation], simulate(name, deviation, seeds=1, updates=24)
    assert outcome.throughput == pytest.approx(cell.throughput, rel=0.1)
    assert outcome.slot_use == pytest.approx(cell.slot_use, abs=0.04)
    assert outcome.lag_mean == pytest.approx(cell.lag_mean, abs=0.1)


def test_it_is_the_products_scheduler_that_is_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the spare groups in the product's plan are twice the lag in the simulation."""
    before = simulate("partial, 2 x groups", 0.6, seeds=1, updates=12).lag_mean
    monkeypatch.setattr(Plan, "num_spare", property(lambda plan: 2 * plan.groups))
    after = simulate("partial, 2 x groups", 0.6, seeds=1, updates=12).lag_mean
    assert (before, after) == (pytest.approx(1, abs=0.2), pytest.approx(2, abs=0.3))


@pytest.mark.long
@pytest.mark.parametrize(("name", "deviation"), list(TABLE))
def test_the_reference_table_is_reproduced(name: str, deviation: float) -> None:
    """Within 5 %, but for cells that wait for the longest of many groups, which vary by more from seed to seed."""
    cell, outcome = TABLE[name, deviation], simulate(name, deviation, seeds=12)
    waits = name in ("sync", "one-step-off") and deviation == 1.2
    assert outcome.throughput == pytest.approx(cell.throughput, rel=0.1 if waits else 0.05)
    assert outcome.slot_use == pytest.approx(cell.slot_use, abs=0.05)
    if cell.lag_mean is not None:
        assert outcome.lag_mean == pytest.approx(cell.lag_mean, abs=0.1)


def test_the_process_of_the_run_bounds_what_any_number_of_engines_can_do() -> None:
    def draw(rng: np.random.Generator, size: int) -> list[list[tuple[int, float]]]:
        return [[(4, 0.0)] * 2 for _ in range(size)]

    load = Load(draw, 0.0, 0.0, groups=50, size=4, speed=Speed(ALWAYS_ROOM), engines=50, turn=1.0)
    assert Simulation(load, {"mode": "sync"}, 4).run().throughput == pytest.approx(1 / 8, rel=0.05)  # 8 turns a group


def test_a_run_that_has_just_begun_is_slower_than_one_that_goes_on() -> None:
    """The first update of an asynchronous run waits for groups that later ones use."""

    def draw(rng: np.random.Generator, size: int) -> list[list[tuple[int, float]]]:
        return [[(4, float(rng.exponential(100)))] * 2 for _ in range(size)]

    load = Load(draw, 0.0, 0.0, groups=50, size=4, speed=Speed(ALWAYS_ROOM), engines=50, turn=1.0)
    outcomes = [Simulation(load, {"mode": "async"}, updates).run() for updates in (6, 24)]
    assert [one.steady for one in outcomes] == pytest.approx([1 / 8, 1 / 8], rel=0.05)  # 8 turns a group
    assert outcomes[0].throughput < 0.9 * outcomes[0].steady
    assert outcomes[1].throughput > 0.95 * outcomes[1].steady


def test_the_speed_of_an_engine_is_found_from_its_replies() -> None:
    """Backend of two lengths that begin together: first all of them are active, then the long ones."""
    step, row, overhead = 0.01, 0.002, 0.05
    few, many = 4, 12
    updates = []
    for long in (few, many):
        short_s = 10 * (step + row * (long + 8))
        long_s = short_s + 30 * (step + row * long)
        updates.append(
            [Reply(0.0, overhead + short_s, 10) for _ in range(8)] + [Reply(0.0, overhead + long_s, 40)] * long
        )
    speed, found = _fit(updates, 1)
    for active in (4, 12, 20):  # the mean over time of the active requests is not quite that over tokens
        assert speed.step + speed.row * active == pytest.approx(step + row * active, rel=0.15)
    assert found == pytest.approx(overhead, abs=0.05)


def test_a_real_run_is_read_and_simulated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = train_run(*flags("Talk", updates=3, mode="sync", eval_episodes=0), out=tmp_path / "base")
    other = train_run(
        *flags("Talk", updates=3, mode="partial", over_provision=2, eval_episodes=0), out=tmp_path / "other"
    )
    measured = read_run(base)
    assert len(measured.groups) == 6 and {len(group) for group in measured.groups} == {4}
    assert measured.speed.step >= 0 and measured.throughput > 0
    with pytest.raises(UserError, match="measured on a run with --mode sync"):
        read_run(other)
    words = ["--from", str(base), "--compare", str(other), "--engines", "1", "3", "--modes", "sync", "async"]
    assert scale.main([*words, "--seeds", "1", "--out", str(tmp_path / "scale.json")]) == 0
    found = json.loads((tmp_path / "scale.json").read_text())
    assert [one["run"] for one in found["real"]] == ["sync", "partial"]
    assert [(one["engines"], one["mode"], one["groups"]) for one in found["predicted"]] == [
        *((1, "sync", 2), (1, "async", 2)),
        *((3, "sync", 6), (3, "async", 6)),
    ]
    assert "3 engines, async" in capsys.readouterr().out


SLOW_AND_FAST = (1.0, 4.0)  # times as long as a step of the first engine takes


@pytest.mark.parametrize("schedule", [{"mode": "sync"}, {"mode": "one-step-off"}, {"mode": "async", "max_lag": 10**6}])
def test_a_slow_engine_beside_a_fast_one_disfavours_no_long_episode(schedule: dict[str, Any]) -> None:
    """Two-sample Kolmogorov-Smirnov of the lengths of groups: those trained on after the first updates, and all."""
    lengths = np.random.default_rng(3).lognormal(5.0, 1.0, 4000).astype(int) + 1
    drawn = iter(lengths.tolist())  # tickets are played in the order in which they are opened

    def draw(rng: np.random.Generator, size: int) -> list[Any]:
        return [[(next(drawn), 0.0)]] * size

    load = Load(draw, 100.0, 1.0, groups=8, size=4, speed=Speed(32), engines=2, slowness=SLOW_AND_FAST)
    run = Simulation(load, schedule, updates=120)
    run.run()
    numbers = [number for update in run.numbers[10:] for number in update]
    assert len(set(numbers)) == len(numbers) == 110 * 8
    trained, admitted = lengths[numbers], lengths[80 : 120 * 8]
    assert stats.ks_2samp(trained, admitted).pvalue > 0.01
    assert np.mean(trained) == pytest.approx(np.mean(admitted), rel=0.05)


def test_a_slow_engine_costs_what_it_is_slower_and_gets_fewer_groups() -> None:
    """Of a group each: the slow engine gets its next one when it has ended the last."""

    def draw(rng: np.random.Generator, size: int) -> list[Any]:
        return [[(100, 0.0)]] * size

    def groups_per_time(slowness: tuple[float, ...]) -> float:
        load = Load(draw, 0.0, 0.0, groups=10, size=1, speed=Speed(1), engines=2, slowness=slowness)
        return Simulation(load, {"lag": 2, "overlap": True, "order": "completion"}, updates=40).run().throughput

    alike, uneven = groups_per_time((1.0, 1.0)), groups_per_time(SLOW_AND_FAST)
    assert alike == pytest.approx(2 / 100, rel=0.05)
    assert uneven == pytest.approx(1.25 / 100, rel=0.1)
