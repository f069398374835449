"""The last observation of an episode in full style says that it is over, whether it is a success, and what happened."""

from __future__ import annotations

import re

import pytest

import envs
from envs.checks import opening
from envs.checks.env_under_test import EnvUnderTest, Untestable
from envs.data import MissingData
from envs.env import Env
from envs.episodes.endings import close_episode
from envs.multi.connect_four import ConnectFour
from envs.multi.kuhn import Kuhn
from envs.multi.plan_path import PlanPath
from envs.multi.tic_tac_toe import TicTacToe
from envs.rows import ROWS, Row
from envs.types import Messages, Outcome, Stop, Task, text, user

OVER = "The episode is over: you have {}succeeded."


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_every_environment_says_how_an_episode_ended(row: Row) -> None:
    try:
        assert not list(opening.ending(EnvUnderTest(row.id, tasks=2)))
    except (MissingData, ImportError, Untestable) as missing:
        pytest.skip(f"{row.id}: {missing}")


def test_the_doctor_finds_an_environment_that_ends_in_silence() -> None:
    faults = [*opening.ending(EnvUnderTest(f"{__file__}:Silent"))]
    assert faults and "does not say how it ended" in faults[0]


class Silent(envs.make("math/Arithmetic-v0").unwrapped.__class__):  # type: ignore[misc]
    """Sums, without the last words."""

    def _last_messages(self, outcome: Outcome, limit: Stop | None) -> Messages:
        return outcome.messages


@pytest.mark.parametrize(
    ("id", "replies", "words"),
    [
        ("math/Arithmetic-v0", ["a lot"], "No single answer can be read in your reply."),
        ("math/Arithmetic-v0", ["-1"], "Your answer is wrong."),
        ("games/Maze-v0", ["no"] * 16, "That was your last reply."),
        ("games/TwentyQuestions-v0", None, "No, the thing is not"),
        ("games/Minesweeper-v0", None, "There is a mine in the cell"),
        ("code/Shell-v0", ["done"], "the goal is not reached"),
    ],
)
def test_a_failure_is_named(id: str, replies: list[str] | None, words: str) -> None:
    with envs.make(id).unwrapped as env:
        env.reset(seed=0, options={"split": "test", "index": 1})
        if id.endswith("Questions-v0"):
            replies = [next(name for name in env.task.metadata["things"] if name != env.task.answer)]
        if id.endswith("Minesweeper-v0"):
            replies = [env._coordinates(env.field.index("*"))]
        for reply in replies or ():
            messages, _, terminated, truncated, _ = env.step(reply)
        assert terminated or truncated
        assert words in text(messages[-1]) and text(messages[-1]).endswith(OVER.format("not "))


def test_blackjack_ends_with_the_sums_of_both_hands() -> None:
    with envs.make("games/Blackjack-v0", hands=1).unwrapped as env:
        endings = set()
        for index in range(40):
            for action in ("stick", "hit"):
                env.reset(seed=0, options={"split": "test", "index": index})
                step = env.step(action)
                while not (step[2] or step[3]):
                    step = env.step(action)
                last = text(step[0][-1])
                assert re.match(r"Your sum is \d+(, above 21)?\.", last)
                assert "above 21" in last or re.search(r"The dealer's cards are .* and .*, \d+ in all", last)
                endings.add(re.sub(r"\d+", "0", last.partition(". The ")[2].rpartition(" You have ")[2]))
        assert len(endings) >= 3


def test_a_showdown_speaks_of_you_and_the_other_player() -> None:
    for id, words in (("multi/Kuhn-v0", ["check", "call"]), ("multi/Leduc-v0", ["check", "call", "check", "call"])):
        env = envs.make(id, opponent="oracle").unwrapped
        shown = ""
        for index in range(30):
            env.reset(seed=0, options={"split": "test", "index": index})
            while True:
                messages, reward, terminated, _, _ = env.step(next(w for w in words if w in env.table.legal()))
                if terminated:
                    break
            last = text(messages[-1])
            assert "player_" not in last and ("You win" in last) == (reward > 0)
            shown += last
        assert "the other player had the" in shown


def test_both_seats_read_the_end_of_a_forfeit() -> None:
    env = Kuhn()
    env.reset(seed=0)
    env.step("hm")
    assert "A second invalid reply in a row folds." in text(env.observe("player_0")[-1])
    env.step("hm")
    loser, winner = (text(env.observe(seat)[-1]) for seat in env.seats)
    assert loser.startswith("Your second invalid reply in a row folds.") and "You lose 1 chip." in loser
    assert OVER.format("not ") in loser
    assert winner.startswith("The other player's second invalid reply in a row folds.") and "You win 1 chip." in winner


def test_an_illegal_move_names_what_is_wrong_and_what_is_free() -> None:
    board = TicTacToe()
    board.reset(seed=0)
    for reply in ("b2", "a1", "b2"):
        board.step(reply)
    told = text(board.observe("player_0")[-1])
    assert "The cell b2 is occupied by your own X. The free cells are b1, c1, a2, c2, a3, b3 and c3." in told
    assert "A second invalid reply in a row loses the game." in told
    four = ConnectFour(rows=3, columns=4, connect=3)
    four.reset(seed=0)
    for reply in ("1", "1", "1", "1"):
        four.step(reply)
    assert "Column 1 is full. The columns that are not full are 2, 3 and 4." in text(four.observe("player_1")[-1])
    four.step("9")
    assert text(four.observe("player_0")[-1]).endswith(OVER.format(""))


def test_plan_path_says_why_a_reply_is_invalid_and_how_many_are_left() -> None:
    env = PlanPath()
    env.reset(seed=0, options={"split": "test", "index": 0})
    env.step("I wonder where to go")
    env.step("up or down")
    planner = text(env.observe("planner")[-1])
    assert (
        "The last line of your reply does not name one to 3 steps" in planner and "You have 7 replies left." in planner
    )
    assert "The executor's reply named no steps." in planner
    env.step("stay")
    assert "You have 7 replies left." in text(env.observe("executor")[-1])
    env.step("stay")
    assert "your reply" not in text(env.observe("planner")[-1])


def test_the_ending_stands_in_a_user_message() -> None:
    result: Messages = ({"role": "tool", "tool_call_id": "call00000", "content": "ok"},)
    assert close_episode(result, Stop.TURN_LIMIT, "", False) == (
        *result,
        user(f"That was your last reply. {OVER.format('not ')}"),
    )
    assert close_episode((user("Bad."),), Stop.TERMINATED, "Lost.", False) == (
        user(f"Bad.\nLost. {OVER.format('not ')}"),
    )


class Plain(Env):
    """An environment without a guide, which has one wording."""

    def tasks(self, split: str) -> list[Task]:
        """Return one task."""
        return [Task(f"{split}/0", (user("?"),))]

    def reply(self, action: object) -> Outcome:
        """End at once."""
        return Outcome(terminated=True)


@pytest.mark.parametrize("style", ["full", "short"])
def test_no_words_are_added_without_a_guide_and_in_short_style(style: str) -> None:
    env = Plain(style=style)  # type: ignore[arg-type]
    env.reset(seed=0)
    assert env.step("")[0] == ()
    sums = envs.make("math/Arithmetic-v0", style="short")
    sums.reset(seed=0)
    assert sums.step("1")[0] == ()
