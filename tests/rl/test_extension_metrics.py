"""Metrics count how often an episode was asked whether it needs more turns, and how often it got them."""

from agents.agent import Context, Internal
from envs.types import Stop, assistant
from rl.evaluate.metrics import task_values
from rl.train.rollout_metrics import rollout_metrics
from tests.support.episodes import Count, LetterAgent, make_runner, make_ticket, play_group


class Brief(LetterAgent):
    """Asks after the first reply, grants a turn, and ends the episode after it."""

    def act(self, ids):
        reply = super().act(ids)
        return Internal(assistant("more")) if len(self.replies) == 2 else reply

    def observe(self, messages):
        context = super().observe(messages)
        if len(self.replies) == 3:
            return Context((), end=True)
        return context._replace(role="extension") if len(self.replies) == 1 else context


def test_metrics_count_extensions():
    group = play_group(make_runner(Count, agent=Brief), make_ticket(size=2))
    assert [t.stop for t in group.trajectories] == [Stop.TURN_LIMIT] * 2
    metrics = rollout_metrics([group], [group])
    assert (metrics["extensions/asked"], metrics["extensions/granted"], metrics["truncated/mean"]) == (1.0, 1.0, 1.0)
    assert task_values([group.trajectories], (1,), lambda _: "")["metrics/extensions"] == [1.0]


def test_other_agents_have_no_such_metrics():
    plain = play_group(make_runner(Count), make_ticket(size=2))
    assert "extensions/asked" not in rollout_metrics([plain], [plain])
    assert "metrics/extensions" not in task_values([plain.trajectories], (1,), lambda _: "")
