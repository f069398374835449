"""Pictures of shapes: what is drawn is what is asked for."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest

import envs
from envs.games.pictures import COLOURS, SHAPES, draw, png_url
from envs.games.shapes import KINDS


def picture_of(message: dict) -> np.ndarray:
    image = pytest.importorskip("PIL.Image")
    url = message["content"][-1]["image_url"]["url"]
    return np.asarray(image.open(io.BytesIO(base64.b64decode(url.partition(",")[2]))))


def test_another_reader_sees_what_was_drawn() -> None:
    image = pytest.importorskip("PIL.Image")
    picture = draw([("red", "circle"), None, ("blue", "cross"), ("green", "square")], 2, 16, light=80)
    url = png_url(picture)
    again = image.open(io.BytesIO(base64.b64decode(url.partition(",")[2])))
    assert again.mode == "RGB" and (np.asarray(again) == picture).all()


def test_shapes_differ_and_keep_to_their_cells() -> None:
    pictures = [draw([("blue", shape), None, None, None], 2, 16) for shape in SHAPES]
    assert len({picture.tobytes() for picture in pictures}) == len(SHAPES)
    assert all((picture[16:] == 255).all() and (picture[:, 16:] == 255).all() for picture in pictures)


@pytest.mark.parametrize("kind", KINDS)
def test_the_right_answer_can_be_read_from_the_picture(kind: str) -> None:
    env = envs.make("games/Shapes-v0", question=kind, style="short", pixels=16)
    for index in range(20):
        (message,), info = env.reset(seed=index, options={"index": index, "split": "val"})
        pixels, about = picture_of(message).astype(int), message["content"][0]["text"].split()[1]
        light = pixels.max() / 255
        shown = {
            (number // 3, number % 3): (colour, shape)
            for number in range(9)
            for colour, value in COLOURS.items()
            for shape in SHAPES
            if _cell(pixels, number) == _cell(draw([(colour, shape)], 1, 16, light=round(100 * light)).astype(int), 0)
        }
        answers = {
            "count": str(sum(colour == about for colour, _ in shown.values())),
            "colour": next((colour for colour, shape in shown.values() if shape == about), ""),
            "shape": next((shape for colour, shape in shown.values() if colour == about), ""),
            "row": next((str(row + 1) for (row, _), cell in shown.items() if about in cell), ""),
        }
        assert answers[kind] == info["answer"]


def test_several_pictures_follow_each_other_until_an_answer_is_wrong() -> None:
    env = envs.make("games/Shapes-v0", rounds=3)
    env.reset(seed=0, options={"index": 0, "split": "train"})
    rewards = [env.step(reply)[1:3] for reply in env.oracle()]
    assert rewards == [(0.0, False), (0.0, False), (1.0, True)]
    env.reset(seed=0, options={"index": 0, "split": "train"})
    messages, reward, terminated, _, info = env.step("no idea")
    assert (reward, terminated, info["success"], info["valid"]) == (0.0, True, False, False)
    assert all(isinstance(message["content"], str) for message in messages)


def _cell(pixels: np.ndarray, number: int) -> bytes:
    columns = pixels.shape[1] // 16
    row, column = divmod(number, columns)
    return pixels[16 * row : 16 * row + 16, 16 * column : 16 * column + 16].tobytes()
