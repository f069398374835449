"""Log-probabilities and entropies of sampled tokens from hidden states, with few logits in memory at a time.

The logits of a micro-batch of 16,384 tokens over a vocabulary of 152,000 words would take 9.3 GiB in float32, and a
plain softmax with its gradient three times that. If there are more than `WHOLE_LOGITS` they are computed in chunks,
once in the forward pass and once more in the backward pass, and of the former only three numbers per token are kept.

Legend: M tokens, E hidden size, V vocabulary, T temperature, z logits over T, l log-sum-exp of z, p = exp(z - l).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.utils.checkpoint import checkpoint

from rl.policy.gpu.kernels import softmax_kernels

WHOLE_LOGITS = 2**24  # with no more than these, autograd keeps what it needs: 256 MiB in four copies
CHUNK_LOGITS = 2**25  # logits of one chunk: 128 MiB in float32, and as much again for p
GPU_CHUNK_LOGITS = 2**28  # on a GPU, where every chunk reads and writes the whole gradient of the head
GPU_HEAVY_CHUNK_LOGITS = 2**26  # there, where they are in memory several times, in float32


def of_states(
    states: Tensor, head: Tensor, target: Tensor, temperature: Tensor | None, *, entropy_grad: bool = False
) -> tuple[Tensor, Tensor]:
    """Return log-probability (M,) and entropy (M,) of the tokens `target` (M,), in float32.

    Args:
        states: Hidden states (M, E) that predict the tokens.
        head: Output matrix (V, E).
        target: Tokens (M,).
        temperature: Temperatures (M, 1); None: all are 1.
        entropy_grad: Whether the entropy carries a gradient.

    """
    if len(target) * len(head) <= WHOLE_LOGITS:
        return of_logits(F.linear(states, head), target, temperature, entropy_grad=entropy_grad)
    logp, entropy = _Chunked.apply(states, head, target, temperature, entropy_grad)
    return logp, entropy


def of_head(
    states: Tensor,
    head: Callable[[Tensor], Tensor],
    vocabulary: int,
    target: Tensor,
    temperature: Tensor | None,
    *,
    entropy_grad: bool = False,
) -> tuple[Tensor, Tensor]:
    """Like `of_states`, for a `head` that is more than a matrix: logits (M, `vocabulary`) of states (M, E).

    A chunk's logits are in memory four times, since autograd differentiates what `head` does.
    """
    if len(target) * vocabulary <= WHOLE_LOGITS:
        return of_logits(head(states), target, temperature, entropy_grad=entropy_grad)

    def chunk(states: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        at = None if temperature is None else temperature[part]
        return of_logits(head(states), target[part], at, entropy_grad=entropy_grad)

    again = partial(checkpoint, chunk, use_reentrant=False, preserve_rng_state=False)
    parts = [again(states[part], part) for part in _parts(states, vocabulary)]
    logp, entropy = (torch.cat(column) for column in zip(*parts, strict=True))
    return logp, entropy


def of_logits(
    logits: Tensor, target: Tensor, temperature: Tensor | None, *, entropy_grad: bool = False
) -> tuple[Tensor, Tensor]:
    """Return log-probability (M,) and entropy (M,) from logits (M, V); otherwise like `of_states`."""
    logits = logits.float()
    if temperature is not None:
        logits = logits / temperature
    logprobs = logits.log_softmax(-1)
    source = logprobs if entropy_grad else logprobs.detach()
    return logprobs.gather(1, target[:, None]).squeeze(1), -(source.exp() * source).sum(-1)


def of_draws(
    states: Tensor,
    head: Callable[[Tensor], Tensor],
    vocabulary: int,
    target: Tensor,
    temperature: Tensor | None,
    uniform: Tensor,
) -> tuple[Tensor, Tensor]:
    """Draw K tokens at each of M positions from the model's own distribution; return what `score_draws` makes of them.

    `head` gives logits (M, `vocabulary`) of states (M, E). `uniform` (M, K) are numbers in [0, 1), at which the
    cumulative distribution is inverted.
    """

    def chunk(states: Tensor, part: slice) -> tuple[Tensor, Tensor]:
        logits = head(states).float()
        logprobs = (logits if temperature is None else logits / temperature[part]).log_softmax(-1)
        with torch.no_grad():
            cumulative = logprobs.double().exp_().cumsum_(-1)
            draws = torch.searchsorted(cumulative, uniform[part] * cumulative[:, -1:], right=True)
        return score_draws(logprobs, draws.clamp(max=vocabulary - 1), target[part])

    again = partial(checkpoint, chunk, use_reentrant=False, preserve_rng_state=False)
    parts = [again(states[part], part) for part in _parts(states, vocabulary)]
    means, hits = (torch.cat(column) for column in zip(*parts, strict=True))
    return means, hits


def score_draws(logprobs: Tensor, draws: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the mean log-probability (M,) of K `draws` (M, K), and the share (M,) of them that are the `target` (M,).

    `logprobs` are (M, V). The first has a gradient, the second has none.
    """
    hits = (draws == target[:, None]).to(logprobs.dtype).mean(1)
    return logprobs.gather(1, draws).mean(1), hits


class _Chunked(torch.autograd.Function):
    """Log-probability and entropy of tokens, with the logits of one chunk in memory at a time.

    With g and h the gradients of log-probability and entropy H, that of the logits is
    (g (1[target] - p) - h p (z - l + H)) / T.
    """

    @staticmethod
    def forward(
        ctx: Any, states: Tensor, head: Tensor, target: Tensor, temperature: Tensor | None, entropy_grad: bool
    ) -> tuple[Tensor, Tensor]:
        kernels = softmax_kernels(states)
        logp, total, entropy = (states.new_empty(len(target), dtype=_wide(states)) for _ in range(3))
        for part in _parts(states, len(head), is_light=kernels is not None):
            if kernels:
                logits = F.linear(states[part], head)
                scores = kernels.statistics(logits, target[part], _at(temperature, part))
                logp[part], total[part], entropy[part] = scores
                continue
            z = _scaled(states, head, temperature, part)
            total[part] = z.logsumexp(-1)
            logp[part] = z.gather(1, target[part, None]).squeeze(1) - total[part]
            z -= total[part, None]
            entropy[part] = -z.exp().mul_(z).sum(-1)
            del z  # or it would be there beside the next chunk's
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(states, head, target, temperature, total, entropy)
        if not entropy_grad:
            ctx.mark_non_differentiable(entropy)
        return logp, entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, logp_grad: Tensor | None, entropy_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        states, head, target, temperature, total, entropy = ctx.saved_tensors
        logp_grad = torch.zeros_like(total) if logp_grad is None else logp_grad
        of_states, of_head, *_ = ctx.needs_input_grad
        states_grad = torch.empty_like(states) if of_states else None
        head_grad = torch.zeros_like(head, dtype=_wide(head)) if of_head else None  # chunks add up in float32
        kernels = softmax_kernels(states)
        for part in _parts(states, len(head), is_light=kernels is not None):
            if kernels:
                p = F.linear(states[part], head)
                of_tokens = total[part], entropy[part], logp_grad[part], _at(entropy_grad, part)
                kernels.write_gradient(p, target[part], _at(temperature, part), *of_tokens)
            else:
                z = _scaled(states, head, temperature, part).sub_(total[part, None])
                p = z.exp()
                if entropy_grad is None:
                    p *= -logp_grad[part, None]
                else:
                    p *= -(logp_grad[part, None] + entropy_grad[part, None] * z.add_(entropy[part, None]))
                del z
                p.scatter_add_(1, target[part, None], logp_grad[part, None])
                if temperature is not None:
                    p /= temperature[part]
                p = p.to(states.dtype)
            if states_grad is not None:
                states_grad[part] = p @ head
            if head_grad is not None:
                head_grad += p.T @ states[part]
            del p
        return states_grad, None if head_grad is None else head_grad.to(head.dtype), None, None, None


def _at(values: Tensor | None, part: slice) -> Tensor | None:
    return None if values is None else values[part]


def _wide(x: Tensor) -> torch.dtype:
    """The precision of what is computed from logits: float32, or float64 for a model in it."""
    return torch.promote_types(x.dtype, torch.float32)


def chunk_tokens(vocabulary: int, *, on_gpu: bool, is_light: bool) -> int:
    """Return the number of tokens whose logits are in memory at a time; `is_light` if that is once."""
    on_gpus = GPU_CHUNK_LOGITS if is_light else GPU_HEAVY_CHUNK_LOGITS
    return max(1, (on_gpus if on_gpu else CHUNK_LOGITS) // vocabulary)


def _parts(states: Tensor, vocabulary: int, *, is_light: bool = False) -> Iterator[slice]:
    """Slices of the tokens of `states` (M, E) whose logits are in memory at a time."""
    tokens, size = len(states), chunk_tokens(vocabulary, on_gpu=states.is_cuda, is_light=is_light)
    for first in range(0, tokens, size):
        yield slice(first, first + size)


def _scaled(states: Tensor, head: Tensor, temperature: Tensor | None, part: slice) -> Tensor:
    """Return z of the tokens in `part`, in a tensor that may be written to."""
    z = F.linear(states[part], head).to(_wide(states))
    return z if temperature is None else z.div_(temperature[part])
