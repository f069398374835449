"""The cost of credit is timed on the groups of a run, with every stream that a recipe may read."""

from __future__ import annotations

import torch

from benchmarks import credit_cost


def test_the_groups_of_the_second_update_are_recorded_with_all_streams(capsys):
    threads = torch.get_num_threads()
    try:
        groups, seconds = credit_cost.played("games/GuessNumber-v0", cold_start=0, groups=2, size=3)
    finally:
        torch.set_num_threads(threads)
    assert [len(group.trajectories) for group in groups] == [3, 3] and seconds > 0
    turns = [turn for group in groups for member in group.trajectories for turn in member.turns]
    assert all({*credit_cost.STREAMS} <= turn.streams.keys() for turn in turns)
    assert all(len(turn.streams["gain"]) == len(turn.completion.ids) for turn in turns)
