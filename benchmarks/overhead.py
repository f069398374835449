"""What environments, agents and coroutines cost beside the model."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

import envs
from agents.chat import ChatAgent
from agents.render import Renderer
from benchmarks.support.agreement import Disagreement
from benchmarks.support.record import Spread, alternate
from rl.methods.parts import strategy
from rl.policy.cached_forward import CachedForward, StepInput
from rl.policy.engine import Policy
from rl.policy.hf import HFPolicy
from rl.policy.kv_cache import KVCache
from rl.records import Completion, Group, SamplingParams, Ticket
from rl.rollout.runner import Runner
from rl.seeds import derive

ENV = "math/Arithmetic-v0"


class Overhead:
    """`groups` groups of eight on `ENV`, by the engine of `model`."""

    def __init__(
        self, model: LlamaForCausalLM, tokenizer: PreTrainedTokenizerFast, *, groups: int, reply_tokens: int
    ) -> None:
        """Play once, to have the environments made and the requests recorded."""
        renderer = Renderer(tokenizer)
        self.policy = HFPolicy(model, slots=groups * 8)
        self.forward = self.policy.forward = _Metered(self.policy.forward)
        self.requests = _Recorded(self.policy)
        self.runner = Runner(
            make_env=lambda: envs.make(ENV, style="short"),
            make_agent=lambda: ChatAgent(renderer),
            policy=self.requests,
            params=SamplingParams(max_tokens=reply_tokens),
            max_tokens=512,
        )
        self.tickets = [Ticket(n, n, "train", derive(n), size=8) for n in range(groups)]
        played = self.play()
        if errors := [one.error for group in played for one in group.errored]:
            raise RuntimeError(f"{len(errors)} of {len(errors) + 8 * groups} episodes failed: {errors[0]}")
        completions = [turn.completion for group in played for one in group.trajectories for turn in one.turns]
        if completions != self.sample():
            raise Disagreement("whole groups and their requests alone draw different tokens")
        self.tokens = sum(len(completion.ids) for completion in completions)
        self.runner.policy = self.policy

    def play(self) -> list[Group]:
        """The groups, as a run plays them."""
        for ticket in self.tickets:
            self.runner.play_state.close_group(ticket)  # otherwise its members count as finished and are not played

        async def together() -> list[Group]:
            played = await asyncio.gather(*(strategy.independent(self.runner, ticket) for ticket in self.tickets))
            return [group for groups in played for group in groups]

        return asyncio.run(together())

    def sample(self) -> list[Completion]:
        """The same requests, with nobody behind them."""

        async def together() -> list[Completion]:
            return await asyncio.gather(*(self._sample(*request) for request in self.requests.seen))

        return asyncio.run(together())

    async def _sample(self, prompt: Sequence[int], params: SamplingParams, session: str) -> Completion:
        completion = await self.policy.sample(prompt, params, session=session)
        self.policy.release(session)
        return completion

    def measure(self, rounds: int, device: torch.device) -> dict[str, Any]:
        """CPU seconds of both, and how those of whole groups divide."""
        forwards: list[float] = []

        def engine() -> None:
            self.forward.seconds = 0.0
            self.sample()
            forwards.append(self.forward.seconds)

        found = alternate({"groups": self.play, "engine": engine}, rounds, device)
        triples = [
            (groups.cpu, engine.cpu, forward)
            for groups, engine, forward in zip(found["groups"], found["engine"], forwards[-rounds:], strict=True)
        ]
        episodes = 8 * len(self.tickets)
        return {
            "env": ENV,
            "episodes": episodes,
            "tokens": self.tokens,
            "cpu_s": Spread.of([whole for whole, _, _ in triples]),
            "share": {
                "the model's forward": Spread.of([forward / whole for whole, _, forward in triples]),
                "the engine around it": Spread.of([(engine - forward) / whole for whole, engine, forward in triples]),
                "environment, agent, player": Spread.of([(whole - engine) / whole for whole, engine, _ in triples]),
            },
            "beside_engine_us_per_episode": Spread.of([1e6 * (a - b) / episodes for a, b, _ in triples]),
        }


class _Metered:
    """A `CachedForward` that counts its CPU seconds."""

    def __init__(self, inner: CachedForward) -> None:
        self.inner, self.seconds = inner, 0.0
        self.layers, self.kv_heads, self.head_dim = inner.layers, inner.kv_heads, inner.head_dim

    def refresh(self) -> None:
        self.inner.refresh()

    def logits(self, cache: KVCache, step: StepInput) -> Tensor:
        began = time.process_time()
        found = self.inner.logits(cache, step)
        self.seconds += time.process_time() - began
        return found


class _Recorded(Policy):
    """A `Policy` that remembers what it was asked."""

    def __init__(self, inner: HFPolicy) -> None:
        self.inner, self.version = inner, inner.version
        self.seen: list[tuple[Sequence[int], SamplingParams, str]] = []

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", resume_from: Completion | None = None
    ) -> Completion:
        self.seen.append((tuple(prompt), params, session))
        return await self.inner.sample(prompt, params, session=session, resume_from=resume_from)

    def release(self, session: str) -> None:
        self.inner.release(session)
