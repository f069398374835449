"""One line of advice, once in a run, of what its first updates have measured."""

from __future__ import annotations

from rl.methods.recipe import load
from rl.records import Group
from rl.train.credit.advice import UPDATE, Advice


def given(advice: Advice, updates: int = UPDATE, **metrics: float) -> list[str]:
    values = {name.replace("__", "/"): value for name, value in metrics.items()}
    return [advice.add({"update": n + 1, **values}) for n in range(updates)]


def test_a_run_is_told_once_that_fewer_groups_would_do() -> None:
    lines = given(Advice(32, compares_states=False), UPDATE + 5, gradient__signal=1.0, gradient__noise=3.0)
    assert [n for n, line in enumerate(lines, 1) if line] == [UPDATE]
    assert lines[UPDATE - 1].startswith("noise scale 3 groups, 32 used: fewer")


def test_signals_and_noises_are_averaged_before_they_are_divided() -> None:
    advice = Advice(4, compares_states=False)
    for n in range(UPDATE - 1):
        advice.add({"update": n + 1, "gradient/signal": -0.5 if n % 2 else 1.6, "gradient/noise": 48.0})
    last = advice.add({"update": UPDATE, "gradient/signal": -0.5, "gradient/noise": 48.0})
    assert last.startswith("noise scale 87 groups, 4 used: more")  # 48 / ((10 * 1.6 - 10 * 0.5) / 20)


def test_shared_states_are_worth_a_word_unless_they_are_compared_already() -> None:
    measured = {"states__shared": 0.41, "states__luck": 0.5, "states__explained": 0.0}
    assert "41% of turns stand in shared states" in given(Advice(8, compares_states=False), **measured)[-1]
    assert given(Advice(8, compares_states=True), **measured)[-1] == ""
    assert given(Advice(8, compares_states=False), states__shared=0.9, states__luck=0.1)[-1] == ""


def test_groups_with_equal_rewards_are_counted() -> None:
    assert given(Advice(8, compares_states=False), groups__zero_variance=0.6)[-1].startswith("60% of groups have equal")


def test_equal_rewards_teach_methods_that_compare_no_members() -> None:
    advice = {name: Advice.of(load(name), 8, is_self_play=False) for name in ("grpo", "ppo", "reinforce")}
    said = {name: bool(given(one, groups__zero_variance=0.6)[-1]) for name, one in advice.items()}
    assert said == {"grpo": True, "ppo": False, "reinforce": False}


def test_a_part_that_needs_two_members_is_no_fault_of_the_method() -> None:
    advice = Advice.of(load("grpo").but(shape=(second_best,)), 8, is_self_play=False)
    assert advice.compares_members


def second_best(group: Group) -> list[float]:
    return [reward - sorted(group.rewards)[-2] for reward in group.rewards]


def seats_line(*shares: float) -> str:
    """The advice after updates in which the first of two seats won these shares of the games, the second the rest."""
    shares = (*shares, *[shares[-1]] * (UPDATE - len(shares)))
    return after_games([{"player_0": share, "player_1": 1 - share} for share in shares])


def after_games(success: list[dict[str, float]], *, episodes: float = 256.0, is_self_play: bool = True) -> str:
    advice, line = Advice(8, compares_states=False, is_self_play=is_self_play), ""
    for n, of_seats in enumerate(success, 1):
        metrics = {f"seats/{name}/success": share for name, share in of_seats.items()}
        line = advice.add({"update": n, **metrics, **{f"seats/{name}/episodes": episodes for name in of_seats}})
    return line


def test_seats_that_win_in_turn_are_told_of_a_pool() -> None:
    assert "with --opponent" in seats_line(0.9, 0.6, 0.3, 0.2, 0.9)
    assert "with --opponent" in seats_line(0.5, 0.9, 0.2)
    assert seats_line(0.3, 0.5, 0.7, 0.95) == ""  # the first mover learns to win, as it can
    assert seats_line(0.5, 0.7, 0.4, 0.6) == ""


def test_a_seat_may_have_any_name() -> None:
    assert "with --opponent" in after_games([{"a/b": n % 2, "": 1 - n % 2} for n in range(UPDATE)])


def test_teammates_who_rise_and_fall_together_do_not_win_in_turn() -> None:
    assert after_games([{"a": n % 2, "b": n % 2} for n in range(UPDATE)]) == ""


def test_seats_win_in_turn_only_beyond_chance_and_only_against_each_other() -> None:
    swings = [{"a": 0.5 + 0.25 * (-1) ** n, "b": 0.5 - 0.25 * (-1) ** n} for n in range(UPDATE)]
    assert "with --opponent" in after_games(swings)
    assert after_games(swings, episodes=12.0) == ""  # so few games swing by themselves
    assert after_games(swings, is_self_play=False) == ""  # an opponent plays the other seat
