"""One server of vLLM as a run sees it: what it must be like, the weights that it is given, and its replies."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from rl.policy.engine import LOGITS_NOT_FINITE
from rl.policy.servers.connection import Connection, Refused, ServerLost
from rl.policy.servers.weights import Weights
from rl.policy.vllm.requests import BACKEND, WORKER_EXTENSION, EngineRequest, SampledToken
from rl.policy.vllm.samples import limits, native_options, sampled_token

INSPECTION_S = 60.0  # for an answer about what the server is
ABORT_S = 5.0  # in which requests that a pause ends have been answered
GENERATE = "/inference/v1/generate"
DEV_MODE = "VLLM_SERVER_DEV_MODE=1"
MODES = "processed_logprobs"
NOT_FINITE = -9999.0  # vLLM's word for a log-probability that is not finite
COMPARED = (  # settings of a model whose weights have other shapes, or other names, where they differ
    *("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads"),
    *("num_key_value_heads", "head_dim", "tie_word_embeddings"),
)


class ServerUnfit(Exception):
    """The server must be started in another way, or cannot serve this model: asking again does not help."""


class Expected(NamedTuple):
    """What a server must be like.

    Attributes:
        config: The Hugging Face config of its language model.
        dtype: The precision that it computes in.
        context: Most tokens of a sequence.
        images: Of a model that reads images, which a server is not given, the token that stands for a part of one, and
            the token that the model reads where a policy has sampled that one.
    """

    config: Mapping[str, Any]
    dtype: str
    context: int
    images: tuple[int, int] | None = None


class Segment(NamedTuple):
    """Tokens of a reply, the labels of the weights that sampled them, and why they end, in vLLM's words."""

    samples: list[SampledToken]
    labels: set[str]
    finish: str


class VLLMServer:
    """A server, and the requests that it has of this run. Used on one event loop.

    Attributes:
        url: Its address.
        slots: Most sequences that it computes at a time.
        weights: What it was given last, and answered a check with; None before.
        gone: Done once the server counts as lost, which ends its requests.
        tasks: Requests that it has not answered.
    """

    def __init__(self, url: str, expected: Expected, timeout_s: float) -> None:
        """Ask nothing yet. An answer about weights may take `timeout_s` seconds."""
        self.url, self._expected, self._timeout_s = url, expected, timeout_s
        self.slots = 1
        self.weights: Weights | None = None
        self.gone: asyncio.Event = asyncio.Event()
        self.tasks: set[asyncio.Task[Segment]] = set()
        self.connection = Connection(url)

    async def inspect(self, weights: Weights) -> None:
        """Find out whether the server can be used, and read the file of `weights`.

        Raises `ServerUnfit` if it cannot, with what to do, and `ServerLost` if it does not answer.
        """
        try:
            await self._inspect(weights)
        except (KeyError, TypeError, IndexError, AttributeError) as error:
            raise self._unfit(f"it does not describe itself as vLLM 0.32 does ({error!r}); use that version") from None

    async def _inspect(self, weights: Weights) -> None:
        models = (await self._ask("/v1/models", "it is no server of vLLM"))["data"]
        dev = f"it has no interface for weights; start it with {DEV_MODE} in its environment, and vLLM 0.32 or newer"
        await self._ask("/weight_info", dev)
        info = (await self._ask("/server_info", dev, config_format="json"))["vllm_config"]
        model, expected = info["model_config"], self._expected
        backend = (info.get("weight_transfer_config") or {}).get("backend")
        if (backend, info["parallel_config"].get("worker_extension_cls")) != (BACKEND, WORKER_EXTENSION):
            raise self._unfit(
                f'it takes no weights from files; start it with --weight-transfer-config \'{{"backend":"{BACKEND}"}}\' '
                f"--worker-extension-cls {WORKER_EXTENSION}"
            )
        if model.get("logprobs_mode") != MODES:
            raise self._unfit(
                f"its log-probabilities ({model.get('logprobs_mode')}) are not those of the distribution that it "
                f"samples; start it with --logprobs-mode {MODES}"
            )
        dtype = str(model.get("dtype")).removeprefix("torch.")
        if dtype != expected.dtype:
            raise self._unfit(
                f"it computes in {dtype} and --engine-dtype is {expected.dtype}; start it with --dtype {expected.dtype}"
                + f", or add --engine-dtype {dtype}" * (dtype in ("float32", "bfloat16"))
            )
        length = models[0].get("max_model_len") or expected.context
        if length < expected.context:
            raise self._unfit(
                f"its sequences have at most {length} tokens; start it with --max-model-len {expected.context}, or "
                f"lower --max-tokens"
            )
        scheduler = info["scheduler_config"]
        if info["device_config"].get("device") == "cpu" and scheduler.get("enable_chunked_prefill"):
            raise self._unfit(
                "on a CPU, vLLM fails when a reply has a seed and its prompt is computed in parts; start it with "
                f"--no-enable-chunked-prefill --max-num-batched-tokens {length}"
            )
        await self._check_generate()
        await self._check_model(weights)
        self.slots = int(scheduler.get("max_num_seqs") or 256)

    async def label(self) -> str:
        """Return the label of the server's weights, "default" of those that it started with.

        Raises `ServerLost` if it does not say.
        """
        return str(
            (await self._ask("/weight_info", "it has no interface for weights", self._timeout_s))["weight_version"]
        )

    async def take(self, weights: Weights) -> None:
        """Let the server compute with other weights; this run's requests end, and their callers have their tokens.

        Raises `ServerLost` if it does not take them over, and `ServerUnfit` if it computes something else with them
        than the trainer, or another run has given it weights.
        """
        if self.weights is not None:
            label, run = await self.label(), self.weights.label.rpartition("-")[0]
            if label != "default" and label.rpartition("-")[0] != run:
                raise self._unfit("another run has given it weights meanwhile; give each run servers of its own")
        await self._change("/pause", mode="abort")
        await self._end_requests()
        await self._change("/init_weight_transfer_engine", {"init_info": {}})
        try:
            await self._change("/start_weight_update")
        except ServerLost as error:
            if "already active" not in str(error):  # by a run that has died in an update
                raise
        await self._change("/update_weights", {"update_info": {"path": str(weights.path), "tied": weights.tied}})
        await self._change("/finish_weight_update", {"weight_version": weights.label})
        if not (await self._change("/reset_prefix_cache") or {}).get("success"):
            raise ServerLost(f"{self.url} kept keys and values of older weights; start it again")
        await self._change("/resume")
        await self._check_weights(weights)
        self.weights = weights

    async def sample(self, request: EngineRequest, context: int) -> Segment:
        """Return what the server adds to a request, up to its end or until its weights change.

        Raises `ServerLost` if the server is gone, `ValueError` if it refuses the request, `FloatingPointError` for
        log-probabilities that are not finite.
        """
        task = asyncio.ensure_future(self._generate(request, context))
        self.tasks.add(task)
        loss = asyncio.ensure_future(self.gone.wait())
        try:
            await asyncio.wait({task, loss}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ServerLost(f"{self.url} is lost")
            return Segment([], set(), "abort") if task.cancelled() else task.result()
        finally:
            self.tasks.discard(task)
            task.cancel()
            loss.cancel()

    async def _generate(self, request: EngineRequest, context: int) -> Segment:
        options = {**native_options(request), **limits(request, context)}
        ids = [*request.prompt, *request.ids]
        if self._expected.images:
            token, stand_in = self._expected.images
            ids = [stand_in if id == token else id for id in ids]
        body = {"token_ids": ids, "sampling_params": options}
        try:  # the caller has a deadline for the whole reply
            answer = await self.connection.post(GENERATE, body, timeout_s=1e9)
        except Refused as error:
            if error.status in (400, 404, 413, 422):
                raise ValueError(f"{self.url} refuses a request: {error}") from None
            raise ServerLost(f"{self.url} fails to sample: {error}") from None
        try:
            (choice,) = answer["choices"]
            content = (choice["logprobs"] or {}).get("content") or []
            samples = [_sample(one, request) for one in content]
            if [one.token for one in samples] != choice["token_ids"]:
                raise ValueError("tokens without log-probabilities")
            labels = {str(span["version"]) for span in choice["weight_versions"] or ()}
        except (KeyError, TypeError, ValueError) as error:
            text = f"{type(error).__name__}: {error}"
            raise ServerLost(f"{self.url} answers in a form that vLLM 0.32 does not have ({text})") from None
        if choice["finish_reason"] == "error":
            raise ServerLost(f"{self.url} fails to sample")
        return Segment(samples, labels, str(choice["finish_reason"]))

    async def _end_requests(self) -> None:
        """Wait until this run's requests, which a pause has ended, are answered.

        One that had not begun when the server was paused waits there, and is withdrawn.
        """
        if self.tasks:
            _, late = await asyncio.wait(set(self.tasks), timeout=ABORT_S)
            for task in late:
                task.cancel()

    async def _check_generate(self) -> None:
        """Check by an empty request that tokens can be asked for."""
        try:
            await self.connection.post(GENERATE, {}, timeout_s=INSPECTION_S)
        except Refused as error:
            if error.status in (403, 404):
                raise self._unfit("it takes no prompts of tokens; start it with --enable-scale-out") from None

    async def _check_model(self, weights: Weights) -> None:
        """Check that the model has weights of the same shapes, and that the file can be read."""
        body = {"method": "turnwise_describe", "args": [str(weights.path)]}
        try:
            workers = (await self.connection.post("/collective_rpc", body, timeout_s=INSPECTION_S))["results"]
        except Refused as error:
            raise self._unfit(f"its workers run another version of this library ({error}); install the same") from None
        for worker in workers:
            for name in COMPARED:
                one, other = worker["config"].get(name), self._expected.config.get(name)
                if None not in (one, other) and one != other:
                    raise self._unfit(f"its model has {name} {one}, and --model has {other}; start it with that model")
            if not worker["reads"]:
                raise self._unfit(
                    f"it cannot read {weights.path}; name a folder that it sees under the same path by the variable "
                    "TURNWISE_WEIGHT_FOLDER"
                )
            if self._expected.images and not worker.get("takes_images", True):
                raise self._unfit(
                    "it was started for texts alone, where it would take a sampled token of an image for one; start it "
                    "without --language-model-only and without 0 images in --limit-mm-per-prompt"
                )
        if self._expected.images:
            feed = {"method": "turnwise_feed_stand_in", "args": list(self._expected.images)}
            await self._change("/collective_rpc", feed)

    async def _check_weights(self, weights: Weights) -> None:
        """Compare the server's greedy replies to fixed prompts with those of the trainer's model."""
        probes = [one.probe for one in weights.references]
        try:
            replies = await asyncio.gather(
                *(self._generate(probe, len(probe.prompt) + probe.params.max_tokens) for probe in probes)
            )
        except (ValueError, FloatingPointError) as error:
            raise self._unfit(f"after the weights were handed over, fixed prompts fail: {error}") from None
        if any(reply.labels != {weights.label} for reply in replies):
            raise ServerLost(f"{self.url} says that it has other weights than it was given")
        gaps = [one.gap(reply.samples) for one, reply in zip(weights.references, replies, strict=True)]
        if not max(gaps) <= weights.tolerance:
            raise self._unfit(
                f"after the weights were handed over, it and the trainer disagree by {max(gaps):.2g} nats on fixed "
                f"prompts, and rounding explains {weights.tolerance:g}; use --engine hf for this model"
            )

    async def _ask(self, path: str, otherwise: str, timeout_s: float = INSPECTION_S, **query: Any) -> Any:
        """GET something that a server which can be used has; `otherwise` says what is wrong if it has not."""
        try:
            return await self.connection.get(path, timeout_s=timeout_s, **query)
        except Refused as error:
            if error.status == 401:
                raise self._unfit("it wants a key; set VLLM_API_KEY to that of its --api-key") from None
            if error.status in (403, 404, 405):
                raise self._unfit(otherwise) from None
            raise ServerLost(f"{self.url} fails: {error}") from None

    async def _change(self, path: str, body: Any = None, **query: Any) -> Any:
        """POST something that belongs to a change of weights."""
        try:
            return await self.connection.post(path, body, timeout_s=self._timeout_s, **query)
        except Refused as error:
            raise ServerLost(f"{self.url} fails at {path}: {error}") from None

    def _unfit(self, why: str) -> ServerUnfit:
        return ServerUnfit(f"{self.url}: {why}")


def _sample(content: Mapping[str, Any], request: EngineRequest) -> SampledToken:
    """A token of vLLM's answer. Raises `FloatingPointError` if its log-probability is not finite."""
    candidates: Sequence[Mapping[str, Any]] = (*content["top_logprobs"], content)
    logprobs = {int(one["token_id"]): float(one["logprob"]) for one in candidates}
    token = int(content["token_id"])
    if logprobs[token] <= NOT_FINITE:
        raise FloatingPointError(LOGITS_NOT_FINITE)
    return sampled_token(token, logprobs[token], logprobs.items(), request.params)
