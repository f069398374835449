"""Starting vLLM in this process, with its side effects contained.

What remains: the default process group of `torch.distributed` (taken over if there is one, gone once the engine is
closed), a NUMA policy for memory on machines with several nodes, and on a CPU build `torch.cuda.Stream`,
`torch.Tensor.pin_memory` and their like, which do nothing any more; with its own sampler there, `torch.compile` too.
"""

from __future__ import annotations

import json
import os
import random
import sys
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from transformers import PreTrainedModel

from rl.policy.vllm.engine_config import EngineConfig
from rl.policy.vllm.requests import BACKEND, WORKER_EXTENSION, UnsupportedAdapters

ENVIRONMENT = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0"}  # read by vLLM, some of it when it is imported
# The second model runner, where it is the default, does not take `KeyedSampler`.
KEYED_ENVIRONMENT = {"VLLM_USE_V2_MODEL_RUNNER": "0"}
# Unless they are set already. A forked worker would hold open what the engine's process does.
DEFAULT_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_LOGGING_LEVEL": "ERROR",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",
}


def launch_vllm(config: EngineConfig, folder: Path) -> Any:
    """Start vLLM with random weights and return its `LLMEngine`.

    The model's files are written to `folder`. vLLM reads its processor there when it meets the first image; without
    `config.images` it needs nothing of them any more.

    Raises `ValueError` if it does not start, and `UnsupportedAdapters` if it would start without the adapters.
    """
    _set_environment(config.draws)
    from vllm.config import WeightTransferConfig

    options = {
        **config.memory.options,
        **_lora_options(config),
        **_sampler_options(config),
        **_image_options(config),
    }
    if config.can_sleep:
        options["enable_sleep_mode"] = True
    if config.tensor_parallel_size > 1:
        options |= {"tensor_parallel_size": config.tensor_parallel_size, "distributed_executor_backend": "mp"}
    for name, content in config.images.processor if config.images else ():
        (folder / name).write_bytes(content)
    (folder / "config.json").write_text(config.model_config, encoding="utf-8")  # the weights are loaded later
    options |= {
        "model": str(folder),
        "worker_extension_cls": WORKER_EXTENSION,
        "weight_transfer_config": WeightTransferConfig(backend=BACKEND),
    }
    # The engine has no name in this frame: imports of vLLM begin in it, and something that vLLM's `arg_utils` imports
    # keeps an error, with all frames below it, for as long as the process lives.
    return _prepare(_make_llm_engine(config, **options), config)


def _prepare(engine: Any, config: EngineConfig) -> Any:
    """Make a new engine ready for weights, and return it."""
    if config.images:
        engine.model_executor.collective_rpc(
            "turnwise_feed_stand_in", args=(config.images.token, config.images.stand_in)
        )
    engine.model_executor.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
    if config.lora_rank:
        engine.model_executor.collective_rpc("turnwise_multiply_by_one_adapter")
    return engine


def _set_environment(draws: str) -> None:
    """Set vLLM's environment variables for an engine with these draws."""
    os.environ.update(ENVIRONMENT | (KEYED_ENVIRONMENT if draws == "keyed" else {}))
    for name, value in DEFAULT_ENVIRONMENT.items():
        os.environ.setdefault(name, value)


def _sampler_options(config: EngineConfig) -> dict[str, Any]:
    """Return vLLM's options about who draws tokens, and what that allows.

    `KeyedSampler` needs a step to end with its tokens, so that vLLM neither schedules ahead nor computes by CUDA
    graphs. vLLM's own sampler allows both; its graphs compute with weights that were replaced, because these stay in
    their places. Raises `ValueError` if this vLLM does not tell log-probabilities under the sampled distribution.
    """
    if config.draws == "keyed":
        from rl.policy.vllm.sampler import KeyedSampler

        return {"logits_processors": [KeyedSampler], "enforce_eager": True, "async_scheduling": False}
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform

    if "logprobs_mode" not in {field.name for field in fields(EngineArgs)}:
        raise ValueError("this vLLM has no logprobs_mode, which its own sampler needs: use --engine vllm:keyed")
    is_cpu = current_platform.is_cpu()
    if is_cpu:  # otherwise vLLM compiles its sampler for a minute, for nothing on models that a CPU can train
        torch._dynamo.config.disable = True
    return {"logprobs_mode": "processed_logprobs", "enforce_eager": is_cpu}


def _image_options(config: EngineConfig) -> dict[str, Any]:
    """Return vLLM's options about images: no fewer in a prompt than fit, and pixels that its processor normalises.

    Newer versions would let the model normalise them, by numbers that starting with random weights overwrites.
    """
    if not config.images:
        return {}
    from vllm.engine.arg_utils import EngineArgs

    options: dict[str, Any] = {"limit_mm_per_prompt": {"image": config.context, "video": 0}}
    if "mm_device_do_normalize" in {field.name for field in fields(EngineArgs)}:
        options["mm_device_do_normalize"] = False
    return options


def _lora_options(config: EngineConfig) -> dict[str, Any]:
    """Return vLLM's options about adapters. Raises `UnsupportedAdapters` if vLLM cannot serve them."""
    if not config.lora_rank:
        return {}
    if config.lora_tower:
        raise UnsupportedAdapters(
            f"vLLM serves adapters on the language model alone, and {config.lora_tower} has one (--lora-targets)"
        )
    from vllm.config.lora import MaxLoRARanks
    from vllm.model_executor.models import ModelRegistry, supports_lora

    (name,) = json.loads(config.model_config)["architectures"]
    model = ModelRegistry.models.get(name)
    if model is None or not supports_lora(model.load_model_cls()) or "experts" in config.lora_targets:
        raise UnsupportedAdapters(f"vLLM serves no adapters on {', '.join(config.lora_targets)} of {name}")
    ranks = get_args(MaxLoRARanks)
    if config.lora_rank > max(ranks):
        raise UnsupportedAdapters(
            f"vLLM serves adapters of rank {max(ranks)} at most, and these have {config.lora_rank}"
        )
    rank = min(rank for rank in ranks if rank >= config.lora_rank)
    targets = list(config.lora_targets)
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": rank, "lora_target_modules": targets}


def _make_llm_engine(config: EngineConfig, **options: Any) -> Any:
    """Start vLLM's `LLMEngine`. Raises `ValueError` with the first lines of vLLM's error."""
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    args = EngineArgs(
        load_format="dummy",
        skip_tokenizer_init=config.images is None,  # a processor of images has the tokenizer that it writes for
        generation_config="vllm",  # no defaults from a model's generation config
        dtype=str(config.dtype).removeprefix("torch."),  # type: ignore[arg-type]
        max_model_len=config.context,
        max_num_seqs=config.slots,
        enable_prefix_caching=True,
        disable_log_stats=True,
        **options,
    )
    try:
        with _stdout_with_descriptor():
            return LLMEngine.from_engine_args(args)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        reason = " ".join(lines[:3]) or type(error).__name__
        if config.images and find_spec("torchvision") is None:
            reason += " (it reads the images of most models with torchvision, which is not installed: docs/vllm.md)"
        raise ValueError(f"vLLM does not start ({config.memory.description}): {reason}") from error


def _stdout_with_descriptor() -> AbstractContextManager[Any]:
    """Context in which `sys.stdout` has a file descriptor, which vLLM 0.26 asks for: that of the process, if any."""
    try:
        sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return redirect_stdout(sys.__stdout__) if sys.__stdout__ else nullcontext()
    return nullcontext()


def _is_built_by_vllm() -> bool:
    from vllm.config.vllm import get_current_vllm_config_or_none

    return get_current_vllm_config_or_none() is not None


@contextmanager
def _spare_model_classes() -> Iterator[None]:
    """Context of vLLM's start, after which classes of transformers' models work outside of vLLM as they did.

    Of a family that vLLM has no code of its own for it takes transformers', and changes how instances of the class are
    made and called, in place. The trainer's model is one too.
    """
    classes: list[Any] = list(_subclasses(PreTrainedModel))
    before = {cls: (cls.__init__, cls.__call__) for cls in classes}
    try:
        yield
    finally:
        for cls, originals in before.items():
            if "__call__" in vars(cls) and cls.__call__ is not originals[1]:
                _divide(cls, *originals)


def _subclasses(cls: Any) -> Iterator[Any]:
    for one in cls.__subclasses__():
        yield one
        yield from _subclasses(one)


def _divide(cls: Any, init: Any, call: Any) -> None:
    """Give what vLLM has made of a class to vLLM's instances alone, and the original methods to others."""
    vllm_init, vllm_call = cls.__init__, cls.__call__

    def new_init(self: Any, *args: Any, **kwargs: Any) -> None:
        (vllm_init if _is_built_by_vllm() else init)(self, *args, **kwargs)

    def new_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (vllm_call if "do_not_compile" in vars(self) else call)(self, *args, **kwargs)

    cls.__init__, cls.__call__ = new_init, new_call


@contextmanager
def contain_side_effects() -> Iterator[None]:
    """Context that restores global random states, thread settings and environment variables after vLLM's start.

    Variables of vLLM itself (`VLLM_*`) stay set, but not those of one engine alone.
    """
    environment, set_num_threads = dict(os.environ), torch.set_num_threads
    random_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002 (vLLM uses it)
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=gpus), warnings.catch_warnings(), _spare_model_classes():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(random_state)
        np.random.set_state(numpy_state)  # noqa: NPY002
        torch.set_num_threads = set_num_threads  # type: ignore[assignment]
        for name in os.environ.keys() - environment.keys():
            if not name.startswith("VLLM_") or name in KEYED_ENVIRONMENT:
                del os.environ[name]
        os.environ.update(environment)
