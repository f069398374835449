"""An engine of vLLM that failed in this process: closed, it is out of memory like any other, and another can start."""

import gc
import weakref

import pytest
import torch

from tests.support.sampling import PROMPT, params, sample_all
from tests.support.vllm import needs_vllm, open_vllm, vllm_model

pytestmark = needs_vllm


def test_a_failed_engine_is_freed_although_its_error_is_kept(monkeypatch):
    def fail(*arguments, **options):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with open_vllm(vllm_model(), slots=4, context=64) as policy:
        engine = policy.engine._engine
        references = [weakref.ref(engine), weakref.ref(engine.model_executor.driver_worker.worker)]
        monkeypatch.setattr(engine.model_executor.driver_worker.worker.model_runner, "execute_model", fail)
        del engine
        with pytest.raises(RuntimeError, match="ran out of memory while sampling"):
            sample_all(policy, (PROMPT, params(1, 4)))
        monkeypatch.undo()
    assert policy.failure.__cause__ is not None
    gc.collect()
    assert [reference() for reference in references] == [None, None]
    with open_vllm(vllm_model(), slots=2, context=64) as other:
        assert len(sample_all(other, (PROMPT, params(1, 4, stop=())))[0].ids) == 4
