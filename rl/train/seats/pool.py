"""Self-play against a pool of the policy's own past weights: who enters, who is met, how members are rated."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

import torch
from torch import Tensor, nn

from envs.arguments import convert
from envs.suggestions import unknown_message
from rl.evaluate.seats.results import game_score
from rl.policy.hf import HFPolicy
from rl.policy.weight_copies import copy_model
from rl.records import Group
from rl.rollout.player import Player
from rl.seeds import generator

Rule = Literal["uniform", "latest", "pfsp"]
FORM = "pool:every=10,size=8,rule=uniform,self_play=0.2"
DECAY = 0.99  # of the weight of a game with each game after it
ELO_STEP = 32.0  # by which a rating changes in an update, for a score that is 1 above the expected one
ELO_SCALE = 400.0


@dataclass(frozen=True)
class PoolOptions:
    """How a pool is kept.

    Attributes:
        every: Updates between two members. The first member has the weights that training begins with.
        size: Most members; the oldest one leaves for a new one.
        rule: Who is met. `uniform`: each member with the same probability, as in fictitious self-play. `latest`: the
            newest member. `pfsp`: prioritised fictitious self-play of AlphaStar (O. Vinyals et al., Nature 575, 2019,
            Methods, f_hard with p = 2): with a probability proportional to (1 - x)^2, where x is the policy's score
            against the member.
        self_play: Share of groups in which the present policy plays all seats, and all are trained.
    """

    every: int = 10
    size: int = 8
    rule: Rule = "uniform"
    self_play: float = 0.2

    @classmethod
    def parse(cls, spec: str) -> PoolOptions | None:
        """Return the options of `pool` or `pool:key=value,key=value`; None for another player.

        Raises `ValueError` for an unknown option or a value that it cannot have.
        """
        name, _, words = spec.partition(":")
        if name != "pool":
            return None
        types: dict[str, Any] = {"every": int, "size": int, "rule": Rule, "self_play": float}
        values: dict[str, Any] = {}
        for word in filter(None, words.split(",")):
            key, equals, value = word.partition("=")
            if key not in types:
                raise ValueError(f"--opponent {spec}: {unknown_message('option', key, types, of=FORM)}")
            if not equals:
                raise ValueError(f"--opponent {spec}: {key} has no value; write {key}=VALUE, as in {FORM}")
            if key in values:
                raise ValueError(f"--opponent {spec}: {key} is given twice; give it once")
            try:
                values[key] = convert(value, types[key])
            except ValueError as error:
                raise ValueError(f"--opponent {spec}: {key}={value}: {error}") from None
        options = cls(**values)
        for key in ("every", "size"):
            if values.get(key, 1) < 1:
                raise ValueError(f"--opponent {spec}: {key}={values[key]}: must be at least 1")
        if not 0 <= options.self_play < 1:
            raise ValueError(f"--opponent {spec}: self_play={options.self_play}: must be at least 0 and below 1")
        return options


@dataclass
class Member:
    """Past weights of the policy, with an engine of their own.

    Attributes:
        update: Number of updates that had made the weights.
        model: A frozen copy of the model.
        rating: Elo rating.
        games: Number of games that the policy has played against it, each of which fades with the games after it.
        score: What the policy has scored in these games, faded alike.
        is_active: Whether it is in the pool; one that has left stays for the groups that it is playing.
    """

    update: int
    model: nn.Module
    rating: float = 0.0
    games: float = 0.0
    score: float = 0.0
    is_active: bool = True

    def __post_init__(self) -> None:
        self.engine: HFPolicy | None = None

    @property
    def name(self) -> str:
        """What rollouts and tickets call it."""
        return f"update-{self.update:06d}"

    @property
    def policy_score(self) -> float:
        """The policy's mean score against it; 0.5 before any game."""
        return self.score / self.games if self.games else 0.5


class Pool:
    """The members, their ratings, and the rule by which a group's opponent is drawn.

    The draw depends on the run's seed, the number of the ticket and the results of the updates before it, and is
    recorded in the ticket. Ratings are Elo's, of the policy and of all members: a member enters with the policy's, and
    after each update the mean score of all games against a member counts as one game. A game scores 1 where the policy
    alone succeeds, 0 where its opponent alone does, else 0.5; among teammates it is the team's success.
    """

    def __init__(self, options: PoolOptions, seed: int, *, is_team: bool) -> None:
        self.options, self.seed, self.is_team = options, seed, is_team
        self.rating = 0.0
        self.members: list[Member] = []

    def connect(self, model: nn.Module, player: Player) -> None:
        """Take the model that is trained, and a player whose engine each member replaces by its own."""
        self.model, self.player = model, player

    def begin(self) -> None:
        """Let the present weights be the first member."""
        self.members = [Member(0, copy_model(self.model))]

    def choose(self, ticket: int) -> str:
        """Return the name of the member that a group of this number meets; "" for the policy itself."""
        rng = generator(self.seed, "opponent", ticket)
        active = [member for member in self.members if member.is_active]
        if rng.random() < self.options.self_play or not active:
            return ""
        if self.options.rule == "latest":
            return active[-1].name
        weights = [(1 - m.policy_score) ** 2 if self.options.rule == "pfsp" else 1.0 for m in active]
        total = sum(weights)
        odds = [weight / total for weight in weights] if total else None
        return active[int(rng.choice(len(active), p=odds))].name

    def player_of(self, name: str) -> Player:
        """Return the player of a member, whose engine is opened when it is first asked for."""
        member = next(member for member in self.members if member.name == name)
        if member.engine is None:
            member.engine = HFPolicy(member.model, context=self.player.max_tokens)
        p = self.player
        return Player(name, p.make_agent, member.engine, p.params, p.max_tokens, is_opponent=True, must_reply=True)

    def settle(self) -> None:
        """Bring all engines to the state of new ones, as each update does with the policy's."""
        for member in self.members:
            if member.engine is not None:
                member.engine.sync_weights()
                member.engine.version = 0  # of weights that never change

    def finish_update(self, update: int, groups: Sequence[Group], names_in_play: Collection[str]) -> dict[str, float]:
        """Rate the members by the groups of an update, and let its weights enter if it is time; return metrics.

        `names_in_play` are the members that groups in progress have to do with; they stay until these have ended.
        """
        scores = {member.name: list(self._scores(member.name, groups)) for member in self.members}
        for member in self.members:
            self._rate(member, scores[member.name])
        if update % self.options.every == 0:
            self.members.append(Member(update, copy_model(self.model), self.rating))
            for member in self.members[: -self.options.size]:
                member.is_active = False
        for member in [m for m in self.members if not (m.is_active or m.name in names_in_play)]:
            self.members.remove(member)
            if member.engine is not None:
                member.engine.close()
        played = [score for of_member in scores.values() for score in of_member]
        active = [member for member in self.members if member.is_active]
        metrics = {"pool/members": float(len(active)), "pool/rating": self.rating}
        metrics["pool/rating_max"] = max(member.rating for member in active)
        return {**metrics, **({"pool/score": sum(played) / len(played)} if played else {})}

    def _scores(self, name: str, groups: Iterable[Group]) -> Iterable[float]:
        for group in groups:
            if group.ticket.opponent == name:
                others = {trajectory.member: trajectory for trajectory in group.others}
                for own in group.trajectories:
                    if not own.replayed:
                        yield game_score(own, others.get(own.member), is_team=self.is_team)

    def _rate(self, member: Member, scores: Sequence[float]) -> None:
        if not scores:
            return
        mean, decay = sum(scores) / len(scores), DECAY ** len(scores)
        member.games = member.games * decay + len(scores)
        member.score = member.score * decay + sum(scores)
        change = ELO_STEP * (mean - 1 / (1 + 10 ** ((member.rating - self.rating) / ELO_SCALE)))
        self.rating, member.rating = self.rating + change, member.rating - change

    def close(self) -> None:
        """Close all engines."""
        for member in self.members:
            if member.engine is not None:
                member.engine.close()

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint stores: ratings, and of each member the weights that are trained."""
        names = {name for name, weight in self.model.named_parameters() if weight.requires_grad}
        members = []
        for member in self.members:
            record = {field.name: getattr(member, field.name) for field in fields(member) if field.name != "model"}
            weights = {name: weight for name, weight in member.model.named_parameters() if name in names}
            members.append({**record, "weights": weights})
        return {"rating": self.rating, "members": members}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore `state_dict()`, in the model that is trained now. Raises `ValueError` for weights of another one."""
        self.rating, self.members = state["rating"], []
        for record in state["members"]:
            weights: Mapping[str, Tensor] = record["weights"]
            model = copy_model(self.model)
            own = dict(model.named_parameters())
            if not weights.keys() <= own.keys():
                raise ValueError("a member of the pool has other weights than the model")
            with torch.no_grad():
                for name, value in weights.items():
                    own[name].copy_(value)
            self.members.append(
                Member(model=model, **{key: value for key, value in record.items() if key != "weights"})
            )
