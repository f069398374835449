"""An `Engine` in which each group keeps the weights that it began with: one engine for each version in use."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from agents.images import PlacedImage
from rl.policy.engine import Engine, EngineDead
from rl.records import Completion, SamplingParams


class PinnedEngine(Engine):
    """Several engines on one model, each of which holds another version of its weights.

    A group asks the engine that has the newest weights when it asks first, and no other one. New weights go to an
    engine that no group asks any more. So all tokens of a group are of one version, as in DORA (LongCat, rule C1), if
    whoever hands over weights lets `make_room` be True first.
    """

    def __init__(self, engines: Sequence[Engine]) -> None:
        """Take one engine for each version that may be in use at a time, all on the same model."""
        self._engines = list(engines)
        self._newest = self._engines[0]
        self._by_group: dict[str, Engine] = {}
        self._on_failure: Callable[[], None] | None = None
        self.slots, self.context = self._newest.slots, self._newest.context
        self.description = f"{len(self._engines)} versions of the weights, each with a cache of its own"

    @property
    def version(self) -> int:  # type: ignore[override]
        """Version of the newest weights; see `Policy`."""
        return self._newest.version

    @version.setter
    def version(self, version: int) -> None:
        self._newest.version = version

    @property
    def failure(self) -> EngineDead | None:  # type: ignore[override]
        """See `Engine`."""
        return next((engine.failure for engine in self._engines if engine.failure), None)

    @property
    def on_failure(self) -> Callable[[], None] | None:  # type: ignore[override]
        """See `Engine`."""
        return self._on_failure

    @on_failure.setter
    def on_failure(self, call: Callable[[], None] | None) -> None:
        self._on_failure = call
        for engine in self._engines:
            engine.on_failure = call

    async def sample(
        self,
        prompt: Sequence[int],
        params: SamplingParams,
        *,
        session: str = "",
        resume_from: Completion | None = None,
        images: Sequence[PlacedImage] = (),
    ) -> Completion:
        """See `Policy`."""
        engine = self._by_group.setdefault(_group(session), self._newest) if session else self._newest
        more = {"images": images} if images else {}
        return await engine.sample(prompt, params, session=session, resume_from=resume_from, **more)

    def release(self, session: str) -> None:
        """See `Policy`. The group keeps its engine, since other members may come."""
        if engine := self._by_group.get(_group(session)):
            engine.release(session)

    def partial(self, session: str) -> Completion | None:
        """See `Policy`."""
        engine = self._by_group.get(_group(session))
        return engine.partial(session) if engine else None

    def make_room(self, tickets: Collection[int]) -> bool:
        """Forget the groups of all but these open tickets; return whether an engine is free for new weights."""
        names = set(map(str, tickets))
        self._by_group = {group: engine for group, engine in self._by_group.items() if group in names}
        return bool(self._free())

    def sync_weights(self) -> None:
        """See `Engine`. Without a free engine the one with the oldest weights takes them over, with its groups."""
        version = self.version
        engine = next(iter(self._free()), None) or min(self._engines, key=lambda one: one.version)
        engine.version = version
        engine.sync_weights()
        self._newest = engine

    def _free(self) -> list[Engine]:
        used = {id(engine) for engine in self._by_group.values()}
        return [engine for engine in self._engines if id(engine) not in used]

    def pause(self) -> None:
        """See `Engine`."""
        for engine in self._engines:
            engine.pause()

    def close(self) -> None:
        """See `Engine`."""
        for engine in self._engines:
            engine.close()


def _group(session: str) -> str:
    """The number of the ticket in the name of an episode."""
    return session.partition("/")[0]
