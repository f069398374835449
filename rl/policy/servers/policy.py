"""Servers of vLLM as one `Engine`: each group asks one of them, and all get the weights before the next token."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import torch
from torch import nn

from agents.images import PlacedImage
from rl.policy import lora
from rl.policy.engine import Engine, EngineDead, EngineRefuses
from rl.policy.images.inputs import image_inputs
from rl.policy.model_config import max_sequence_length, text_config
from rl.policy.pool.routing import Router
from rl.policy.registry import default_dtype
from rl.policy.request import Request
from rl.policy.servers.connection import ServerLost
from rl.policy.servers.fleet import Fleet
from rl.policy.servers.loop_thread import LoopThread
from rl.policy.servers.server import Expected, ServerUnfit
from rl.policy.servers.weights import NotWritten, WeightFolder
from rl.records import Completion, SamplingParams

HANG_UP_S = 5.0


class ServerPolicy(Engine):
    """An engine over servers that were started by somebody else, and that go on when it is closed.

    All requests are made on a thread of their own, so that servers are heard while the run computes. A server that is
    lost has no part in a reply: what it sampled last is asked for again, of another one, or of itself once it is back
    and has got the newest weights.
    """

    def __init__(
        self, model: nn.Module, urls: Sequence[str], *, slots: int = 256, context: int | None = None, dtype: str = ""
    ) -> None:
        """Check all servers and give them the model's weights.

        Args:
            model: A Hugging Face causal language model.
            urls: Addresses of the servers (`rl.policy.servers.address.server_url`).
            slots: Most requests at the same time.
            context: Most tokens of one sequence; None for the most that the model can compute.
            dtype: Precision that the servers compute in; empty for bfloat16 on a GPU and float32 on a CPU.

        Raises:
            ValueError: A server is not there, cannot be used or does not take over the weights, or the model would
                lose small adapters.
        """
        dtype = dtype or default_dtype("vllm", next(model.parameters()).device.type, "")
        _check_model(model, urls[0], dtype)
        self.context = context or max_sequence_length(model, "vllm")
        self._number, self._version = 0, 0
        self._versions = {0: 0}  # by the number of their weights
        self._router, self._names = Router(len(urls)), count()
        self._num_tokens = [0] * len(urls)  # since `metrics`
        self._num_repeats, self._counts_before = 0, (0, 0)
        self._main_loop: asyncio.AbstractEventLoop | None = None
        self._folder = WeightFolder(model, getattr(torch, dtype), self.context, secrets.token_hex(4))
        self._thread = LoopThread("servers")
        try:
            reader = image_inputs(model)
            images = (reader.token, reader.stand_in) if reader else None
            expected = Expected(text_config(model).to_dict(), dtype, self.context, images)
            self._fleet = Fleet(urls, expected, self._folder, self._fail)
            self._thread.run(self._fleet.open(self._folder.write(0)))
        except (ServerLost, ServerUnfit) as error:
            self.close()
            raise ValueError(f"--engine-url {error}; docs/vllm.md says how to start one") from None
        except NotWritten as error:
            self.close()
            raise ValueError(str(error)) from None
        except BaseException:
            self.close()
            raise
        self.slots = min(slots, sum(server.slots for server in self._fleet.servers))
        number = f"{len(urls)} servers" if len(urls) > 1 else "a server"
        self.description = f"vLLM: {number} of your own ({', '.join(urls)}), with vLLM's own sampler"

    @property
    def version(self) -> int:  # type: ignore[override]
        """See `Policy`."""
        return self._version

    @version.setter
    def version(self, version: int) -> None:
        self._version = self._versions[self._number] = version

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        session: str = "",
        resume_from: Completion | None = None,
        images: Sequence[PlacedImage] = (),
    ) -> Completion:
        """Sample one reply; arguments, result and errors are as `Policy.sample` says.

        Images are refused, which ends the run.
        """
        if not 0 < len(prompt) < self.context:
            raise ValueError(
                f"a prompt of {len(prompt)} tokens; a context of {self.context} has room for 1 to {self.context - 1}"
            )
        self._main_loop = asyncio.get_running_loop()
        if images:
            refusal = (
                "a server of --engine-url is given text alone, and this environment shows images; use --engine "
                "vllm:process in a new run"
            )
            self._fail(refusal, EngineRefuses)
            await asyncio.wrap_future(self._thread.submit(self._ready_servers()))
        return await asyncio.wrap_future(self._thread.submit(self._sample(prompt, params, session, resume_from)))

    def release(self, session: str) -> None:
        """See `Policy`."""
        self._thread.call(self._router.release, session)

    def sync_weights(self) -> None:
        """Let every server take over the model's weights before its next token, and increase `version`.

        Open requests continue behind the tokens that they have. A server that is lost gets the weights when it is back.
        Raises `EngineDead` if the weights cannot be written and `on_failure` is None; else sets `failure` and calls it.
        """
        self._version += 1
        self._number += 1
        self._versions[self._number] = self._version
        if self.failure is None:
            try:
                weights = self._folder.write(self._number)
            except NotWritten as error:
                self._fail(str(error))
            else:
                self._thread.run(self._fleet.push(weights))
        if self.failure is not None and self.on_failure is None:
            raise self.failure

    def metrics(self) -> dict[str, float]:
        """Return metrics since the last call: servers that came back, repeated replies, how unevenly they were used."""
        tokens, self._num_tokens = self._num_tokens, [0] * len(self._num_tokens)
        (returns, repeats), self._counts_before = self._counts_before, (self._fleet.num_returns, self._num_repeats)
        return {
            "engines/restarts": float(self._fleet.num_returns - returns),
            "engines/repeats": float(self._num_repeats - repeats),
            "engines/busiest": max(tokens) * len(tokens) / sum(tokens) if any(tokens) else 1.0,
        }

    def close(self) -> None:
        """End all requests and delete the weights' file. The servers go on."""
        if hasattr(self, "_fleet"):
            with suppress(Exception):
                self._thread.submit(self._fleet.close()).result(HANG_UP_S)
        self._thread.close()
        self._folder.close()

    async def _sample(
        self, prompt: Sequence[int], params: SamplingParams, session: str, resume_from: Completion | None
    ) -> Completion:
        """Sample one reply, from as many servers and with as many sets of weights as it takes."""
        future: asyncio.Future[Completion] = asyncio.get_running_loop().create_future()
        request = Request.create(prompt, params, session, resume_from, future)
        episode = session or f"?{next(self._names)}"  # without a name, each request is an episode of its own
        try:
            async with asyncio.timeout(max(0.0, request.deadline - time.monotonic())):
                while (finish := request.finish_reason(self.context)) is None:
                    await self._continue(request, episode)
            return request.completion(finish)
        except TimeoutError:
            return request.completion("deadline")
        finally:
            if not session:
                self._router.release(episode)

    async def _continue(self, request: Request, episode: str) -> None:
        """Append to a request what one server samples without a change of its weights."""
        index = self._router.choose(episode, await self._ready_servers())
        server = self._fleet.servers[index]
        weights, loss = server.weights, server.gone
        assert weights is not None
        try:
            segment = await server.sample(request, self.context)
            if segment.labels - {weights.label}:
                raise ServerLost(f"{server.url} has other weights than it was given: was it started again?")
        except ServerLost as error:
            self._fleet.lose(index, error, loss)
            self._num_repeats += 1
            return
        except FloatingPointError as error:
            self._fail(f"{server.url}: {error}")
            await self._ready_servers()  # which there are none of
            raise
        version = self._versions[weights.number]
        for token, logprob, model_logprob, alternatives in segment.samples:
            request.append(token, logprob, model_logprob, version, alternatives)
        if segment.samples:
            self._fleet.has_replied(index)
            self._num_tokens[index] += len(segment.samples)
        elif segment.finish != "abort":
            raise RuntimeError(f"{server.url} ends a reply without a token ({segment.finish})")

    async def _ready_servers(self) -> list[int]:
        return await self._fleet.ready(lambda: self.failure, is_patient=lambda: self.on_failure is not None)

    def _fail(self, reason: str, kind: type[EngineDead] = EngineDead) -> None:
        """Note that nothing can be sampled any more."""
        if self.failure is None:
            self.failure = kind(reason)
        self._thread.call(self._fleet.notify)
        call, loop = self.on_failure, self._main_loop
        if call is None:
            return
        if loop is None or not self._thread.is_current():
            call()
        else:
            with suppress(RuntimeError):  # a loop that is gone
                loop.call_soon_threadsafe(call)


def _check_model(model: Any, url: str, dtype: str) -> None:
    """Raise `ValueError` for a model that servers cannot be given."""
    is_rounded = "bfloat16" in (dtype, str(next(model.parameters()).dtype).removeprefix("torch."))
    if is_rounded and lora.adapter_layers(model):
        raise ValueError(
            f"--engine-url {url}: a server gets adapters merged into the weights, which loses small ones in bfloat16; "
            "use --engine vllm:process, or --dtype and --engine-dtype float32"
        )
