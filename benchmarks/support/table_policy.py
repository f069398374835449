"""A policy that is a table of logits: the trainer's rollout, strategies and loss parts without a network between them.

For games of words whose observation in short style is `INFORMATION word|word?`, such as Kuhn and Leduc poker. A token
is an information state, which the policy reads, or the number of a legal word, which it says.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.agent import Context, Internal
from envs.types import Message, assistant, text
from rl.learner.loss import policy_loss
from rl.learner.packing import Columns
from rl.methods.inputs import Row, Tokens
from rl.methods.recipe import Recipe
from rl.methods.streams import needs
from rl.policy.engine import Engine
from rl.policy.sampling import keyed_uniforms
from rl.records import Completion, SamplingParams


class Table:
    """Logits (S, A) of S information states and A words, and as many tokens: states first, then numbers of words.

    `words` are the legal words by information state; a state with fewer than A words has logits of -inf for the rest.
    """

    def __init__(self, words: Mapping[str, Sequence[str]]) -> None:
        self.words = {information: tuple(own) for information, own in words.items()}
        self.token = {information: number for number, information in enumerate(self.words)}
        width = max(map(len, self.words.values()))
        self.first_word = len(self.words)  # token of the first word of every state
        self.logits = torch.zeros(len(self.words), width, dtype=torch.float64, requires_grad=True)
        legal = [[number < len(own) for number in range(width)] for own in self.words.values()]
        self.is_illegal = ~torch.tensor(legal)

    def logprobs(self) -> Tensor:
        """Log-probabilities (S, A) of the words; differentiable."""
        return self.logits.masked_fill(self.is_illegal, -torch.inf).log_softmax(-1)

    def strategy(self) -> dict[str, list[float]]:
        """Probabilities of the legal words by information state."""
        odds = self.logprobs().exp().tolist()
        return {state: odds[number][: len(self.words[state])] for state, number in self.token.items()}


class TableAgent:
    """An `agents.agent.Agent` that reads information states and says legal words."""

    stop = ()

    def __init__(self, table: Table) -> None:
        self.table = table
        self.legal: tuple[str, ...] = ()

    def open(self, messages: Sequence[Message], tools: Sequence[dict] = ()) -> Context:
        """Read the first information state."""
        return self.observe(messages)

    def observe(self, messages: Sequence[Message]) -> Context:
        """Read the next information state."""
        information = text(messages[-1]).split(" ", 1)[0]
        self.legal = self.table.words[information]
        return Context((self.table.token[information],))

    def act(self, ids: Sequence[int]) -> Message | Internal:
        """Say the word of a number."""
        return assistant(self.legal[ids[0] - self.table.first_word])

    def amend(self, message: Message) -> tuple[int, ...]:
        """No environment of this kind replaces a reply."""
        raise NotImplementedError

    def demonstrate(self, reply: Message) -> Message:
        """A demonstration writes the reply itself."""
        return reply


class TableEngine(Engine):
    """Samples one word for each request from the present table."""

    slots, context = 1024, 1024
    description = "a table of logits"

    def __init__(self, table: Table) -> None:
        self.table, self.version = table, -1
        self.sync_weights()

    def sync_weights(self) -> None:
        """Take over the logits."""
        with torch.no_grad():
            self.log_odds = self.table.logprobs().numpy()
        self.cumulative = np.exp(self.log_odds).cumsum(1)
        self.version += 1

    async def sample(
        self, prompt: Sequence[int], params: SamplingParams, *, session: str = "", resume_from: Completion | None = None
    ) -> Completion:
        """Draw the word by the seed and the position, as every engine does."""
        state = prompt[-1]
        (uniform,) = keyed_uniforms(np.array([params.seed % 2**64], np.uint64), np.array([len(prompt)]))
        odds = self.cumulative[state]
        choice = int((odds <= uniform * odds[-1]).sum())
        logprob = (float(self.log_odds[state, choice]),)
        return Completion((self.table.first_word + choice,), logprob, logprob, (self.version,))


class TableLearner:
    """Takes plain gradient steps on the table with the loss of a recipe; stands in for `rl.learner.learner.Learner`.

    `lr` is the rate of `sgd`: with a mean over tokens the gradient of a logit is a share of a token's advantage.
    """

    weights_changed = False

    def __init__(self, table: Table, *, lr: float, bound: float = 4.0) -> None:
        self.table, self.lr, self.bound = table, lr, bound
        self.reference_logprobs = table.logprobs().detach()

    def freeze_reference(self) -> None:
        """Keep the present table as the reference of KL penalties."""
        self.reference_logprobs = self.table.logprobs().detach()

    def update(self, rows: Sequence[Row], recipe: Recipe, *, scale: float = 1.0, seed: int = 0) -> dict[str, float]:
        """Take the step of one update."""
        columns = Columns(rows, torch.device("cpu"))
        state, choice = self._cells(rows)
        logprobs = self.table.logprobs()
        odds = logprobs.exp()
        entropy = -torch.where(self.table.is_illegal, 0.0, odds * logprobs).sum(-1)
        share = recipe.reduce(columns.mask.double(), columns.labels())
        tokens = Tokens(
            logp=columns.scatter(logprobs[state, choice]),
            old=columns.pad(lambda row: row.old).double(),
            adv=columns.pad(lambda row: row.adv).double(),
            mask=columns.mask,
            share=share,
            entropy=columns.scatter(entropy[state]),
            labels=columns.labels(),
            ref=columns.scatter(self.reference_logprobs[state, choice]) if needs(recipe, "ref") else None,
        )
        loss = policy_loss(tokens, recipe)
        (gradient,) = torch.autograd.grad(loss, [self.table.logits])
        with torch.no_grad():
            self.table.logits -= self.lr * scale * gradient
            self.table.logits -= self.table.logits.mean(-1, keepdim=True)
            self.table.logits.clamp_(-self.bound, self.bound)
        return {"loss": float(loss.detach()), "entropy": float(entropy.mean().detach())}

    def reference(self, trajectories: Sequence[Any]) -> list[list[tuple[float, ...]]]:
        """Return the reference's log-probabilities, `[trajectory][turn][token]`; `update` looks them up itself."""
        return [[(0.0,) * len(turn.completion.ids) for turn in one.turns] for one in trajectories]

    def _cells(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """The information state and the number of the word (M,) of every sampled token, row by row."""
        states, choices = [], []
        for row in rows:
            ids = np.concatenate([np.asarray(row.prefix), row.ids])
            at = np.flatnonzero(row.mask) + len(row.prefix)
            states.append(ids[at - 1])
            choices.append(ids[at] - self.table.first_word)
        return torch.as_tensor(np.concatenate(states)), torch.as_tensor(np.concatenate(choices))
