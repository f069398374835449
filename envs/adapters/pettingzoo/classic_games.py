"""What a language model must read about the games of `pettingzoo.classic`.

Layouts of observations and meanings of actions are those of PettingZoo's documentation.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from envs.adapters.pettingzoo.game_words import GameWords

RANKS = ("ace", "2", "3", "4", "5", "6", "7", "8", "9", "10", "jack", "queen", "king")
SUITS = ("spades", "hearts", "diamonds", "clubs")
COLUMNS = "abcdefghjklmnopqrst"  # of a board of Go: there is no column i
POKER_ACTIONS = ("call", "raise", "fold", "check")
MARKS = "X is yours, O the other player's, . an empty place."
HANABI_COLOURS = {"R": "red", "Y": "yellow", "G": "green", "W": "white", "B": "blue"}


def _board(own: Any, other: Any) -> str:
    """Write two planes of an observation, one's own pieces and the other player's, row by row."""
    rows = np.where(np.asarray(own) > 0, "X", np.where(np.asarray(other) > 0, "O", "."))
    return "\n".join(" ".join(row) for row in rows)


def _connect_four(game: Any, seat: str, observation: Any) -> str:
    return f"1 2 3 4 5 6 7\n{_board(observation[..., 0], observation[..., 1])}"


def _tic_tac_toe(game: Any, seat: str, observation: Any) -> str:
    columns = np.asarray(observation)  # actions run down the columns
    rows = _board(columns[..., 0].T, columns[..., 1].T).split("\n")
    return "\n".join(["  a b c", *(f"{number} {row}" for number, row in enumerate(rows, start=1))])


def _leduc(game: Any, seat: str, observation: Any) -> str:
    cards = ("jack", "queen", "king")
    numbers = np.asarray(observation)
    hand, public = _names(numbers[:3], cards), _names(numbers[3:6], cards)
    chips = [int(part.argmax()) for part in (numbers[6:21], numbers[21:36])]
    return (
        f"Your card: {hand}. Public card: {public or 'none yet'}. "
        f"Chips in the pot: {chips[0]} of yours, {chips[1]} of the other player's."
    )


def _limit_poker(game: Any, seat: str, observation: Any) -> str:
    numbers = np.asarray(observation)
    rounds = [int(numbers[start : start + 5].argmax()) for start in range(52, 72, 5)]
    raises = ", ".join(f"{number} in round {place}" for place, number in enumerate(rounds, start=1))
    return f"Your cards and the public ones: {_cards(numbers)}. Raises so far: {raises}."


def _no_limit_poker(game: Any, seat: str, observation: Any) -> str:
    numbers = np.asarray(observation)
    return (
        f"Your cards and the public ones: {_cards(numbers)}. "
        f"Chips in the pot: {int(numbers[52])} of yours, at most {int(numbers[53])} of any player's."
    )


def _cards(numbers: Any) -> str:
    return ", ".join(f"{RANKS[place % 13]} of {SUITS[place // 13]}" for place in np.flatnonzero(numbers[:52]))


def _names(numbers: Any, names: tuple[str, ...]) -> str:
    return ", ".join(names[place] for place in np.flatnonzero(numbers))


def _hands(game: Any, seat: str, observation: Any) -> str:
    number = int(observation)
    names = _hand_names(game)
    return f"The other player's last hand: {names[number]}." if number < len(names) else "No hand has been shown yet."


def _hand_names(game: Any) -> tuple[str, ...]:
    return ("rock", "paper", "scissors", "lizard", "spock")[: game.action_space(game.possible_agents[0]).n]


def _chess(game: Any, seat: str, observation: Any) -> str:
    colour = "white" if seat == game.possible_agents[0] else "black"
    rows = str(game.board).split("\n")
    lines = [f"{8 - place} {row}" for place, row in enumerate(rows)]
    check = " You are in check." if game.board.is_check() else ""
    return "\n".join([*lines, "  a b c d e f g h", f"You play {colour}.{check}"])


def _chess_moves(game: Any, seat: str, legal: list[int]) -> Mapping[str, int]:
    from pettingzoo.classic.chess import chess_utils

    player = game.possible_agents.index(seat)
    return {chess_utils.action_to_move(game.board, action, player).uci(): action for action in legal}


def _go(game: Any, seat: str, observation: Any) -> str:
    rows = _board(*game._encode_board_planes(seat)).split("\n")  # the array shows the planes of who moved last
    lines = [f"{len(rows) - place:2} {row}" for place, row in enumerate(rows)]
    return "\n".join([*lines, "   " + " ".join(COLUMNS[: len(rows)])])


def _go_moves(game: Any, seat: str, legal: list[int]) -> Mapping[str, int]:
    size = int(np.sqrt(game.action_space(seat).n - 1))
    names = {size * size: "pass"}
    return {names.get(place, f"{COLUMNS[place % size]}{size - place // size}"): place for place in legal}


def _hanabi(game: Any, seat: str, observation: Any) -> str:
    return str(game.hanabi_env.game_state.observation_string(game.possible_agents.index(seat))).strip()


def _hanabi_moves(game: Any, seat: str, legal: list[int]) -> Mapping[str, int]:
    state, player = game.hanabi_env.game_state, game.possible_agents.index(seat)
    return {_hanabi_name(state.action_to_string(player, action)): action for action in legal}


def _hanabi_name(text: str) -> str:
    """Write "(Play 0)" as `play 1` and "(Reveal player +1 color R)" as `tell 1 red`."""
    words = text.strip("()").split()
    if words[0] == "Reveal":
        return f"tell {words[2].lstrip('+')} {HANABI_COLOURS.get(words[4], words[4])}"
    return f"{words[0].lower()} {int(words[1]) + 1}"


CLASSIC_GAMES: dict[str, GameWords] = {  # by the name of the module, without its version
    "connect_four": GameWords(
        "Drop discs into the seven columns of an upright board of six rows. You win with four of your discs in a "
        "line: in a row, in a column or diagonally.",
        f"The lowest row is the last line. {MARKS}",
        tuple("1234567"),
        describe=_connect_four,
        max_turns=21,
    ),
    "tictactoe": GameWords(
        "Put your marks into the cells of a board of three by three. You win with three of your marks in a line.",
        MARKS,
        tuple(f"{column}{row}" for column in "abc" for row in "123"),
        describe=_tic_tac_toe,
        max_turns=5,
    ),
    "rps": GameWords(
        "Both players show a hand at the same time. Rock beats scissors, scissors beat paper, and paper beats rock. "
        "The winner of a round gets a point and the loser loses one.",
        actions=("rock", "paper", "scissors"),
        describe=_hands,
    ),
    "leduc_holdem": GameWords(
        "Leduc hold'em: a deck of two jacks, two queens and two kings. Each player gets a card. After a round of bets "
        "a public card is shown, and a second round follows. A pair with the public card wins, else the higher card.",
        actions=POKER_ACTIONS,
        describe=_leduc,
        max_turns=8,
    ),
    "texas_holdem": GameWords(
        "Texas hold'em with fixed bets: each player has two cards of their own, and five public cards are shown in "
        "the course of four rounds of bets. The best hand of five cards wins the pot.",
        actions=POKER_ACTIONS,
        describe=_limit_poker,
        max_turns=20,
    ),
    "texas_holdem_no_limit": GameWords(
        "Texas hold'em without a limit of bets: each player has two cards of their own and 100 chips, and five public "
        "cards are shown in the course of four rounds of bets. The best hand of five cards wins the pot.",
        "`call` also checks, where nothing has to be paid.",
        ("fold", "call", "raise half pot", "raise full pot", "all in"),
        describe=_no_limit_poker,
    ),
    "chess": GameWords(
        "Play a game of chess.",
        "Capital letters are white's pieces, small letters black's, . an empty square. A move is written by its two "
        "squares, as in e2e4, and a promotion with the new piece behind them, as in e7e8q.",
        moves=_chess_moves,
        describe=_chess,
        max_turns=200,
    ),
    "go": GameWords(
        "Play a game of Go by area scoring: surround more of the board than the other player. The game ends when both "
        "players pass one after the other.",
        f"A point is written by its column and row, as in d4. {MARKS}",
        moves=_go_moves,
        describe=_go,
        max_turns=200,
    ),
    "hanabi": GameWords(
        "Hanabi, a game that you play together: build a firework of each colour with cards in the order 1 to 5. You "
        "see the cards of the others and not your own. Tell others about their cards, at the cost of an information "
        "token, play a card, or discard one, which brings a token back. A wrong play costs a life, and without lives "
        "all points are lost. Each card of a firework is a point, so that complete fireworks are worth 25.",
        "`play 1` plays your first card, `discard 1` discards it, `tell 1 red` and `tell 1 3` say to the next player "
        "which of their cards are red or have the number 3. The first hand is yours. A line shows a card, then what "
        "its owner has been told of it, then all that it can be by that: `R3 || X3|RYGWB3` is a red 3 whose owner "
        "knows the number. R, Y, G, W and B are red, yellow, green, white and blue, and X is unknown.",
        moves=_hanabi_moves,
        describe=_hanabi,
        teammates=True,
        target=24.0,
    ),
}
