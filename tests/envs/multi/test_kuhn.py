"""Kuhn poker: its value, its family of equilibria and its exploitability, computed from the environment itself."""

import pytest

import envs
from envs.multi.game_tree import build_tree, expected_value, exploitability, uniform
from envs.multi.kuhn import DEALS, Kuhn, bet_probability
from envs.types import text


@pytest.fixture(scope="module")
def tree():
    return build_tree(Kuhn(style="short"))


def equilibrium(alpha):
    def policy(information, words):
        bet = bet_probability(information, alpha)
        return [bet if word in ("bet", "call") else 1 - bet for word in words]

    return policy


@pytest.mark.parametrize("alpha", [0, 0.1, 1 / 6, 1 / 3])
def test_every_equilibrium_of_the_family_loses_an_eighteenth_and_cannot_be_exploited(tree, alpha):
    assert expected_value(tree, equilibrium(alpha)) == pytest.approx(-1 / 18, abs=1e-12)
    assert exploitability(tree, equilibrium(alpha)) == pytest.approx(0, abs=1e-12)


def test_uniform_play_has_the_known_value_and_exploitability(tree):
    assert expected_value(tree, uniform) == pytest.approx(0.125, abs=1e-12)
    assert exploitability(tree, uniform) == pytest.approx(11 / 24, abs=1e-12)


def test_the_six_deals_are_equally_frequent():
    deals = [task.metadata["deal"] for split in ("train", "val", "test") for task in Kuhn().load(split)]
    assert {deals.count(deal) for deal in DEALS} == {len(deals) // 6}


@pytest.mark.parametrize("style", ["full", "short"])
@pytest.mark.parametrize("seat", [0, 1])
def test_what_a_seat_reads_does_not_depend_on_the_card_of_the_other(style, seat):
    """Games with the same own card and the same replies look the same until the cards are shown."""
    env = Kuhn(style=style)
    deals = [task.metadata["deal"] for task in env.load("train")[:200]]
    read = {}
    for deal in DEALS:
        for words in (["check", "bet", "fold"], ["bet", "fold"], ["check", "bet", "call"], ["bet", "call"]):
            env.reset(seed=0, options={"split": "train", "index": deals.index(deal)})
            observations = []
            for word in words:
                if env.agent_selection == env.seats[seat]:
                    observations.append([text(message) for message in env.observe(env.seats[seat])])
                env.step(word)
            assert all(env.terminations.values())
            assert read.setdefault((deal[seat], *words), observations) == observations


def test_a_fold_and_a_showdown_pay_what_the_rules_say():
    env = Kuhn(style="short")
    deals = [task.metadata["deal"] for task in env.load("train")[:200]]
    cases = [("KJ", ["check", "check"], 1), ("JK", ["bet", "call"], -2), ("QK", ["bet", "fold"], 1)]
    for deal, words, payoff in [*cases, ("KQ", ["check", "bet", "fold"], -1), ("KQ", ["check", "bet", "call"], 2)]:
        env.reset(seed=0, options={"split": "train", "index": deals.index(deal)})
        for word in words:
            env.step(word)
        assert env._cumulative_rewards == {"player_0": payoff, "player_1": -payoff}


def test_alpha_outside_the_family_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"alpha 0.5 is outside 0..1/3"):
        env = envs.make("multi/Kuhn-v0", opponent="equilibrium:alpha=0.5")
        for seed in range(20):
            env.reset(seed=seed)
            env.step("bet")
