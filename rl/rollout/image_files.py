"""Images of rollouts as files beside them, named by their digest, so that a line holds a name and no megabytes."""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from agents.images import image_of

_DATA_URL = re.compile(r"data:image/(\w+);base64,(.*)", re.DOTALL)
_NAME = re.compile(r"[\w.-]+/[0-9a-f]{32}\.\w{1,5}")


class ImageFiles:
    """Writes images into `folder`, each once. A reference is the folder's name and that of the file in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._names: dict[int, str] = {}  # by the hash of the image

    def store(self, image: str) -> str:
        """Write an image that is a data URL; return the reference, or the text itself if it is no such URL.

        Raises `OSError` if the file cannot be written.
        """
        if (name := self._names.get(hash(image))) is not None:
            return name
        match = _DATA_URL.fullmatch(image)
        try:
            content = base64.b64decode(match[2], validate=True) if match else None
        except binascii.Error:
            content = None
        if match is None or content is None:
            return image
        path = self.folder / f"{hashlib.sha256(content).hexdigest()[:32]}.{match[1]}"
        if not path.exists():
            self.folder.mkdir(parents=True, exist_ok=True)
            partial = path.with_suffix(f".{os.getpid()}.partial")
            partial.write_bytes(content)
            partial.replace(path)
        self._names[hash(image)] = name = f"{self.folder.name}/{path.name}"
        return name


def is_reference(text: str) -> bool:
    """Whether `text` has the form of a reference to a stored image."""
    return _NAME.fullmatch(text) is not None


def load(reference: str, folder: Path) -> str:
    """Return the data URL of a stored image, whose reference is relative to `folder`; other texts as they are."""
    path = folder / reference
    if not is_reference(reference) or not path.is_file():
        return reference
    return f"data:image/{path.suffix[1:]};base64,{base64.b64encode(path.read_bytes()).decode()}"


def is_text(message: Any) -> bool:
    """Whether `message` is one of text alone, as nearly all are."""
    return type(message) is dict and len(message) == 2 and type(message.get("content")) is str


def with_images(value: Any, change: Callable[[str], str]) -> Any:
    """Return messages, or what holds them, with `change` applied to every image; what holds none may be the same."""
    if isinstance(value, list | tuple):
        return [one if is_text(one) else with_images(one, change) for one in value]
    if not isinstance(value, Mapping):
        return value
    image = image_of(value) if "type" in value else None  # messages, which are most of all, have none
    if image is None:
        return {key: with_images(one, change) if isinstance(one, list | dict) else one for key, one in value.items()}
    key = next(key for key in ("image_url", "url", "image") if value.get(key))
    source = value[key]
    return {**value, key: {**source, "url": change(image)} if isinstance(source, Mapping) else change(image)}
