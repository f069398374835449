"""The parts of recipes: one module, or one package, per slot. Its public functions are the slot's parts, by name.

Options of a part are keyword-only parameters. What several parts compute alike is in `rl.methods.estimators`. A part
that keeps numbers between updates is a dataclass with `__call__`, `state_dict` and `load_state_dict` in place of a
function; its state holds what `rl.rollout.record_codec.encode` takes, arrays and tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from envs.suggestions import unknown_message

Part = TypeVar("Part", bound=Callable)

# What `needs` takes: streams of numbers per token, and what a part asks of the run.
NEEDED = (
    *("logp", "ref", "value", "proximal", "entropy", "reward"),
    *("square", "gradient_norm", "staleness", "teacher", "draws"),
    *("answer", "frozen"),
)

# What parts may say about themselves, for `rl.methods.conflicts`.
MISMATCH = "a weight for the sampler's mismatch"
SAMPLER_RATIO = "a ratio against the sampler's record"
BASELINE = "a baseline of its own"
SEVERAL = "groups of several members"
STATES = "a comparison of turns by their state"
FAR_ENGINE = "an engine that is not the run's own hf"


def needs(*streams: str, when: str = "", unless: str = "") -> Callable[[Part], Part]:
    """Decorate a part that reads `streams`, numbers which a run computes only on demand.

    A stream is `"ref"` (a reference policy's log-probabilities), `"value"` (a critic's values), `"proximal"` (the
    trainer's log-probabilities before the update), `"entropy"` (the policy's, with a gradient) or one that a score part
    of that name fills (`"reward"`, `"square"`, `"gradient_norm"`). A step part that reads `tokens.logp` or
    `tokens.entropy` needs `"logp"`. `"answer"` says that the part reads the environment's `info["answer"]`, which the
    run then checks at its start. `"frozen"` says that it asks for the reference policy itself. With `when`, the part
    reads them only where its option of that name is bound to a true value, with `unless` only where it is not.

    Raises `ValueError` for a stream that there is not.
    """
    for stream in streams:
        if stream not in NEEDED:
            raise ValueError(unknown_message("stream", stream, NEEDED, of="@needs"))

    def mark(part: Part) -> Part:
        setattr(part, "needs", streams)  # noqa: B010 - a class keeps its attributes in a mapping that is read only
        setattr(part, "needs_when", when)  # noqa: B010
        setattr(part, "needs_unless", unless)  # noqa: B010
        return part

    return mark


def samples_by_turn(strategy: Part) -> Part:
    """Decorate a strategy that samples single turns: an agent cannot ask for replies of its own in between."""
    setattr(strategy, "samples_by_turn", True)  # noqa: B010
    return strategy


def plays_seats(strategy: Part) -> Part:
    """Decorate a strategy that can play environments of several seats: it returns a group for each of them."""
    setattr(strategy, "plays_seats", True)  # noqa: B010 - a class keeps its attributes in a mapping that is read only
    return strategy


def traits(
    *names: str, excludes: Mapping[str, str] | None = None, expects: Mapping[str, tuple[str, ...]] | None = None
) -> Callable[[Part], Part]:
    """Decorate a part with what `rl.methods.conflicts` checks before a run.

    `names` are traits of the part. `excludes` maps a trait that no other part may have to the reason; `SEVERAL` is a
    trait of a run whose groups have several members, and `FAR_ENGINE` of one that samples with such an engine.
    `expects` maps a slot to the names of the parts that may fill it.
    """

    def mark(part: Part) -> Part:
        setattr(part, "traits", names)  # noqa: B010 - a class keeps its attributes in a mapping that is read only
        setattr(part, "excludes", excludes or {})  # noqa: B010
        setattr(part, "expects", expects or {})  # noqa: B010
        return part

    return mark
