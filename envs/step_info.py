"""Keys of the `info` dict that environments return from `reset` and `step`: type, presence, reader, default.

`envs.env.Env` fills every key but `error` and `instead`. Other environments may leave keys out: each comment below says
what readers assume then. docs/add_an_env.md shows the same keys as a table.
"""

from __future__ import annotations

from typing import Any, TypedDict

from envs.types import Message

RESET_KEYS = ("task", "split", "tools", "answer", "state", "markov")  # what `Env.reset` returns
STEP_KEYS = ("state", "valid", "rewards", "metrics")  # what every `Env.step` returns
FINAL_KEYS = ("success", "stop")  # what the step that ends an episode returns as well


class StepInfo(TypedDict, total=False):
    """`info` of one `reset` or `step`. Every value but `answer` is JSON-able data; `answer` is too in our environments.

    "Rollouts" are `rl.rollout.episode`, which copies the values into `rl.records.Turn` and `Trajectory`.
    """

    # At reset.

    # Id of the task, unique in the environment. Rollouts record it and evaluation groups results by it.
    # Missing: rollouts use "SPLIT/INDEX" of the ticket.
    task: str
    # Split that the task comes from, "train", "val" or "test". For callers that let `reset` choose the split.
    # Missing: only the caller knows.
    split: str
    # OpenAI function schemas of the tools that the policy may call. Agents render them into the prompt.
    # Missing or empty: no tools.
    tools: list[dict[str, Any]]
    # Ground truth of the task. Rollouts record it; the score part `answer_gain` reads it. Never shown to the policy.
    # Missing or None: the task has no single answer; `answer_gain` refuses to train.
    answer: Any
    # Whether `state` with the number of turns left decides how likely what follows each reply is, and whether a player
    # has no reason to look further back. The credit part `graph_values` then relies on values merged over states.
    # Missing: False.
    markov: bool

    # At reset and at every step.

    # Text that is equal for equal situations. Credit parts that compare turns by state (GiGPO, HGPO) read it.
    # Missing or "": those parts refuse the turn; everything else works.
    state: str

    # At every step.

    # False if the environment could not act on the reply (unreadable, illegal). Read by reward shaping, credit and the
    # metrics of invalid turns. Missing: True.
    valid: bool
    # Named components of the turn's reward, for multi-reward methods and logs. Missing or empty: one component only.
    rewards: dict[str, float]
    # Numbers for logs and reports; a method reads only those that its options name. Missing: none.
    metrics: dict[str, float]

    # At the step that ends the episode.

    # Whether the task was solved. Reports and method parts that filter by success read it.
    # Missing: True if the episode terminated with a return above 0.
    success: bool
    # Reason for the end: a value of `envs.types.Stop`. Rollouts record it; "error" marks a fault of the environment:
    # the episode is retried, and scored only if the same reply causes the fault again (`rl.rollout.retry`).
    # Missing: "terminated" if terminated, else "turn_limit".
    stop: str

    # From other environments and from wrappers only.

    # Beside stop="error": one line that says what failed. Rollouts put it into the record of the failed episode.
    # Missing: a general text.
    error: str
    # Message that the environment took in place of the reply, as a strategy does that replaces a wrong reply by an
    # expert's (`--strategy semi_online`). The history goes on with it; the sampled reply is trained all the same.
    # Missing: the reply itself was played.
    instead: Message
