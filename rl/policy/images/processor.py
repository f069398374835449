"""Loading a vision-language model's processor, also where torchvision, which only videos need, is not installed."""

from __future__ import annotations

import inspect
import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, PreTrainedTokenizerBase
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES
from transformers.models.auto.processing_auto import PROCESSOR_MAPPING_NAMES, processor_class_from_name

from rl.policy.extras import install_command

CONFIGS = ("processor_config.json", "preprocessor_config.json")  # files that may name the processor's class


def reads_images(source: str, is_local: bool) -> bool:
    """Whether the config of a model, a folder or a hub id, is that of a vision-language model."""
    try:
        config = AutoConfig.from_pretrained(source, local_files_only=is_local)
    except Exception:  # reported when the model is loaded
        return False
    return config.model_type in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES and hasattr(config, "vision_config")


def load_processor(source: str, tokenizer: PreTrainedTokenizerBase, is_local: bool) -> Any:
    """Return the processor of a vision-language model, with this tokenizer.

    Raises `ValueError` if it cannot be loaded.
    """
    if find_spec("PIL") is None:
        raise ValueError(f"model {source!r} reads images, which takes Pillow: {install_command('vision')}")
    try:
        if find_spec("torchvision") is None:
            return _without_videos(source, tokenizer, is_local)
        processor = AutoProcessor.from_pretrained(source, local_files_only=is_local)
        processor.tokenizer = tokenizer
        return processor
    except Exception as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"model {source!r}: its processor does not load: {reason}") from error


def save_processor(processor: Any, folder: Path) -> None:
    """Write a processor into its model's folder, so that `AutoProcessor` and `load_processor` read it."""
    if all(getattr(processor, name, None) is not None for name in processor.get_attributes()):
        processor.save_pretrained(folder)
        return
    processor.image_processor.save_pretrained(folder)
    names = inspect.signature(type(processor).__mro__[1]).parameters
    options = {
        name: getattr(processor, name) for name in names if isinstance(getattr(processor, name, None), int | str)
    }
    options = {name: value for name, value in options.items() if name != "chat_template"}
    text = json.dumps({"processor_class": type(processor).__name__, **options}, indent=2)
    (folder / CONFIGS[0]).write_text(text + "\n", encoding="utf-8")


def images_only(kind: type, **parts: Any) -> Any:
    """Return a processor of class `kind` made of its parts, without one for videos if the class has one.

    The library checks that each part is there, although images need none for videos.
    """

    def check(self: Any, name: str, part: Any) -> Any:
        return None if part is None else kind.check_argument_for_proper_class(self, name, part)  # type: ignore[attr-defined]

    names = kind.get_attributes()  # type: ignore[attr-defined]
    missing = {name: None for name in names if name not in parts}
    lenient: Any = type(kind.__name__, (kind,), {"check_argument_for_proper_class": check})
    return lenient(**parts, **missing)


def _without_videos(source: str, tokenizer: PreTrainedTokenizerBase, is_local: bool) -> Any:
    image_processor = AutoImageProcessor.from_pretrained(source, local_files_only=is_local)
    kind, options = _class_and_options(source, is_local)
    return images_only(kind, image_processor=image_processor, tokenizer=tokenizer, **options)


def _class_and_options(source: str, is_local: bool) -> tuple[type, dict[str, Any]]:
    """The processor's class, and its own options."""
    from transformers.utils import cached_file

    name, options = "", dict[str, Any]()
    for file in CONFIGS:
        path = cached_file(source, file, local_files_only=is_local, _raise_exceptions_for_missing_entries=False)
        if path is None:
            continue
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        name = name or content.get("processor_class", "")
        if file == CONFIGS[0]:
            options = {key: value for key, value in content.items() if not isinstance(value, dict)}
    options.pop("processor_class", None)
    options.pop("auto_map", None)
    config = AutoConfig.from_pretrained(source, local_files_only=is_local)
    return processor_class_from_name(name or PROCESSOR_MAPPING_NAMES[config.model_type]), options
