"""BrowserGym's ids of tasks, and its pictures as blocks of messages."""

from __future__ import annotations

import base64
import importlib
import io
from typing import Any

import gymnasium
import numpy as np

from envs.adapters.schemes import import_extra
from envs.suggestions import unknown_message


def find_task(name: str) -> str:
    """Return BrowserGym's id of a task, after importing its benchmark. Raises ValueError for an unknown one."""
    import_extra("browsergym.core", "browsergym")
    benchmark = name.partition(".")[0]
    if benchmark != name:
        try:
            importlib.import_module(f"browsergym.{benchmark}")
        except ImportError as error:
            raise ImportError(f"pip install browsergym-{benchmark} first ({error})") from None
    id = f"browsergym/{name}"
    if id not in gymnasium.registry:
        ids = [each.removeprefix("browsergym/") for each in gymnasium.registry if each.startswith("browsergym/")]
        raise ValueError(unknown_message("task", name, ids, of="BrowserGym"))
    return id


def picture(pixels: np.ndarray) -> dict[str, Any]:
    """Return a screenshot, height x width x 3, as a content block `image_url`."""
    image = import_extra("PIL.Image", "browsergym").fromarray(pixels)
    file = io.BytesIO()
    image.convert("RGB").save(file, "JPEG", quality=70)
    return {
        "type": "image_url",
        "image_url": {"url": f"data:image/jpeg;base64,{base64.b64encode(file.getvalue()).decode()}"},
    }
