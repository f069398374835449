"""Defaults that depend on the model and the environment: one set for the bundled model, one for all others."""

from __future__ import annotations

from typing import Any, NamedTuple

# Of a run of the bundled model with updates of `UPDATE_EPISODES`; about ten minutes of two CPU cores.
TRAINED_TOKENS = 3_000_000
UPDATE_EPISODES = 256
TINY_CONTEXT = 2048  # of the bundled model (`rl.policy.tiny.MAX_LENGTH`, whose module imports torch)
STEP_GROUPS = 8  # groups of one optimiser step of the bundled model
CRITIC_LR = 1e-4  # of a value head that starts at 0 on a model whose own rate is 1e-6
# Learning rates of models that have been trained before: what is usual from so many parameters on, ten times as much of
# adapters. Smaller models take larger steps, up to half of those of the bundled one, whose rate falls in a run.
LR, LR_PARAMETERS, LR_POWER, MOST_LR = 1e-6, 5e8, 0.8, 7.5e-5
BUNDLED_LR = 1.5e-4
STEPS = 4  # optimiser steps of an update of another model
# Lengths for models other than the bundled one, in tokens: of a reply that thinks first, of what the environment says
# between two replies, and of the longest episode that is not asked for by a flag.
REPLY_TOKENS, OBSERVATION_TOKENS, EPISODE_TOKENS = 1024, 128, 16384
# Of an evaluation, where nothing is trained: of a reply of such a model, here or behind an API, and of a first prompt.
EVALUATED_REPLY_TOKENS, PROMPT_TOKENS = 4096, 4096
TINY_EVALUATED = 512, 4096  # tokens of a reply and of an episode of the bundled model


class Sizes(NamedTuple):
    """What an environment says about the lengths of episodes.

    Attributes:
        max_turns: Its limit of turns per episode.
        longest_reply: Length of the oracle's longest reply, in tokens of the bundled model.
        episode: Mean length of the oracle's episodes, prompts included, in the same tokens.
        opening: Upper estimate of the length of an episode's first prompt, in tokens of the model.

    """

    max_turns: int
    longest_reply: int
    episode: int
    opening: int


def of_bundled(sizes: Sizes, *, groups: int, max_tokens: int | None, is_full_style: bool) -> dict[str, Any]:
    """Return the defaults of the bundled model, whose weights start out random, by the names of settings.

    `groups`, `max_tokens` (None for the default) and the environment's style are settings that they depend on.
    """
    max_tokens = max_tokens or _rounded(2 * sizes.episode if is_full_style else 0, TINY_CONTEXT)
    return {
        # The reward of an episode is shared by all its turns: the more turns, the noisier each one's share.
        "lr": float(f"{min(BUNDLED_LR, 3.3e-4 / (1 + sizes.max_turns) ** 0.5):.2g}"),
        "minibatches": max(1, groups // STEP_GROUPS),
        "updates": min(600, max(1, TRAINED_TOKENS // (UPDATE_EPISODES * sizes.episode))),
        "cold_start": 4000,
        # Below, a run of one turn may not get off the ground, and one of several may stay with one constant action.
        "cold_start_until": 0.2 if sizes.max_turns == 1 else 0.3,
        "max_tokens": max_tokens,
        "turn_tokens": min(max(8, 2 * sizes.longest_reply), max_tokens - 1),
    }


def of_others(sizes: Sizes, *, groups: int, max_tokens: int | None, turn_tokens: int | None) -> dict[str, Any]:
    """Return the defaults of a model that has been trained before, by the names of settings; all but `lr_of_others`.

    `groups`, `max_tokens` and `turn_tokens` (None for their defaults) are settings that they depend on.
    """
    turn = (turn_tokens or REPLY_TOKENS) + OBSERVATION_TOKENS
    max_tokens = max_tokens or _rounded(sizes.opening + sizes.max_turns * turn, EPISODE_TOKENS)
    return {
        "critic_lr": CRITIC_LR,
        "minibatches": min(STEPS, groups),
        "updates": 200,
        "cold_start": 0,
        "cold_start_until": 1.0,
        "max_tokens": max_tokens,
        "turn_tokens": min(REPLY_TOKENS, max_tokens - 1),
    }


def lr_of_others(num_parameters: int, *, lora: int) -> float:
    """Return the default learning rate of a model that has been trained before, or of its adapters of rank `lora`."""
    smaller = max(1.0, LR_PARAMETERS / num_parameters) ** LR_POWER
    return float(f"{min(MOST_LR, (10 if lora else 1) * LR * smaller):.2g}")


def of_evaluation(most_turns: int | None, *, turn_tokens: int | None, is_tiny: bool) -> tuple[int, int]:
    """Return the most tokens of a reply and of an episode, prompts included, in an evaluation of a model.

    `most_turns` are those of an episode, None if that is not known; `turn_tokens` is a setting (None for the default).
    """
    reply, episode = TINY_EVALUATED if is_tiny else (EVALUATED_REPLY_TOKENS, EPISODE_TOKENS)
    reply = turn_tokens or reply
    first_turn = PROMPT_TOKENS + reply + OBSERVATION_TOKENS
    if is_tiny or most_turns is None:
        return reply, episode
    return reply, _rounded(first_turn + (most_turns - 1) * (reply + OBSERVATION_TOKENS), max(episode, first_turn))


def _rounded(tokens: int, limit: int) -> int:
    """A multiple of 256 from 512 to `limit`, with room for `tokens`."""
    return min(max(512, -(-tokens // 256) * 256), limit)
