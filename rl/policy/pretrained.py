"""Loading and saving models by name: the bundled `tiny`, a folder in Hugging Face or peft layout, or a hub id."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from jinja2 import TemplateSyntaxError
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging as transformers_logging

from rl import checksums
from rl.policy import lora, tiny
from rl.policy.extras import check_peft
from rl.policy.hub.lookup import find_model, first_line
from rl.policy.hub.model_files import check_files, has_tokenizer, processor_template
from rl.policy.images.inputs import attach_images, image_inputs
from rl.policy.images.processor import load_processor, reads_images, save_processor
from rl.policy.images.trial import refusal
from rl.policy.model_config import check_end_tokens, text_config
from rl.spec_paths import run_of_model

NO_TOKENIZER = "copy tokenizer.json and tokenizer_config.json of the model that it was made from into the folder"

log = logging.getLogger(__name__)


def load_pretrained(
    name: str, *, device: str = "cpu", seed: int = 0, dtype: torch.dtype | str = torch.float32
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Return a causal language model in eval mode on `device`, and its tokenizer, which has a chat template.

    A vision-language model has its processor in `rl.policy.images.inputs.image_inputs(model)`.

    Args:
        name: `tiny`, a model folder, a checkpoint or run folder that holds one, or a hub id. An adapter is returned
            merged into its base model, which its `adapter_config.json` names.
        device: As of `resolve_device`.
        seed: Initialises `tiny`; other models ignore it.
        dtype: Precision of the weights; `"auto"` keeps that of the files.

    Raises:
        ValueError: Files are missing or broken, the hub cannot be reached, the tokenizer has no chat template, or the
            model has no attention or does not embed all of the tokens.
    """
    target = resolve_device(device)
    pair: tuple[Any, PreTrainedTokenizerBase] = _create_tiny(seed, dtype) if name == "tiny" else _read(name, dtype)
    model, tokenizer = pair
    if not getattr(text_config(model), "num_attention_heads", None):
        raise ValueError(f"model {name!r}: its type {model.config.model_type!r} has no attention; take a transformer")
    rows, last_id = model.get_input_embeddings().num_embeddings, max(_ids_in_use(tokenizer))
    if last_id >= rows:
        raise ValueError(
            f"model {name!r}: its tokenizer has token ids up to {last_id}, its embedding {rows} rows; the two are not "
            "of the same model, or the embedding must be resized"
        )
    check_end_tokens(name, model)
    return model.to(target).eval(), tokenizer


def _ids_in_use(tokenizer: PreTrainedTokenizerBase) -> set[int]:
    """The ids that prompts may have: not those of control tokens that the chat template never names.

    Models of a family share a tokenizer, and only some of them embed its token for images, for instance. Data never
    becomes a control token (`agents.control_tokens`).
    """
    template = str(tokenizer.chat_template)
    unnamed_ids = {
        id for id, token in tokenizer.added_tokens_decoder.items() if token.special and token.content not in template
    }
    standard_ids = {
        id for id in (tokenizer.eos_token_id, tokenizer.bos_token_id, tokenizer.pad_token_id) if id is not None
    }
    return set(tokenizer.get_vocab().values()) - (unnamed_ids - standard_ids)


def save_pretrained(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path | str,
    weights: dict[str, torch.Tensor] | None = None,
) -> None:
    """Write both to `folder` in Hugging Face layout, so that `from_pretrained` of an Auto class and vLLM read them.

    End and padding tokens that the model's generation config lacks are set from the tokenizer. `weights` are written in
    place of the model's own, by the names in its `state_dict`.
    """
    generation = model.generation_config
    for name in ("eos_token_id", "pad_token_id") if generation is not None else ():
        if getattr(generation, name) is None:
            setattr(generation, name, getattr(tokenizer, name))
    with _quiet():
        model.save_pretrained(folder, state_dict=weights)
        tokenizer.save_pretrained(folder)
        if images := image_inputs(model):
            save_processor(images.processor, Path(folder))


def save_adapter(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    folder: Path | str,
    base: str,
    weights: dict[str, torch.Tensor] | None = None,
) -> None:
    """Write the adapters of `model` in peft's layout to `folder`, and the tokenizer.

    `base` is the folder or hub id of the model below them. `weights`, if any, replace `lora.adapter_weights(model)`.
    """
    lora.save(model, folder, base, weights)
    with _quiet():
        tokenizer.save_pretrained(folder)


def permanent_name(name: str) -> str | None:
    """Return a name under which the base model `name` can be loaded later: a hub id, or its folder's absolute path.

    None for `tiny`, which is made from a seed, for a folder in a run's `checkpoints`, which the run may remove, and for
    a folder without a `config.json` of its own, such as an adapter.
    """
    folder = Path(name).expanduser()
    if name == "tiny" or not folder.is_dir():
        return None if name == "tiny" else name
    path = folder.resolve()
    is_permanent = (path / "config.json").is_file() and run_of_model(path) is None
    return str(path) if is_permanent else None


def resolve_device(name: str) -> torch.device:
    """Return the device `cpu`, `cuda` or `cuda:N`; `auto` is `cuda` if there is a GPU, else `cpu`.

    Raises `ValueError` for other names and for a GPU that does not exist.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(f"device {name!r}: take auto, cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r}: torch {torch.__version__} sees {torch.cuda.device_count()} GPUs; take cpu")
    return device


def _create_tiny(seed: int, dtype: torch.dtype | str) -> tuple[Any, PreTrainedTokenizerBase]:
    """The bundled model. Only its weights are cast: the table of rotary frequencies stays exact, as in any model."""
    model, tokenizer = tiny.create(seed)
    return _cast(model, dtype) if isinstance(dtype, torch.dtype) else model, tokenizer


def _cast(model: Any, dtype: torch.dtype) -> Any:
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    model.config.dtype = dtype
    return model


def _read(name: str, dtype: torch.dtype | str, adapters: tuple[Path, ...] = ()) -> tuple[Any, PreTrainedTokenizerBase]:
    """The model `name`; `adapters` are the adapter folders that it is the base of."""
    source, is_local = find_model(name)
    if is_local:
        _check_digests(Path(source))
        check_files(Path(source))
    if (Path(source) / lora.CONFIG).is_file():
        return _read_adapter(Path(source), dtype, adapters)
    tokenizer = _load_tokenizer(source, is_local)
    if not reads_images(source, is_local):
        return _load_model(source, is_local, dtype), tokenizer
    processor = load_processor(source, tokenizer, is_local)
    model = _load_model(source, is_local, dtype, AutoModelForImageTextToText)
    attach_images(model, processor)
    if (images := image_inputs(model)) and (reason := refusal(images)):
        log.warning("model %r reads text only here: %s", name, reason)
    return model, tokenizer


def _read_adapter(
    folder: Path, dtype: torch.dtype | str, adapters: tuple[Path, ...]
) -> tuple[Any, PreTrainedTokenizerBase]:
    """An adapter merged into its base, with the adapter's tokenizer if it has one.

    The sum is computed in float32 and then rounded: in bfloat16 a small adapter would be lost in each of its parts.
    """
    check_peft()
    if folder.resolve() in adapters:
        raise ValueError(f"adapter {str(folder)!r} has itself as its base")
    base = lora.read_base_name(folder)
    try:
        model, tokenizer = _read(base, dtype if dtype == "auto" else torch.float32, (*adapters, folder.resolve()))
    except ValueError as error:
        raise ValueError(f"adapter {str(folder)!r}: its base does not load: {error}") from error
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = _load_tokenizer(str(folder), True)
    final_dtype = dtype if isinstance(dtype, torch.dtype) else model.dtype
    try:
        return _cast(lora.merge(_cast(model, torch.float32), folder), final_dtype), tokenizer
    except Exception as error:
        raise ValueError(f"adapter {str(folder)!r} does not fit {base!r}: {first_line(error)}") from error


def _check_digests(folder: Path) -> None:
    """Raise `ValueError` if a file of the model, written by a run, is damaged; models of others have no digests."""
    folder = folder.resolve()
    homes = (folder, folder.parent, folder.parent.parent)  # a model with digests of its own, or CHECKPOINT/model/ROLE
    home = next((path for path in homes if (path / checksums.NAME).is_file()), folder.parent)
    part = folder.relative_to(home).as_posix() if home != folder else ""
    try:
        checksums.check(home, part)
    except checksums.DamagedFile as error:
        older = [path for path in sorted(home.parent.glob("update-*")) if path < home]
        hint = f"; an earlier checkpoint is {older[-1]}" if older else ""
        raise ValueError(f"model {str(home)!r}: {error}{hint}") from None


def _load_tokenizer(source: str, is_local: bool) -> PreTrainedTokenizerBase:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=is_local)
    except Exception as error:
        if Path(source).is_dir() and not has_tokenizer(Path(source)):
            raise ValueError(f"model {source!r}: it has no tokenizer; {NO_TOKENIZER}") from error
        part, error = _part_at_fault(source, error)
        reason = f"{type(error).__name__}: " * isinstance(error, (LookupError, AttributeError, TypeError))
        raise ValueError(f"model {source!r}: its {part} does not load: {reason}{first_line(error)}") from error
    is_empty = not tokenizer.encode("a", add_special_tokens=False)
    if is_empty and Path(source).is_dir() and not has_tokenizer(Path(source)):
        raise ValueError(f"model {source!r}: it has no tokenizer; {NO_TOKENIZER}")  # an empty one was made for it
    if not _is_lossless(tokenizer) and (Path(source) / "tokenizer.json").is_file():
        # AutoTokenizer replaces the saved pre-tokenizer of some families by its own, which may drop line breaks.
        from_file = PreTrainedTokenizerFast.from_pretrained(source)
        tokenizer = from_file if _is_lossless(from_file) else tokenizer
    tokenizer.chat_template = tokenizer.chat_template or processor_template(source, is_local)
    if not tokenizer.chat_template:
        raise ValueError(
            f"model {source!r}: its tokenizer has no chat template; take the instruct version, "
            "or put a chat_template.jinja beside tokenizer.json"
        )
    _check_template(tokenizer, source)
    return tokenizer


def _part_at_fault(source: str, error: Exception) -> tuple[str, Exception]:
    """Return what does not load where a tokenizer raised `error`, and why: config.json says which class it has."""
    try:
        if (Path(source) / "config.json").is_file():
            AutoConfig.from_pretrained(source, local_files_only=True)
    except Exception as config_error:
        return "config.json", config_error
    return "tokenizer", error


def _check_template(tokenizer: PreTrainedTokenizerBase, source: str) -> None:
    """Raise `ValueError` if the chat template is no template; what messages it takes shows when it gets them."""
    try:
        tokenizer.apply_chat_template([{"role": "user", "content": "a"}], tokenize=False)
    except TemplateSyntaxError as error:
        raise ValueError(f"model {source!r}: its chat template is damaged at line {error.lineno}: {error}") from None
    except Exception:
        return


def _load_model(
    source: str, is_local: bool, dtype: torch.dtype | str, auto: Any = AutoModelForCausalLM
) -> PreTrainedModel:
    try:
        with _quiet():
            model, info = auto.from_pretrained(
                source, dtype=dtype, local_files_only=is_local, output_loading_info=True, ignore_mismatched_sizes=True
            )
    except SafetensorError as error:
        raise ValueError(f"model {source!r}: its weights are damaged or cut short: {first_line(error)}") from error
    except Exception as error:
        raise ValueError(f"model {source!r} does not load: {first_line(error)}") from error
    if missing := sorted(info["missing_keys"]):
        raise ValueError(f"model {source!r}: {len(missing)} of its weights are missing, such as {missing[0]!r}")
    if mismatches := sorted(info["mismatched_keys"]):
        key, file_shape, config_shape = mismatches[0]
        raise ValueError(
            f"model {source!r}: weight {key!r} is {tuple(file_shape)}, config.json says {tuple(config_shape)}"
        )
    if getattr(text_config(model), "attn_logit_softcapping", None):
        model.set_attn_implementation("eager")  # torch's own attention, the default, leaves the cap out (Gemma 2)
    return model


def _is_lossless(tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a line break survives encoding and decoding."""
    text = "a\nb"
    return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


@contextmanager
def _quiet() -> Iterator[None]:
    """Switch off progress bars and load reports; what matters in them is raised as an error."""
    has_progress_bar, verbosity = transformers_logging.is_progress_bar_enabled(), transformers_logging.get_verbosity()
    transformers_logging.disable_progress_bar()
    transformers_logging.set_verbosity_error()
    try:
        yield
    finally:
        transformers_logging.set_verbosity(verbosity)
        if has_progress_bar:
            transformers_logging.enable_progress_bar()
