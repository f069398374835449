"""The cost of seats: the player of the view repeats what the model said, and wrong flags are named."""

import numpy as np
import pytest

from benchmarks.seats import cost
from envs.multi.plan_path import PlanPath


def test_a_recorded_player_repeats_what_was_said_in_the_same_state():
    recorded, env = cost.Recorded(), PlanPath(size=3, style="short")
    recorded.listen(env)
    env.reset(seed=0)
    first = env.state()
    env.step("down")
    assert env.state() != first
    env.step("stay")
    again = PlanPath(size=3, style="short")
    again.reset(seed=0)
    rng = np.random.default_rng(0)
    assert recorded(again, "planner", rng)["content"] == "down" and recorded.num_new == 0
    again.step("up")
    assert recorded(again, "executor", rng)["content"] == "stay"  # of the seat, in another state
    assert (recorded.num_new, recorded.num_asked) == (1, 2)


@pytest.mark.parametrize(
    ("flags", "fault"),
    [
        (["--env", "multi/PlanPath-v0"], "--model and --env: a trained model plays the game that it has learned"),
        (["--env", "multi/PlanPath-v0", "--model", "nowhere"], "--model nowhere: no model folder"),
    ],
)
def test_a_model_and_its_game_are_given_together(flags, fault, capsys):
    with pytest.raises(SystemExit) as refused:
        cost.main(flags)
    assert refused.value.code == 2 and fault in capsys.readouterr().err
