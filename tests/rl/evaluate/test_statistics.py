"""The statistics of an evaluation against brute force, published values and simulated coverage."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Sequence
from fractions import Fraction
from math import isnan

import numpy as np
import pytest
from scipy import stats as reference

from rl.evaluate.statistics import (
    Interval,
    auc_at_k,
    best_of_k,
    cluster_bootstrap,
    holm,
    mcnemar,
    mean_interval,
    pass_at_k,
    pass_hat_k,
    ratio_interval,
    sign_flip,
    wilson,
)
from rl.evaluate.voting import cons_at_k


def share_of_subsets(n: int, c: int, k: int, wins) -> Fraction:
    subsets = list(itertools.combinations([1] * c + [0] * (n - c), k))
    return Fraction(sum(wins(subset) for subset in subsets), len(subsets))


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_pass_at_k_and_pass_hat_k_equal_the_share_of_all_subsets(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        assert pass_at_k(n, c, k) == float(share_of_subsets(n, c, k, any))
        assert pass_hat_k(n, c, k) == float(share_of_subsets(n, c, k, all))


def test_pass_at_k_of_four_successes_in_sixteen_has_the_published_values() -> None:
    assert [round(pass_at_k(16, 4, k), 4) for k in (1, 2, 4, 8, 16)] == [0.25, 0.45, 0.7280, 0.9615, 1.0]
    assert [round(pass_hat_k(16, 4, k), 5) for k in (1, 2, 4)] == [0.25, 0.05, 0.00055]


def test_chances_are_exact_at_the_ends_and_for_many_samples() -> None:
    assert pass_at_k(10_000, 0, 5_000) == 0.0
    assert pass_at_k(10_000, 5_001, 5_000) == 1.0
    assert pass_at_k(10_000, 1, 5_000) == 0.5
    assert pass_hat_k(10_000, 9_999, 5_000) == 0.5


@pytest.mark.parametrize(("n", "c", "k"), [(4, 2, 0), (4, 2, 5), (4, 5, 1), (4, -1, 1), (0, 0, 1)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    for chance in (pass_at_k, pass_hat_k):
        with pytest.raises(ValueError, match=r"k=|c="):
            chance(n, c, k)


def test_auc_at_k_is_the_area_over_doublings_and_not_the_mean_over_k() -> None:
    assert round(auc_at_k(16, 4, 16), 4) == 0.6911
    assert round(np.mean([pass_at_k(16, 4, k) for k in range(1, 17)]), 3) == 0.85
    assert auc_at_k(16, 4, 1) == pass_at_k(16, 4, 1)
    assert auc_at_k(6, 2, 2) == pytest.approx((pass_at_k(6, 2, 1) + pass_at_k(6, 2, 2)) / 2)
    heights, places = [pass_at_k(9, 2, k) for k in (1, 2, 4, 6)], np.log2([1, 2, 4, 6])
    assert auc_at_k(9, 2, 6) == pytest.approx(np.trapezoid(heights, places) / places[-1])
    with pytest.raises(ValueError, match="k=5"):
        auc_at_k(4, 2, 5)


def test_best_of_k_equals_the_enumeration_of_all_subsets() -> None:
    rng = np.random.default_rng(8)
    for _ in range(60):
        n = int(rng.integers(1, 8))
        scores, success = rng.integers(0, 4, n).tolist(), [bool(w) for w in rng.integers(0, 2, n)]
        for k in range(1, n + 1):
            shares = []
            for subset in itertools.combinations(range(n), k):
                top = max(scores[i] for i in subset)
                shares.append(np.mean([success[i] for i in subset if scores[i] == top]))
            assert best_of_k(scores, success, k) == pytest.approx(np.mean(shares), abs=1e-12)


def test_the_best_of_k_by_the_verdict_itself_is_pass_at_k() -> None:
    success = [True] * 3 + [False] * 7
    assert best_of_k(success, success, 4) == pytest.approx(pass_at_k(10, 3, 4))


def plurality_by_enumeration(votes: Sequence[Hashable], success: Sequence[bool], k: int) -> float:
    shares = []
    for subset in itertools.combinations(range(len(votes)), k):
        counts = Counter(votes[i] for i in subset if votes[i] is not None)
        first = [vote for vote in counts if counts[vote] == max(counts.values())]
        shares_of_first = [np.mean([success[i] for i in subset if votes[i] == vote]) for vote in first]
        shares.append(np.mean(shares_of_first) if shares_of_first else 0.0)
    return float(np.mean(shares))


def test_cons_at_k_equals_the_enumeration_of_all_subsets() -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        n = int(rng.integers(1, 9))
        votes = [None if vote == 0 else f"answer {vote}" for vote in rng.integers(0, 5, n)]
        success = [bool(value) for value in rng.integers(0, 2, n)]
        for k in range(1, n + 1):
            assert cons_at_k(votes, success, k) == pytest.approx(plurality_by_enumeration(votes, success, k), abs=1e-12)


def test_tied_answers_share_the_win_whatever_their_order() -> None:
    for votes in itertools.permutations("aabb"):
        assert cons_at_k(votes, [vote == "a" for vote in votes], 4) == pytest.approx(0.5)


def test_missing_answers_never_win_a_vote() -> None:
    assert cons_at_k([None, None, None, "7"], [False, False, False, True], 4) == pytest.approx(1.0)
    assert cons_at_k([None, None], [False, False], 2) == 0.0
    assert cons_at_k([None, "7"], [False, True], 1) == pytest.approx(0.5)


def test_a_large_vote_agrees_with_sampled_subsets() -> None:
    rng = np.random.default_rng(1)
    votes = rng.geometric(0.2, 200)
    success = votes == 2
    draws = [rng.permutation(200)[:40] for _ in range(4000)]
    estimate = np.mean([_fair_plurality(votes[draw]) for draw in draws])
    assert cons_at_k(votes.tolist(), success.tolist(), 40) == pytest.approx(estimate, abs=0.025)


def _fair_plurality(votes: np.ndarray) -> float:
    answers, counts = np.unique(votes, return_counts=True)
    first = answers[counts == counts.max()]
    return float(np.mean(first == 2))


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    [(42, 100, 0.328, 0.518), (0, 20, 0.0, 0.161), (20, 20, 0.839, 1.0), (3, 30, 0.035, 0.256), (0, 0, 0.0, 1.0)],
)
def test_wilson_has_the_published_ends(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert interval == pytest.approx((low, high), abs=5e-4)
    if n:
        theirs = reference.binomtest(successes, n).proportion_ci(method="wilson")
        assert interval == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_wilson_covers_about_95_percent_of_all_proportions() -> None:
    n = 40
    ends = np.array([wilson(c, n) for c in range(n + 1)])
    coverage = []
    for p in np.linspace(0.05, 0.95, 91):
        inside = (ends[:, 0] <= p) & (p <= ends[:, 1])
        coverage.append(reference.binom.pmf(np.arange(n + 1), n, p)[inside].sum())
    assert 0.94 < np.mean(coverage) < 0.965
    assert min(coverage) > 0.9


def test_the_task_bootstrap_covers_about_95_percent_though_samples_of_a_task_depend_on_each_other() -> None:
    rng = np.random.default_rng(2)
    hits = naive_hits = 0
    for _ in range(300):
        successes = rng.binomial(8, rng.beta(0.5, 0.5, size=30))  # most tasks are all right or all wrong
        low, high = cluster_bootstrap(successes / 8, rng, bounds=Interval(0.0, 1.0), draws=499)
        hits += low <= 0.5 <= high
        naive = wilson(int(successes.sum()), 240)
        naive_hits += naive.low <= 0.5 <= naive.high
    assert 0.92 < hits / 300 < 0.985
    assert naive_hits / 300 < 0.8  # counting samples as independent is what the clusters are for


def test_the_interval_of_a_paired_difference_covers_it_95_percent_of_the_time() -> None:
    rng = np.random.default_rng(11)
    runs, hits = 400, 0
    for row in rng.choice([-1.0, 0.0, 1.0], p=[0.08, 0.74, 0.18], size=(runs, 80)):  # one sample per task and side
        low, high = cluster_bootstrap(row, rng, bounds=Interval(-1.0, 1.0), draws=499)
        hits += low <= 0.1 <= high
    assert 0.92 < hits / runs < 0.98


def test_the_same_generator_seed_gives_the_same_interval() -> None:
    means = np.random.default_rng(3).random(25)
    first, second, other = (cluster_bootstrap(means, np.random.default_rng(seed)) for seed in (4, 4, 5))
    assert first == second != other


def test_the_bootstrap_of_a_mean_agrees_with_the_normal_interval_where_tasks_are_many() -> None:
    values = np.random.default_rng(6).normal(3.0, 1.0, 400)
    low, high = cluster_bootstrap(values, np.random.default_rng(0))
    reach = 1.96 * values.std(ddof=1) / 20
    assert (low, high) == pytest.approx((values.mean() - reach, values.mean() + reach), abs=0.012)


def test_equal_task_means_still_have_an_interval_of_their_own() -> None:
    rng = np.random.default_rng(0)
    assert cluster_bootstrap([1.0] * 20, rng, bounds=Interval(0, 1)) == pytest.approx(wilson(20, 20))
    assert cluster_bootstrap([0.0] * 20, rng, bounds=Interval(-1, 1)) == pytest.approx((-0.161, 0.161), abs=5e-4)
    assert cluster_bootstrap([0.5], rng, bounds=Interval(0, 1)) == pytest.approx((0.0, 1.0))
    assert all(map(isnan, cluster_bootstrap([7.0, 7.0], rng)))
    with pytest.raises(ValueError, match="no tasks"):
        cluster_bootstrap([], rng)


@pytest.mark.parametrize(("tasks", "solved_share"), [(25, 0.5), (60, 0.3), (200, 0.15)])
def test_the_interval_of_a_cost_per_success_covers_it_95_percent_of_the_time(tasks: int, solved_share: float) -> None:
    rng = np.random.default_rng(9)
    runs, hits = 1500, 0
    chance = rng.beta(2 * solved_share, 2 * (1 - solved_share), size=(runs, tasks))
    successes = rng.binomial(4, chance)
    costs = rng.gamma(2.0, 10.0, size=(runs, tasks)) + 15 * (4 - successes)  # failures go on for longer
    true = (20 + 60 * (1 - solved_share)) / (4 * solved_share)
    for top, bottom in zip(costs, successes, strict=True):
        low, high = ratio_interval(top, bottom)
        hits += low <= true <= high
    assert 0.925 < hits / runs < 0.975


def test_a_cost_per_success_is_without_bound_where_successes_may_be_none() -> None:
    low, high = ratio_interval([10.0] * 20, [1.0] + [0.0] * 19)
    assert 0 < low < 200 and high == np.inf
    assert all(map(isnan, ratio_interval([10.0] * 20, [0.0] * 20)))
    assert all(map(isnan, ratio_interval([10.0], [1.0])))
    assert all(map(isnan, ratio_interval([10.0] * 20, [1.0] * 20)))  # all agree: nothing is known of the spread


def test_a_cost_per_success_has_fiellers_ends() -> None:
    top, bottom = np.array([3.0, 5.0, 4.0, 6.0, 7.0]), np.array([1.0, 2.0, 1.0, 2.0, 2.0])
    low, high = ratio_interval(top, bottom)
    t = reference.t.ppf(0.975, 4)
    for end in (low, high):
        gap = top - end * bottom
        assert abs(gap.mean()) / (gap.std(ddof=1) / np.sqrt(5)) == pytest.approx(t)
    assert low < top.sum() / bottom.sum() < high


def test_the_interval_of_a_mean_over_environments_covers_it_95_percent_of_the_time() -> None:
    rng = np.random.default_rng(10)
    shares, tasks = np.array([0.98, 0.5, 0.05, 0.3]), np.array([50, 100, 40, 20])
    ends = {(n, c): wilson(c, n) for n in tasks.tolist() for c in range(n + 1)}
    hits, runs = 0, 3000
    for counts in rng.binomial(tasks, shares, size=(runs, 4)):
        intervals = [ends[n, c] for n, c in zip(tasks.tolist(), counts.tolist(), strict=True)]
        low, high = mean_interval((counts / tasks).tolist(), intervals)
        hits += low <= shares.mean() <= high
    assert 0.935 < hits / runs < 0.97


def test_one_environment_keeps_its_interval() -> None:
    assert mean_interval([0.4], [Interval(0.3, 0.6)]) == pytest.approx((0.3, 0.6))
    with pytest.raises(ValueError, match="0 estimates"):
        mean_interval([], [])


def test_holms_adjustment_multiplies_the_smallest_by_all_and_never_decreases() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.9]) == [1.0, 1.0]
    assert holm([]) == []


def test_the_vote_of_one_sample_is_exactly_its_chance_to_be_right() -> None:
    for n, c in ((80, 23), (7, 3), (3, 1)):
        answers = ["a"] * (c - 1) + ["b"] + ["c"] * (n - c - 1) + [None]
        success = [answer in ("a", "b") for answer in answers]
        assert cons_at_k(answers, success, 1) == pass_at_k(n, c, 1) == c / n


def test_mcnemar_is_the_exact_binomial_test_of_the_flips() -> None:
    assert mcnemar(0, 0) == 1.0
    assert mcnemar(5, 0) == pytest.approx(2 / 2**5)
    assert mcnemar(8, 2) == pytest.approx(2 * (1 + 10 + 45) / 2**10)
    assert mcnemar(2, 8) == mcnemar(8, 2)


def test_sign_flips_are_counted_exactly_where_they_are_few() -> None:
    differences = [0.5, 0.25, -0.125, 0.375, 0.0, 0.25]
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product([-1, 1], repeat=6)]
    assert sign_flip(differences, np.random.default_rng(0)) == np.mean(np.array(sums) >= 1.25)
    assert sign_flip([0.0, 0.0], np.random.default_rng(0)) == 1.0


def test_sign_flips_of_passes_and_failures_are_mcnemars_test() -> None:
    few = [1.0] * 9 + [-1.0] * 3
    assert sign_flip(few, np.random.default_rng(0)) == pytest.approx(mcnemar(9, 3))
    many = [1.0] * 40 + [-1.0] * 22
    assert sign_flip(many, np.random.default_rng(0)) == pytest.approx(mcnemar(40, 22), abs=0.006)


def test_sums_that_differ_by_rounding_count_as_equal() -> None:
    tenths = [-4, -4, -4, -3, 3]
    p_value = sign_flip([tenth / 10 for tenth in tenths], np.random.default_rng(0))
    assert p_value == sign_flip(tenths, np.random.default_rng(0)) == 6 / 32


def test_many_sign_flips_are_seeded_and_never_impossible() -> None:
    differences = [0.5] * 60
    p_values = [sign_flip(differences, np.random.default_rng(0), draws=999) for _ in range(2)]
    assert p_values == [0.001, 0.001]


def test_paired_tests_reject_a_true_null_hypothesis_5_percent_of_the_time() -> None:
    rng = np.random.default_rng(7)
    flips = rng.choice([-1.0, 0.0, 1.0], p=[0.2, 0.6, 0.2], size=(400, 60))
    by_mcnemar = np.mean([mcnemar(int((row > 0).sum()), int((row < 0).sum())) < 0.05 for row in flips])
    assert by_mcnemar < 0.06  # discrete, so below its level
    by_signs = np.mean([sign_flip(row, rng, draws=199) <= 0.05 for row in rng.normal(size=(2000, 30))])
    assert 0.037 < by_signs < 0.063
