"""Whole groups that are not played but taken over: from earlier updates of the run, and from other runs as text."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from envs.env import Env
from envs.types import Outcome, Task, text, user
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods.options import PartError
from rl.methods.parts import score, strategy
from rl.methods.parts.strategy.stored import takes_stored
from rl.records import Group, Ticket
from tests.support.batches import ToyScorer, make_trajectory
from tests.support.episodes import END, FixedPolicy, LetterAgent, make_runner
from tests.support.models import model, perturb_weights
from tests.support.runs import assert_same_run, flags, metrics, rollouts, train, train_run, weights


class Word(Env):
    """Is content with a reply that begins with `w`."""

    def tasks(self, split):
        return [Task(f"{split}/{i}", (user(f"task {i}"),)) for i in range(4)]

    def reply(self, action):
        won = text(action).startswith("w")
        return Outcome(reward=float(won), terminated=True, success=won)


class Half(FixedPolicy):
    """Every other member wins, unless nobody does."""

    def __init__(self, *, nobody: bool = False) -> None:
        super().__init__()
        self.nobody = nobody

    async def sample(self, prompt, params, *, session="", resume_from=None):
        is_winner = int(session.rpartition("/")[2]) % 2 and not self.nobody
        return await FixedPolicy(lambda prompt: (ord("w" if is_winner else "l"), END)).sample(prompt, params)


class Writer(LetterAgent):
    """Writes the tokens of a reply too."""

    @property
    def renderer(self):
        return self

    def write(self, reply):
        return (*map(ord, text(reply)), END)


def ticket(number: int, index: int = 0, *, version: int = 0, settled: int | None = None) -> Ticket:
    return Ticket(number, index, "train", 100 + number, 2, version, number if settled is None else settled)


def play(part, one: Ticket, *, nobody: bool = False, agent: type[LetterAgent] = LetterAgent) -> Group:
    runner = make_runner(Word, Half(nobody=nobody))
    runner.make_agent = agent
    (group,) = asyncio.run(asyncio.wait_for(part(runner, one), 20))
    return group


def is_replayed(group: Group) -> bool:
    marks = {member.replayed for member in group.trajectories}
    assert len(marks) == 1
    return marks.pop()


def test_the_share_of_stored_groups_is_even() -> None:
    for fresh in (1.0, 0.75, 0.5, 0.25, 0.1):
        takes = [takes_stored(number, fresh) for number in range(40)]
        assert sum(takes) == round((1 - fresh) * 40)
        assert all(abs(sum(takes[:n]) - (1 - fresh) * n) <= 1 for n in range(40))


def test_every_other_group_is_one_that_was_used_up() -> None:
    part = strategy.replay_groups(fresh=0.5)
    first = play(part, ticket(0))
    assert not is_replayed(first)
    again = play(part, ticket(1, index=3))
    assert is_replayed(again) and again.ticket.number == 1
    assert again.rewards == first.rewards == [0.0, 1.0]
    assert again.trajectories[1].turns == first.trajectories[1].turns  # with the log-probabilities of the sampler
    assert not is_replayed(play(part, ticket(2)))
    assert not is_replayed(play(part, ticket(3, settled=0)))  # no update has used a group up yet


def test_groups_without_variance_and_old_ones_are_not_stored() -> None:
    part = strategy.replay_groups(oldest=3)
    play(part, ticket(0), nobody=True)
    assert not is_replayed(play(part, ticket(1)))
    assert is_replayed(play(part, ticket(3, version=3)))
    assert not is_replayed(play(part, ticket(5, version=4)))


def test_the_newest_group_of_each_task_is_stored_up_to_a_number() -> None:
    part = strategy.replay_groups(fresh=1.0, keep=2)
    for number, index in enumerate((0, 1, 0, 2)):
        play(part, ticket(number, index))
    assert [(split, index, number) for split, index, number, *_ in part.state_dict()["groups"]] == [
        ("train", 0, 2),
        ("train", 2, 3),
    ]
    restored = strategy.replay_groups(fresh=0.5, keep=2)
    restored.load_state_dict(json.loads(json.dumps(part.state_dict())))
    part.fresh = 0.5
    assert play(restored, ticket(5)) == play(part, ticket(5))


def test_a_run_with_stored_groups_samples_half_as_many_tokens(tmp_path: Path) -> None:
    how = {"updates": 6, "groups": 4, "lag": 0}
    plain = metrics(train_run(*flags("Low", algo="grpo", **how), out=tmp_path / "plain"))
    stored = metrics(train_run(*flags("Low", algo="dots", **how), out=tmp_path / "stored"))
    assert [line["groups/played"] for line in stored] == [4.0] * 6
    assert sum(line["episodes/replayed"] for line in stored) > 0
    assert sum(line["tokens/sampled"] for line in stored) < 0.8 * sum(line["tokens/sampled"] for line in plain)


def test_runs_share_their_groups_as_text(tmp_path: Path) -> None:
    ours, theirs = (strategy.swarm(folder=str(tmp_path / "swarm")) for _ in range(2))
    played = play(theirs, ticket(0, index=2), agent=Writer)
    (file,) = (tmp_path / "swarm").iterdir()
    line = json.loads(file.read_text())
    assert line["index"] == 2 and [reply["content"] for (reply,) in line["replies"]] == ["l", "w"]
    assert not is_replayed(play(ours, ticket(0), agent=Writer))
    taken = play(ours, ticket(1), agent=Writer)
    assert is_replayed(taken) and taken.rewards == [0.0, 1.0]
    assert taken.trajectories[1].turns[0].completion.ids == played.trajectories[1].turns[0].completion.ids
    assert taken.trajectories[1].turns[0].context == tuple(map(ord, "task 2"))
    assert not is_replayed(play(ours, ticket(3), agent=Writer))  # each once, and none of its own
    assert len({path.stem for path in (tmp_path / "swarm").iterdir()}) == 2


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[" * 100_000,
        '{"index": 0}',
        '{"index": "x", "seed": 1, "replies": []}',
        '{"index": 0, "seed": 1, "replies": [[{}]]}',
        '{"index": 99, "seed": 1, "replies": [[{"role": "assistant", "content": "w"}]]}',
        json.dumps({"index": 0, "seed": 1, "replies": [[{"role": "assistant", "content": "l"}]] * 3}),
        json.dumps({"index": 0, "seed": 1, "replies": [[], [{"role": "assistant", "content": 5}]]}),
    ],
    ids=["half", "deep", "short", "wrong", "no role", "no such task", "no variance", "no reply"],
)
def test_what_teaches_nothing_or_is_no_group_is_left_out(line: str, tmp_path: Path) -> None:
    (tmp_path / "other.jsonl").write_text(line + "\n")
    part = strategy.swarm(folder=str(tmp_path))
    assert not is_replayed(play(part, ticket(1), agent=Writer))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(PartError, match=f"--strategy swarm: cannot share a group in {tmp_path}/file"):
        play(strategy.swarm(folder=str(tmp_path / "file")), ticket(0), agent=Writer)


def test_two_runs_learn_from_each_other(tmp_path: Path) -> None:
    how = {"algo": "swarm", "updates": 3, "groups": 4, "strategy": f"swarm:folder={tmp_path / 'shared'}"}
    train_run(*flags("Low", **how, seed=1), out=tmp_path / "one")
    out = train_run(*flags("Low", **how, seed=2), out=tmp_path / "two")
    lines = metrics(out)
    assert sum(line["episodes/replayed"] for line in lines) > 0
    assert all(np.isfinite(line["loss"]) and line["grad_norm"] > 0 for line in lines)
    assert any(line["replayed"] for update in (1, 2, 3) for line in rollouts(out, update))


def test_from_some_version_on_all_groups_are_played_again() -> None:
    part = strategy.replay_groups(fresh=0.01, until=5)
    play(part, ticket(0))
    assert play(part, ticket(3, version=4)).trajectories[0].replayed
    assert not play(part, ticket(4, version=5)).trajectories[0].replayed


def test_the_policy_becomes_the_reference_and_a_resumed_run_does_the_same(tmp_path: Path) -> None:
    words = flags("Talk", "--score", "renewed_reference:at=2", algo="remix", save_every=1)
    whole = train_run(*words, "--updates", "4", out=tmp_path / "whole")
    parts = train_run(*words, "--updates", "2", out=tmp_path / "parts")  # it ends right behind the change
    assert train("--resume", "--out", str(parts), "--updates", "4").code == 0
    assert_same_run(whole, parts)
    other = train_run(*flags("Talk", algo="remix"), "--updates", "4", out=tmp_path / "other")
    assert not all(torch.equal(one, weights(other)[name]) for name, one in weights(whole).items())


def test_only_in_its_update_the_reference_is_renewed() -> None:
    class Watch(ToyScorer):
        count = 0

        def renew_reference(self) -> None:
            self.count += 1

    scorer = Watch()
    for version in range(4):
        scorer.version = version
        asyncio.run(score.renewed_reference(scorer, [], at=3))
        assert scorer.count == (version >= 2)


def test_a_renewed_reference_is_the_policy_as_it_is() -> None:
    learner = Learner(model(), lr=0.0)
    learner.freeze_reference()
    perturb_weights(learner.model, 1)
    scorer, member = ModelScorer(learner, SimpleNamespace()), make_trajectory((4, 0.0))
    assert scorer.reference([member]) != scorer.logprobs([member])
    scorer.renew_reference()
    assert scorer.reference([member]) == scorer.logprobs([member])
    learner.has_adapters = True
    with pytest.raises(PartError, match="with --lora the reference is the model below the adapters"):
        scorer.renew_reference()
