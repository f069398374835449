"""A language model as the world model of `envs.simulated`: it writes what the environment would have answered."""

from __future__ import annotations

import math
import threading
from collections.abc import Sequence
from functools import cache

import numpy as np

from agents.chat import ChatAgent
from agents.render import Renderer
from envs.adapters.loop_thread import LoopThread
from envs.simulated.prediction import MAX_OBSERVATION, Prediction, Simulator, read_prediction, request
from envs.types import Message, final_text
from rl.policy.model_config import end_tokens, max_sequence_length
from rl.policy.pretrained import load_pretrained
from rl.policy.registry import open_engine
from rl.records import SamplingParams

ATTEMPTS = 3  # at a prediction that can be read
REPLY_TOKENS = 1024  # at most, of one prediction
SECONDS = 600.0  # for one attempt


class WorldModel(Simulator):
    """Samples predictions from a causal language model, at temperature 1: the chances of the environment are its own.

    The model should have learnt the form of a prediction, by training on `transitions:ID`, or understand it when it is
    told (full style). A text in another form is sampled again, at most `ATTEMPTS` times.

    Args:
        source: Folder or Hugging Face id of the model, or the folder of a run.
        engine: Name of the engine that samples, see `rl.policy.registry`.
        device: Device of the model; "auto" for an accelerator if there is one.
    """

    def __init__(self, source: str, *, engine: str = "hf", device: str = "auto") -> None:
        model, tokenizer = load_pretrained(source, device=device, seed=0)
        model.requires_grad_(False)
        self.version = source
        self.engine = open_engine(engine, model, context=max_sequence_length(model, engine))
        self.renderer = Renderer(tokenizer, most_tokens=self.engine.context, stop_ids=end_tokens(model))
        self._requests = 0
        self._loop = LoopThread("world model")

    def predict(self, dialogue: Sequence[Message], rng: np.random.Generator, style: str) -> Prediction:
        """Sample what follows the last reply.

        Raises RuntimeError if no attempt has the form of a prediction, or the dialogue is too long for the model.
        """
        fault = ""
        for _ in range(ATTEMPTS):
            seed = int(rng.integers(2**63))
            answer, logprob = self._loop.run(self._sample, SECONDS, request(dialogue, style), seed)
            try:
                prediction = read_prediction(answer, style)
            except ValueError as error:
                fault = str(error)
                continue
            return Prediction(
                prediction.observation,
                prediction.terminated,
                prediction.success,
                uncertainty=1.0 - math.exp(logprob),
                logprob=logprob,
            )
        raise RuntimeError(f"the world model {self.version} wrote no prediction in {ATTEMPTS} attempts: {fault}")

    def close(self) -> None:
        """Stop the engine and free its memory."""
        self._loop.close()
        self.engine.close()

    async def _sample(self, messages: Sequence[Message], seed: int) -> tuple[str, float]:
        """Sample one text; return it with its log-probability."""
        self._requests += 1
        session = f"prediction/{self._requests}"
        agent = ChatAgent(self.renderer)
        prompt = agent.open(messages).ids
        room = self.engine.context - len(prompt)
        if room < 1:
            raise RuntimeError(f"{len(prompt)} tokens of an episode are too many for the world model {self.version}")
        params = SamplingParams(max_tokens=min(REPLY_TOKENS, room), seed=seed, stop=agent.stop, deadline_s=SECONDS)
        try:
            completion = await self.engine.sample(prompt, params, session=session)
        finally:
            self.engine.release(session)
        answer = final_text(self.renderer.parse(completion.ids, prompt=prompt)).strip("\n")
        return answer[: 2 * MAX_OBSERVATION], float(sum(completion.logprobs))


def shared_world_model(source: str) -> Simulator:
    """Return the world model of `source`, loaded once per process for all environments, and never closed."""
    with _loading:
        return _shared(source)


@cache
def _shared(source: str) -> Simulator:
    return _Shared(WorldModel(source))


class _Shared(Simulator):
    """A world model that its users cannot close."""

    def __init__(self, model: WorldModel) -> None:
        self.model, self.version = model, model.version

    def __reduce__(self) -> tuple:
        """Pickle it by its name; a copy shares the model, or loads it in another process."""
        return shared_world_model, (self.version,)

    def predict(self, dialogue: Sequence[Message], rng: np.random.Generator, style: str) -> Prediction:
        """Ask the model."""
        return self.model.predict(dialogue, rng, style)


_loading = threading.Lock()
