"""Models by name: the bundled `tiny`, a folder in Hugging Face layout or `peft`'s, or an id on the Hugging Face hub."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.utils import logging

from rl.policy import lora, tiny
from rl.policy.extras import check_peft

_HUB_ID = re.compile(r"[\w-][\w.-]*(/[\w-][\w.-]*)?")


def load(
    name: str, *, device: str = "cpu", seed: int = 0, dtype: torch.dtype | str = torch.float32
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A causal language model in eval mode on `device`, and its tokenizer, which has a chat template.

    `name` is `tiny` (initialised from `seed`), a model folder, a checkpoint or run folder that holds one, or a hub id.
    An adapter comes merged into its base, which its `adapter_config.json` names. `dtype="auto"` keeps the saved one.
    ValueError, in one line, if anything is missing, broken or out of reach.
    """
    target = pick_device(device)
    loaded: tuple[Any, PreTrainedTokenizerBase] = _tiny(seed, dtype) if name == "tiny" else _read(name, dtype)
    model, tokenizer = loaded
    return model.to(target).eval(), tokenizer


def save(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | str) -> None:
    """Write both in Hugging Face layout, so that `from_pretrained` of either Auto class and vLLM read them."""
    generation = model.generation_config
    if generation is not None:
        if generation.eos_token_id is None:
            generation.eos_token_id = tokenizer.eos_token_id
        if generation.pad_token_id is None:
            generation.pad_token_id = tokenizer.pad_token_id
    with _quiet():
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)


def save_adapter(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, folder: Path | str, base: str) -> None:
    """Write the adapters of a model in peft's layout, and the tokenizer; `base` is where the plain model is."""
    lora.save(model, folder, base)
    with _quiet():
        tokenizer.save_pretrained(folder)


def lasting(name: str) -> str | None:
    """Where a plain model can be found again: a hub id, or its folder in full; None where that will not do.

    `tiny` is made from a seed, a run removes its older checkpoints, and an adapter is merged.
    """
    folder = Path(name).expanduser()
    if name == "tiny" or not folder.is_dir():
        return None if name == "tiny" else name
    whole = folder.resolve()
    passing = whole.parent.parent.name == "checkpoints"  # RUN/checkpoints/NAME/model
    return str(whole) if (whole / "config.json").is_file() and not passing else None


def pick_device(name: str) -> torch.device:
    """The device `cpu`, `cuda` or `cuda:N`; `auto` is `cuda` where there is one."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    if not re.fullmatch(r"cpu|cuda(:\d+)?", name):
        raise ValueError(f"device {name!r}: take auto, cpu, cuda or cuda:N")
    device = torch.device(name)
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise ValueError(f"device {name!r}: torch {torch.__version__} sees {torch.cuda.device_count()} GPUs; take cpu")
    return device


def _tiny(seed: int, dtype: torch.dtype | str) -> tuple[Any, PreTrainedTokenizerBase]:
    """The bundled model. Its weights alone are cast: the table of rotary frequencies stays exact, as in any model."""
    model, tokenizer = tiny.create(seed)
    return _cast(model, dtype) if isinstance(dtype, torch.dtype) else model, tokenizer


def _cast(model: Any, dtype: torch.dtype) -> Any:
    for weight in model.parameters():
        weight.data = weight.data.to(dtype)
    model.config.dtype = dtype
    return model


def _read(name: str, dtype: torch.dtype | str, above: tuple[Path, ...] = ()) -> tuple[Any, PreTrainedTokenizerBase]:
    source, cached = _find(name)
    if (Path(source) / lora.CONFIG).is_file():
        return _read_adapter(Path(source), dtype, above)
    tokenizer = _load_tokenizer(source, cached)
    return _load_model(source, cached, dtype), tokenizer


def _read_adapter(
    folder: Path, dtype: torch.dtype | str, above: tuple[Path, ...]
) -> tuple[Any, PreTrainedTokenizerBase]:
    """An adapter merged into its base, with its own tokenizer where one is there; `above` are those that end on it.

    The sum is made in float32 and then rounded: in bfloat16 a small adapter would be lost in each of its parts.
    """
    check_peft()
    if folder.resolve() in above:
        raise ValueError(f"adapter {str(folder)!r} has itself as its base")
    base = lora.base_of(folder)
    try:
        model, tokenizer = _read(base, dtype if dtype == "auto" else torch.float32, (*above, folder.resolve()))
    except ValueError as error:
        raise ValueError(f"adapter {str(folder)!r}: its base does not load: {error}") from error
    if (folder / "tokenizer_config.json").is_file():
        tokenizer = _load_tokenizer(str(folder), True)
    wanted = dtype if isinstance(dtype, torch.dtype) else model.dtype
    try:
        return _cast(lora.merge(_cast(model, torch.float32), folder), wanted), tokenizer
    except Exception as error:
        raise ValueError(f"adapter {str(folder)!r} does not fit {base!r}: {_first_line(error)}") from error


def _find(name: str) -> tuple[str, bool]:
    """Where the files are, and whether no network is needed to read them."""
    folder = Path(name).expanduser()
    if not name.strip():
        raise ValueError(f"model {name!r}: give tiny, a folder or a hub id")
    if folder.is_dir():
        for inner in (folder, folder / "model", folder / "checkpoints" / "latest" / "model"):
            if any((inner / config).is_file() for config in ("config.json", lora.CONFIG)):
                return str(inner), True
        raise ValueError(f"model {name!r}: no config.json in this folder, its model/ or its checkpoints/latest/model/")
    if folder.exists():
        raise ValueError(f"model {name!r} is a file; give its folder, {str(folder.parent)!r}")
    if not _HUB_ID.fullmatch(name):
        raise ValueError(f"model {name!r}: no such folder; {_nearest(folder)}")
    if "/" not in name and get_close_matches(name.lower(), ["tiny"]):
        raise ValueError(f"no model {name!r}; did you mean 'tiny'?")
    return name, _look_up(name, folder)


def _nearest(path: Path) -> str:
    """What a mistyped path probably meant."""
    found = next(parent for parent in path.absolute().parents if parent.is_dir())
    for part in path.absolute().relative_to(found).parts:
        names = [entry.name for entry in found.iterdir()] if found.is_dir() else []
        close = [part] if part in names else get_close_matches(part, names, n=1)
        if not close:
            return f"the nearest that exists is {str(found)!r}"
        found /= close[0]
    return f"did you mean {str(found)!r}?"


def _look_up(name: str, folder: Path) -> bool:
    """Whether the hub's local cache holds the model; ValueError if it does not and the hub has no answer either."""
    from huggingface_hub import HfApi, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return True
    try:
        found = HfApi().model_info(name, timeout=10)  # one request: from_pretrained would retry for half a minute
    except GatedRepoError:
        raise ValueError(f"model {name!r} is gated: accept its licence on the hub, then run `hf auth login`") from None
    except RepositoryNotFoundError:
        raise ValueError(f"no model {name!r}: neither on the Hugging Face hub nor here; {_nearest(folder)}") from None
    except Exception as error:  # offline mode, no network, a proxy's answer: all mean the same to the user
        raise ValueError(
            f"model {name!r}: no such folder here ({_nearest(folder)}), and the Hugging Face hub is out of reach "
            f"({_first_line(error)})"
        ) from error
    files = {one.rfilename for one in found.siblings or ()}
    if lora.CONFIG in files and "config.json" not in files:
        raise ValueError(f"model {name!r} is an adapter: `hf download {name} --local-dir DIR`, then give DIR")
    return False


def _load_tokenizer(source: str, cached: bool) -> PreTrainedTokenizerBase:
    try:
        tokenizer = AutoTokenizer.from_pretrained(source, local_files_only=cached)
    except Exception as error:
        raise ValueError(f"model {source!r}: its tokenizer does not load: {_first_line(error)}") from error
    if not _is_lossless(tokenizer) and (Path(source) / "tokenizer.json").is_file():
        # AutoTokenizer puts some families' own pre-tokenizer in place of the saved one, which may drop line breaks.
        saved = PreTrainedTokenizerFast.from_pretrained(source)
        tokenizer = saved if _is_lossless(saved) else tokenizer
    if not tokenizer.chat_template:
        raise ValueError(
            f"model {source!r}: its tokenizer has no chat template; take the instruct version, "
            "or put a chat_template.jinja beside tokenizer.json"
        )
    return tokenizer


def _load_model(source: str, cached: bool, dtype: torch.dtype | str) -> PreTrainedModel:
    auto: Any = AutoModelForCausalLM
    try:
        with _quiet():
            model, found = auto.from_pretrained(
                source, dtype=dtype, local_files_only=cached, output_loading_info=True, ignore_mismatched_sizes=True
            )
    except SafetensorError as error:
        raise ValueError(f"model {source!r}: its weights are damaged or cut short: {_first_line(error)}") from error
    except Exception as error:
        raise ValueError(f"model {source!r} does not load: {_first_line(error)}") from error
    if missing := sorted(found["missing_keys"]):
        raise ValueError(f"model {source!r}: {len(missing)} of its weights are missing, such as {missing[0]!r}")
    if wrong := sorted(found["mismatched_keys"]):
        key, saved, wanted = wrong[0]
        raise ValueError(f"model {source!r}: weight {key!r} is {tuple(saved)}, config.json says {tuple(wanted)}")
    return model


def _is_lossless(tokenizer: PreTrainedTokenizerBase) -> bool:
    text = "a\nb"
    return tokenizer.decode(tokenizer.encode(text, add_special_tokens=False)) == text


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _quiet() -> Iterator[None]:
    """No progress bars and load reports: what matters of them is raised as an error."""
    shown, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if shown:
            logging.enable_progress_bar()
