"""Images in messages: where they are, and the tokens that stand for them in a prompt.

An image is the `data:` URL of its file, as an image block holds it. In a prompt a run of tokens stands for it, some of
which the model replaces by what its vision tower sees. These tokens are part of the ids; the image goes beside them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from envs.types import Message

TEXT_ONLY = (
    "the environment shows images, and this model reads text only: take a vision-language model, or a text view of the "
    "environment, such as --env-arg view=text"
)


class PlacedImage(NamedTuple):
    """An image and the index, in a sequence of token ids, of the first token that stands for it."""

    at: int
    image: str


class ImageTokens(Protocol):
    """What a renderer asks of a vision-language model."""

    placeholder: str
    """The control token that the chat template writes for an image."""

    def expand(self, image: str) -> tuple[int, ...]:
        """Return the tokens that stand for an image. Raises `ValueError` for one that cannot be read."""
        ...


def image_of(block: Any) -> str | None:
    """Return the image of a content block in one of the usual forms; None for a block that is no image."""
    if not isinstance(block, Mapping) or block.get("type") not in ("image_url", "image"):
        return None
    source = block.get("image_url") or block.get("url") or block.get("image")
    return str(source["url"] if isinstance(source, Mapping) else source)


def images_of(messages: Iterable[Message]) -> list[str]:
    """Return the images of messages, in order."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [image for block in blocks if (image := image_of(block)) is not None]


def without_images(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message as a chat template takes it: an image block says that there is an image, and nothing more."""
    content = message.get("content")
    if not isinstance(content, list):
        return dict(message)
    blocks = [block if image_of(block) is None else {"type": "image"} for block in content]
    return {**message, "content": blocks}


def place(ids: Sequence[int], images: Sequence[str], tokens: ImageTokens | None) -> tuple[PlacedImage, ...]:
    """Return where in rendered `ids` the tokens of each image begin.

    `ids` are those of a renderer, in which no text of a message has become a control token. Images whose tokens were
    cut off are left out.
    """
    if tokens is None or not images:
        return ()
    places: list[PlacedImage] = []
    start, ids = 0, tuple(ids)
    for image in images:
        run = tokens.expand(image)
        start = next((i for i in range(start, len(ids) - len(run) + 1) if ids[i : i + len(run)] == run), len(ids))
        if start == len(ids):
            break
        places.append(PlacedImage(start, image))
        start += len(run)
    return tuple(places)


def moved(images: Collection[PlacedImage], by: int) -> tuple[PlacedImage, ...]:
    """Return images of a sequence that now begins `by` tokens later."""
    if not images:  # as in most episodes
        return ()
    return tuple(PlacedImage(at + by, image) for at, image in images)
