"""The policies that a run trains: weights, sampling engine and learner of each, and what is done with all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from agents.render import Renderer
from rl.learner.interface import AnyLearner
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods.parts.score import Scorer
from rl.methods.recipe import Recipe
from rl.methods.streams import needs
from rl.policy.engine import Engine, EngineDead
from rl.policy.pool.pinned import PinnedEngine
from rl.policy.registry import open_engine
from rl.rollout.roles import Role
from rl.settings import Settings
from rl.train.memory.estimate import Estimate, engine_reserve
from rl.train.model import TrainedModel
from rl.train.run_folder import RunFolder


@dataclass(frozen=True)
class Trainee:
    """A policy that is trained.

    Attributes:
        role: Its name and the seats that it plays.
        learner: Changes its weights.
        scorer: Computes values and log-probabilities with them, for the recipe's score parts.
        policy: Samples with them.
        trained_model: Loads and saves them.
    """

    role: Role
    learner: AnyLearner
    scorer: Scorer
    policy: Engine
    trained_model: TrainedModel

    @classmethod
    def open(
        cls,
        role: Role,
        trained_model: TrainedModel,
        settings: Settings,
        recipe: Recipe,
        renderer: Renderer,
        *,
        slots: int,
        devices: str = "",
        others: int = 0,
        reserve_bytes: int = 0,
    ) -> Trainee:
        """Start the engine and the learner of a model that is on its device.

        `slots` is the most sequences that are sampled at a time, `devices` and `reserve_bytes` are as of `open_engine`.
        `others` counts policies that follow on the same device, for which an engine leaves memory.

        Raises `ValueError` for an engine or a learner that cannot compute the model.
        """
        model, s = trained_model.model, settings
        open_one = partial(
            open_engine,
            s.engine,
            model,
            reserve_bytes=reserve_bytes,
            slots=slots,
            context=s.max_tokens or 0,
            following=others,
            devices=devices,
            dtype=s.engine_dtype or "",
            engines=s.engines,
            cluster=s.cluster,
            urls=s.engine_url,
        )
        versions = s.lag + 1  # that may be in use, where an episode keeps its own
        policy = PinnedEngine([open_one() for _ in range(versions)]) if s.in_flight == "pin" else open_one()
        options: dict[str, Any] = {
            "lr": s.lr or 0.0,
            "weight_decay": s.weight_decay,
            "max_grad_norm": s.max_grad_norm,
            "microbatch_tokens": s.microbatch_tokens,
            "epochs": s.epochs,
            "minibatches": s.minibatches or 1,
            "critic": needs(recipe, "value"),
            "critic_lr": s.critic_lr,
            "temperature": s.temperature,
            "recompute": bool(s.checkpoint_activations),
        }
        learner: AnyLearner
        if s.trainers == 1:
            learner = Learner(model, **options)
        else:
            from rl.train.trainers.far_learner import FarLearner  # imports FSDP

            try:
                learner = FarLearner(model, s, recipe, role=role.name, options=options)
            except BaseException:
                policy.close()
                raise
        return cls(role, learner, ModelScorer(learner, renderer), policy, trained_model)


class Trainees:
    """All policies that a run trains, in the order of their roles. Most runs have one, whose role has no name.

    Attributes:
        first: The first of them, which is measured and imitates before there are others.
    """

    def __init__(self, trainees: Sequence[Trainee]) -> None:
        """Take at least one; several have roles with names."""
        self._trainees = tuple(trainees)
        self.first = self._trainees[0]

    @classmethod
    def open(
        cls,
        roles: Sequence[Role],
        trained_model: TrainedModel,
        settings: Settings,
        recipe: Recipe,
        renderer: Renderer,
        *,
        slots: int,
        memory: Estimate,
        is_dry_run: bool = False,
    ) -> Trainees:
        """Open a policy for each role, the first of them on `trained_model` and the others on twins of it.

        `memory` is the estimate of what they need, of which their engines leave what is not theirs.
        With `is_dry_run` they sample and train in this process whatever the settings say: no other one is started, and
        neither vLLM nor a device beside the model's is needed.

        Raises `ValueError` if the engines of several policies cannot be told apart, and as `Trainee.open`.
        """
        devices = devices_by_role(settings, len(roles))
        if is_dry_run:
            settings, devices = _in_this_process(settings), [""] * len(roles)
        trainees: list[Trainee] = []
        try:
            for number, role in enumerate(roles):
                model = trained_model.twin(role.name) if number else trained_model
                others, own = len(roles) - 1 - number, devices[number]
                phases = {"has_scores": bool(recipe.score), "is_overlapping": bool(settings.overlap)}
                reserve = engine_reserve(model.model, memory, policies=len(roles), others=others, **phases)
                open_one = partial(Trainee.open, slots=slots, devices=own, others=others, reserve_bytes=reserve)
                trainees.append(open_one(role, model, settings, recipe, renderer))
        except BaseException:
            for trainee in trainees:
                trainee.policy.close()
                trainee.learner.close()
            raise
        return cls(trainees)

    def __iter__(self) -> Iterator[Trainee]:
        """Iterate over the policies."""
        return iter(self._trainees)

    def __len__(self) -> int:
        """Return the number of policies."""
        return len(self._trainees)

    @property
    def slots(self) -> int:
        """Most sequences that each engine samples at a time."""
        return min(one.policy.slots for one in self)

    @property
    def failure(self) -> EngineDead | None:
        """Why an engine can no longer sample; None while all work."""
        return next((one.policy.failure for one in self if one.policy.failure), None)

    @property
    def weights_changed(self) -> bool:
        """Whether an optimiser step was taken since `mark_unchanged`."""
        return any(one.learner.weights_changed for one in self)

    def mark_unchanged(self) -> None:
        """Let `weights_changed` be False until the next optimiser step."""
        for one in self:
            one.learner.weights_changed = False

    def notify_of_failure(self, call: Callable[[], None] | None) -> None:
        """Let engines call `call` once they fail, as `Engine.on_failure` says; None: they raise."""
        for one in self:
            one.policy.on_failure = call

    def sync_weights(self) -> None:
        """Hand all learners' weights to their engines."""
        for one in self:
            one.policy.sync_weights()

    def set_version(self, version: int) -> None:
        """Let the present weights of all be those after so many updates."""
        for one in self:
            one.policy.version = version

    def pause(self) -> None:
        """Let all engines free memory for an optimiser step."""
        for one in self:
            one.policy.pause()

    def engine_metrics(self) -> dict[str, float]:
        """Return the metrics of all engines since the last call: of several policies the largest of each."""
        every = [one.policy.metrics() for one in self]
        return {name: max(metrics.get(name, 0.0) for metrics in every) for name in _names(every)}

    def close(self) -> None:
        """Stop all engines, and the processes of learners."""
        for one in self:
            one.policy.close()
            one.learner.close()

    def start_alike(self) -> None:
        """Copy the weights of the first policy to all others, after it has imitated."""
        for one in self._trainees[1:]:
            one.trained_model.copy_weights(self.first.trained_model)

    def freeze_references(self) -> None:
        """Keep the present weights of each as its reference policy."""
        for one in self:
            one.learner.freeze_reference()

    def save_base(self, folder: RunFolder) -> None:
        """Write the model below the adapters of all, as `TrainedModel.save_base`."""
        self.first.trained_model.save_base(folder)
        for one in self:
            one.trained_model.base = self.first.trained_model.base

    def weights(self) -> dict[str, Tensor]:
        """Return what `save_models` writes, by the name of the role, a slash, and the weight's name in its model."""
        return {f"{one.role.name}/{name}": value for one in self for name, value in one.trained_model.weights().items()}

    def save_models(self, folder: Path, weights: Mapping[str, Tensor] | None = None) -> None:
        """Write the model into `folder`, or with several roles each one's into a subfolder with the role's name.

        `weights`, by the names of `weights()`, are written in place of the present ones.
        """
        for one in self:
            prefix = f"{one.role.name}/"
            own = {
                name.removeprefix(prefix): value for name, value in (weights or {}).items() if name.startswith(prefix)
            }
            one.trained_model.save(folder / one.role.name, own or None)

    def learner_state(self) -> dict[str, Any]:
        """Return the state of the learner, or with several roles that of each by its name."""
        states = {one.role.name: one.learner.state_dict() for one in self}
        return states.get("", states)

    def load_learner_state(self, state: Mapping[str, Any]) -> None:
        """Continue from `learner_state()`. Raises `ValueError` or `LookupError` for that of other models or roles."""
        for one in self:
            one.learner.load_state_dict(state[one.role.name] if one.role.name else dict(state))

    def description(self) -> str:
        """Return a line on which policy plays which seats; "" for a single one."""
        roles = [f"{one.role.name} plays {', '.join(one.role.seats)}" for one in self if one.role.name]
        return f"{len(roles)} policies with weights of their own: {'; '.join(roles)}" if roles else ""


def _in_this_process(settings: Settings) -> Settings:
    own = replace(settings, engine="hf", engine_dtype=settings.dtype, engines=1, engine_devices="", cluster="")
    return replace(own, engine_url=[], trainers=1, trainer_shards=0, trainer_devices="")


def devices_by_role(settings: Settings, count: int) -> list[str]:
    """Return the `--engine-devices` of each of `count` policies. Raises `ValueError` for another number of lists."""
    if settings.engines > 1:
        if count > 1 and settings.engine_devices:
            raise ValueError(
                f"--engine-devices {settings.engine_devices}: {count} policies with {settings.engines} engines each "
                "share the trainer's device; leave it out, or --engines"
            )
        return [settings.engine_devices] * count
    if count > 1 and settings.engine == "vllm":
        raise ValueError(f"--role {settings.role[0]}: one process holds one engine of vLLM; add --engine vllm:process")
    lists = settings.engine_devices.split(";")
    if lists == [""]:
        return [""] * count
    if len(lists) != count:
        example = ";".join(str(number + 1) for number in range(count))
        raise ValueError(
            f"--engine-devices {settings.engine_devices}: every policy has its own engine; give one list of devices "
            f"for each (here {count}), as {example}"
        )
    return lists


def merge_metrics(by_role: Mapping[str, Mapping[str, float]]) -> dict[str, float]:
    """Return the metrics of an update, from those of each role that was trained in it.

    Of the only role they are as they are. With several, those of each role are `roles/NAME/...`; over all roles,
    counts of tokens are sums, what ends in `max` is the largest, and anything else a mean over trained tokens.
    """
    if set(by_role) <= {""}:
        return dict(by_role.get("", {}))
    metrics = {f"roles/{role}/{name}": value for role, of_role in by_role.items() for name, value in of_role.items()}
    for name in _names(by_role.values()):
        parts = [(of_role[name], of_role.get("tokens/trained", 0.0)) for of_role in by_role.values() if name in of_role]
        values, total = [value for value, _ in parts], sum(tokens for _, tokens in parts)
        mean = sum(value * tokens for value, tokens in parts) / total if total else values[0]
        is_count, is_largest = name.startswith("tokens/"), name.endswith("max")
        metrics[name] = sum(values) if is_count else max(values) if is_largest else mean
    return metrics


def _names(metrics: Iterable[Mapping[str, float]]) -> list[str]:
    return list(dict.fromkeys(name for one in metrics for name in one))
