"""Starting vLLM in this process, with its side effects contained.

What remains: the default process group of `torch.distributed` (taken over where there is one, gone once the engine is
closed), a NUMA policy for memory on machines with several nodes, and on a CPU build `torch.cuda.Stream`,
`torch.Tensor.pin_memory` and their like, which do nothing any more.
"""

from __future__ import annotations

import json
import os
import random
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch

from rl.policy.vllm.engine_config import Plan
from rl.policy.vllm.requests import Unserved

# Read by vLLM, some when it is imported. The second of V1's runners takes no processors of logits.
VARIABLES = {"VLLM_ENABLE_V1_MULTIPROCESSING": "0", "VLLM_USE_V2_MODEL_RUNNER": "0"}
# Unless they are set already. A forked worker would hold open what the engine's process does.
WISHES = {"VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "ERROR", "VLLM_WORKER_MULTIPROC_METHOD": "spawn"}


def launched(plan: Plan, home: str | None) -> Any:
    """Start vLLM as planned, with weights that mean nothing.

    Raises `ValueError`, in one line, where it does not start, and `Unserved` where it would without the adapters.
    """
    os.environ.update(VARIABLES)
    for name, value in WISHES.items():
        os.environ.setdefault(name, value)
    from vllm.config import WeightTransferConfig

    from rl.policy.vllm.sampler import Drawing
    from rl.policy.vllm.worker import BACKEND, Extension

    options = {**plan.room.options, **_adaptable(plan)}
    if plan.sleeps:
        options["enable_sleep_mode"] = True
    if plan.parallel > 1:
        options |= {"tensor_parallel_size": plan.parallel, "distributed_executor_backend": "mp"}
    with tempfile.TemporaryDirectory(prefix="turnwise-", dir=home) as described:
        Path(described, "config.json").write_text(plan.config, encoding="utf-8")  # alone: the weights come over later
        engine = _engine(
            plan,
            model=described,
            logits_processors=[Drawing],
            worker_extension_cls=f"{Extension.__module__}.{Extension.__qualname__}",
            weight_transfer_config=WeightTransferConfig(backend=BACKEND),
            **options,
        )
    engine.model_executor.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
    if plan.rank:
        engine.model_executor.collective_rpc("turnwise_one_adapter")
    return engine


def _adaptable(plan: Plan) -> dict[str, Any]:
    """What vLLM is told of adapters. Raises `Unserved` where it does not serve them."""
    if not plan.rank:
        return {}
    from vllm.config.lora import MaxLoRARanks
    from vllm.model_executor.models import ModelRegistry, supports_lora

    (name,) = json.loads(plan.config)["architectures"]
    known = ModelRegistry.models.get(name)
    if known is None or not supports_lora(known.load_model_cls()) or "experts" in plan.targets:
        raise Unserved(f"vLLM serves no adapters on {', '.join(plan.targets)} of {name}")
    ranks = get_args(MaxLoRARanks)
    if plan.rank > max(ranks):
        raise Unserved(f"vLLM serves adapters of rank {max(ranks)} at most, and these have {plan.rank}")
    rank = min(rank for rank in ranks if rank >= plan.rank)
    return {"enable_lora": True, "max_loras": 1, "max_lora_rank": rank, "lora_target_modules": list(plan.targets)}


def _engine(plan: Plan, **given: Any) -> Any:
    from vllm.engine.arg_utils import EngineArgs
    from vllm.v1.engine.llm_engine import LLMEngine

    options = EngineArgs(
        load_format="dummy",
        skip_tokenizer_init=True,
        generation_config="vllm",  # ours alone
        dtype=str(plan.dtype).removeprefix("torch."),  # type: ignore[arg-type]
        max_model_len=plan.context,
        max_num_seqs=plan.slots,
        enforce_eager=True,
        enable_prefix_caching=True,
        async_scheduling=False,  # a step ends with its tokens
        disable_log_stats=True,
        **given,
    )
    try:
        return LLMEngine.from_engine_args(options)
    except torch.OutOfMemoryError:
        raise
    except (ValueError, RuntimeError, NotImplementedError, AssertionError) as error:
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ValueError(
            f"vLLM does not start ({plan.room.words}): {' '.join(lines[:3]) or type(error).__name__}"
        ) from error


@contextmanager
def contained() -> Iterator[None]:
    """Undo what vLLM does to the process: global luck, threads, variables that child processes would inherit."""
    before, set_num_threads = dict(os.environ), torch.set_num_threads
    luck, numbers = random.getstate(), np.random.get_state()  # noqa: NPY002 (vLLM's, not ours)
    gpus = [torch.cuda.current_device()] if torch.cuda.is_initialized() else []
    try:
        with torch.random.fork_rng(devices=gpus), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        random.setstate(luck)
        np.random.set_state(numbers)  # noqa: NPY002
        torch.set_num_threads = set_num_threads  # type: ignore[assignment]
        for name in os.environ.keys() - before.keys():
            if not name.startswith("VLLM_"):
                del os.environ[name]
        os.environ.update(before)
