"""Opens what may sit in a seat: a model in this process, a model behind an API, or a script of the game."""

from __future__ import annotations

import argparse
import copy
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rl import config_file
from rl.evaluate.policies import EPISODE_S, LocalModel, check_model, open_endpoint_client, open_local_model
from rl.evaluate.run_defaults import RUN_SETTINGS, fill_prompts, run_folder
from rl.evaluate.runner import SCRIPT_CONCURRENCY
from rl.prompt_options import PromptOptions
from rl.rollout.player import AnyPlayer, Player, ScriptPlayer, TeamPlayer
from rl.rollout.roles import parse_roles
from rl.spec_paths import role_models

if TYPE_CHECKING:  # imports PettingZoo
    from envs.multi.multi_env import MultiEnv

NOT_IN_SEATS = ("human", "replay:")  # policies that play the single-agent view only


@dataclass(frozen=True)
class OpenPlayer:
    """A player and what is needed to let it play.

    Attributes:
        player: Who replies.
        slots: Episodes that it can play at the same time.
        episode_s: Seconds after which an episode is truncated, unless a flag says otherwise.
        client: What must be entered while it plays; None for nothing.
        close: Frees what it holds.
        model: The model in this process; None for any other player, among them a team.
        team: The models in this process of a run that has one for each role.
    """

    player: AnyPlayer | TeamPlayer
    slots: int = SCRIPT_CONCURRENCY
    episode_s: float = EPISODE_S
    client: AbstractAsyncContextManager[Any] | None = None
    close: Callable[[], None] = lambda: None
    model: LocalModel | None = None
    team: tuple[LocalModel, ...] = ()

    @property
    def failure(self) -> Exception | None:
        """Why an engine of it can no longer sample; None while all work."""
        return next((model.engine.failure for model in self.models if model.engine.failure), None)

    @property
    def models(self) -> tuple[LocalModel, ...]:
        """All its models in this process."""
        return (self.model, *self.team) if self.model else self.team


def is_script(spec: str, game: type[MultiEnv]) -> bool:
    """Whether `spec` names a script: one that every game has, one of this game, or a function of a file."""
    from envs.multi.opponents import COMMON_PLAYERS

    name = spec.partition(":")[0]
    return name in (*COMMON_PLAYERS, *game.players) or name.endswith(".py")


def check_player(spec: str, game: type[MultiEnv], *, flag: str) -> None:
    """Raise `ValueError` if `spec` names a script or a model that does not exist. Loads nothing."""
    is_other = spec.startswith((*NOT_IN_SEATS, "openai:")) or is_script(spec, game)
    if not is_other and not role_models(Path(spec).expanduser()):
        check_model(spec, names=(*game.players,), flag=flag)


def open_player(
    args: argparse.Namespace, game: type[MultiEnv], *, flag: str = "--policy", must_reply: bool = False
) -> OpenPlayer:
    """Open the player that `args.policy` names, for the seats of `game`.

    Args:
        args: Flags of `rl.evaluate.flags.add_policy_flags`.
        game: Class of the environment.
        flag: Where the name comes from, for errors.
        must_reply: As of `rl.rollout.player.Player`.

    Raises:
        ValueError: An unknown name, a policy that cannot sit in a seat, a wrong flag, or a model that does not work.
        OSError: A file cannot be read.
    """
    spec = args.policy
    if spec.startswith(NOT_IN_SEATS):
        raise ValueError(
            f"{flag} {spec}: plays single-agent views only, such as --env-arg seat={game.seats[0]}, where scripts play "
            "the other seats"
        )
    if is_script(spec, game):
        from envs.multi.opponents import make_opponent

        PromptOptions.from_flags(args).refuse(spec, "system", "template_args", "tool_format", "agent")
        return OpenPlayer(ScriptPlayer(spec, make_opponent(spec, game)))
    if spec.startswith("openai:"):
        return _open_endpoint(args, flag, must_reply)
    if roles := role_models(Path(spec).expanduser()):
        return _open_team(args, game, roles, flag, must_reply)
    model = open_local_model(args, names=(*game.players,), flag=flag)
    engine = model.engine
    player = Player(spec, model.make_agent, engine, model.params, engine.context, must_reply=must_reply)
    return OpenPlayer(player, engine.slots, close=engine.close, model=model)


def _open_team(
    args: argparse.Namespace, game: type[MultiEnv], folders: Sequence[Path], flag: str, must_reply: bool
) -> OpenPlayer:
    """Open all models of a run, one for each role, for the seats that they were trained in."""
    run = run_folder(args.policy)
    settings = config_file.read_run(run) if run else {}
    seats_of = {role.name: role.seats for role in parse_roles(settings.get("role", []), game.seats, must_cover=False)}
    by_seat: dict[str, Player] = {}
    models: list[LocalModel] = []
    for folder in folders:
        flags = copy.copy(args)
        flags.policy = str(folder)
        models.append(open_local_model(flags, flag=flag))
        model = models[-1]
        player = Player(
            args.policy, model.make_agent, model.engine, model.params, model.engine.context, must_reply=must_reply
        )
        by_seat |= dict.fromkeys(seats_of.get(folder.name, ()), player)
    if missing := [seat for seat in game.seats if seat not in by_seat]:
        raise ValueError(f"{flag} {args.policy}: no role of this run plays {missing[0]}; give {folders[0]}")

    def close() -> None:
        for model in models:
            model.engine.close()

    slots = min(model.engine.slots for model in models)
    return OpenPlayer(TeamPlayer(args.policy, by_seat), slots, close=close, team=tuple(models))


def opponent_flags(args: argparse.Namespace, spec: str) -> argparse.Namespace:
    """Return the flags for the opponent `spec`: those of the command, but prompts and lengths are of its own run.

    `--system`, `--tool-format`, `--template-arg` and `--agent` concern the policy alone.
    """
    flags = copy.copy(args)
    flags.policy, flags.system, flags.tool_format, flags.template_arg, flags.agent = spec, None, None, [], None
    fill_prompts(flags)
    folder = run_folder(spec)
    settings = config_file.read_run(folder) if folder else {}
    for key in RUN_SETTINGS:
        if getattr(flags, key) is None:
            setattr(flags, key, settings.get(key))
    return flags


def _open_endpoint(args: argparse.Namespace, flag: str, must_reply: bool) -> OpenPlayer:
    from rl.evaluate.clients.client import ClientPolicy, MessageAgent  # httpx is slow to import

    client, params = open_endpoint_client(args, flag=flag)
    policy, system = ClientPolicy(client), PromptOptions.from_flags(args).system
    player = Player(
        args.policy,
        lambda: MessageAgent(policy.vocabulary, system),
        policy,
        params,
        sys.maxsize,  # would count messages; the client limits the tokens
        must_reply=must_reply,
        has_own_ids=True,
    )
    return OpenPlayer(player, 2 * args.concurrency, inf, client)
