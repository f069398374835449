"""Gains from the policy's own continuations: what is asked, what is computed, and what each turn is paid."""

from __future__ import annotations

import asyncio
import math
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from agents.render import Renderer
from envs.types import Stop, user
from rl.learner.learner import Learner
from rl.learner.scorer import ModelScorer
from rl.methods.parts import score
from rl.methods.parts.score.gain import answer_text
from rl.policy import branches
from rl.policy.pretrained import load_pretrained
from rl.records import Branch, Completion, Group, Ticket, Trajectory, Turn
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, VOCAB, model
from tests.support.play import random_groups, random_trajectory


def one_by_one(net, trunks, requests):
    """The same numbers from whole sequences, one forward pass each."""
    result = []
    for branch in requests:
        row = [*trunks[branch.trunk][: branch.at], *branch.ids]
        with torch.no_grad():
            scores = net(input_ids=torch.tensor([row])).logits[0].log_softmax(-1)
        result.append([float(scores[i - 1, row[i]]) for i in range(len(row) - branch.scored, len(row))])
    return result


def forest(seed=0):
    """Histories of three lengths and branches from anywhere on them, two of which follow their trunk."""
    rng = np.random.default_rng(seed)
    trunks = [rng.integers(VOCAB, size=n).tolist() for n in (5, 14, 9)]
    trunks += [[*trunks[2][:6], 1, 2, 3], trunks[2][:7], trunks[2], [4]]  # members of a group, and one token
    requests = []
    for _ in range(40):
        trunk = int(rng.integers(len(trunks)))
        ids = tuple(rng.integers(VOCAB, size=rng.integers(1, 5)).tolist())
        requests.append(
            Branch(trunk, int(rng.integers(1, len(trunks[trunk]) + 1)), ids, int(rng.integers(len(ids) + 1)))
        )
    return trunks, [*requests, Branch(1, 3, tuple(trunks[1][3:9]), 4), Branch(1, 1, tuple(trunks[1][1:]), 13)]


@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES])
@pytest.mark.parametrize("budget", [1, 30, 10_000])
def test_a_branch_has_the_log_probabilities_of_its_whole_sequence(kind, budget):
    net = model(kind)
    trunks, requests = forest()
    result = branches.branch_logprobs(net, trunks, requests, max_tokens=budget)
    assert [len(numbers) for numbers in result] == [branch.scored for branch in requests]
    for one, other in zip(result, one_by_one(net, trunks, requests), strict=True):
        np.testing.assert_allclose(one, other, atol=2e-5)


def test_a_history_is_computed_once_and_what_follows_it_not_again(monkeypatch):
    seen = []
    layout = branches._Layout

    def counted(*given):
        made = layout(*given)
        seen.append(len(made.ids))
        return made

    monkeypatch.setattr(branches, "_Layout", counted)
    trunk = list(range(10))
    requests = [Branch(0, 4, (7, 7), 2), Branch(0, 9, (7,), 1), Branch(0, 2, tuple(trunk[2:8]), 6)]
    branches.branch_logprobs(model(), [trunk], requests, max_tokens=1000)
    assert seen == [10 + 2 + 1]


@pytest.mark.parametrize("wrong", [Branch(0, 0, (1,), 1), Branch(0, 4, (1,), 1), Branch(0, 2, (1,), 2)])
def test_a_branch_that_cannot_be_is_refused(wrong):
    with pytest.raises(ValueError, match="branch"):
        branches.branch_logprobs(model(), [[1, 2, 3]], [wrong], max_tokens=100)


class Words:
    """A scorer with the log-probabilities of a table, that remembers what it was asked."""

    def __init__(self, table):
        self.table, self.asked = table, []

    def continuations(self, trunks, requests):
        self.trunks, self.asked = [list(trunk) for trunk in trunks], list(requests)
        return [self.table(i, branch) for i, branch in enumerate(requests)]

    def encode_reply(self, text):
        return tuple(text.encode())

    def hide_feedback(self, turn, placeholder):
        return tuple(placeholder.encode()[: len(turn.context)])


def dialogue(answer="ab", turns=3, fresh=()):
    trajectory = random_trajectory(np.random.default_rng(1), (1, 2, 3), turns=turns, fresh=fresh)
    trajectory.answer = answer
    return trajectory, [Group(Ticket(0, 0, "train", 0, 1), [trajectory])]


def gain_of(turn):
    assert len(turn.streams["gain"]) == len(turn.completion.ids)
    return sum(turn.streams["gain"])


def test_the_answer_is_tried_before_and_after_every_turn_but_the_last():
    trajectory, groups = dialogue()
    levels = [0.1, 0.4, 0.3]
    words = Words(lambda i, branch: [math.log(levels[i])] * branch.scored)
    asyncio.run(score.answer_gain(words, groups))
    assert [gain_of(turn) for turn in trajectory.turns] == pytest.approx([0.3, -0.1, 0.0])
    history = next(trajectory.sequences()).ids
    for branch, k in zip(words.asked, range(3), strict=True):
        start = sum(len(turn.context) + len(turn.completion.ids) for turn in trajectory.turns[:k])
        assert branch.at == start + len(trajectory.turns[k].context)
        assert branch.ids == tuple(b"ab") and branch.scored == 2
    assert words.trunks == [history[: words.asked[-1].at]]  # nobody needs the last reply


def test_logarithms_are_gains_too():
    trajectory, groups = dialogue()
    words = Words(lambda i, branch: [-3.0 + i] * branch.scored)
    asyncio.run(score.answer_gain(words, groups, log=True))
    assert [gain_of(turn) for turn in trajectory.turns] == pytest.approx([1.0, 1.0, 0.0])


def test_words_before_the_answer_are_read_and_not_scored():
    _, groups = dialogue()
    words = Words(lambda i, branch: [-1.0] * branch.scored)
    asyncio.run(score.answer_gain(words, groups, lead="so: "))
    assert {(branch.ids, branch.scored) for branch in words.asked} == {(tuple(b"so: ab"), 2)}


@pytest.mark.parametrize("answer", [None, "", (), {"a": 1}])
def test_without_an_answer_no_turn_gains(answer):
    trajectory, groups = dialogue(answer)
    asyncio.run(score.answer_gain(Words(lambda i, branch: [-1.0 - i] * branch.scored), groups))
    assert [gain_of(turn) for turn in trajectory.turns] == [0, 0, 0]


def test_an_answer_is_taken_as_text_and_of_several_the_first():
    assert [answer_text(one) for one in (7, "7", ["x", "y"], ((3,),), [])] == ["7", "7", "x", "3", ""]


@pytest.mark.parametrize("fresh", [(), (1,), (1, 2)])
def test_places_are_right_where_a_history_began_anew(fresh):
    trajectory, groups = dialogue(fresh=fresh)
    words = Words(lambda i, branch: [-1.0] * branch.scored)
    asyncio.run(score.answer_gain(words, groups))
    histories = [history.ids for history in trajectory.sequences()]
    assert len(words.trunks) == len(histories) == 1 + len(fresh)
    for branch, turn in zip(words.asked, trajectory.turns, strict=True):
        at, length = branch.at, len(turn.context)
        assert tuple(histories[branch.trunk][at - length : at]) == turn.context


def test_feedback_gains_what_it_adds_to_the_next_reply():
    trajectory, groups = dialogue()
    words = Words(lambda i, branch: [(-1.0, -1.5, -2.0, -1.0)[i]] * branch.scored)
    asyncio.run(score.feedback_gain(words, groups, instead="nothing at all", below=9.0))
    assert [gain_of(turn) for turn in trajectory.turns] == pytest.approx([0.5, -1.0, 0.0])
    real, hidden = words.asked[:2]
    turn = trajectory.turns[1]
    assert real.ids == (*turn.context, *turn.completion.ids) and real.scored == len(turn.completion.ids)
    assert hidden == real._replace(ids=(*b"nothing at all"[: len(turn.context)], *turn.completion.ids))


def test_groups_in_which_the_gate_is_closed_are_not_asked_about():
    groups = [
        Group(Ticket(n, n, "train", 0, 2), [dialogue()[0], dialogue()[0]], rewards=rewards)
        for n, rewards in enumerate(([1.0, 1.0], [0.0, 1.0], [0.5, 0.6]))
    ]
    words = Words(lambda i, branch: [-1.0 - i % 2] * branch.scored)
    asyncio.run(score.feedback_gain(words, groups))
    gained = [[gain_of(turn) for member in group.trajectories for turn in member.turns] for group in groups]
    assert gained == [[1, 1, 0] * 2, [0] * 6, [1, 1, 0] * 2]


def test_real_scores_of_feedback_equal_two_whole_sequences():
    net = model()
    groups = random_groups()
    learner = Learner(net, lr=0.0)
    scorer = ModelScorer(learner, SimpleNamespace())
    scorer.hide_feedback = lambda turn, instead: (5,) * len(turn.context)
    asyncio.run(score.feedback_gain(scorer, groups, below=9.0))
    for trajectory in (t for group in groups for t in group.trajectories):
        prompt = []
        for k, turn in enumerate(trajectory.turns):
            prompt = [*turn.context] if turn.fresh else [*prompt, *turn.context]
            if k and not turn.fresh:
                hidden = [*prompt[: len(prompt) - len(turn.context)], *(5 for _ in turn.context)]
                ids, count = turn.completion.ids, len(turn.completion.ids)
                requests = [Branch(0, len(row), ids, count) for row in (prompt, hidden)]
                real, placeholder = (
                    one_by_one(net, [row], [one])[0] for row, one in zip((prompt, hidden), requests, strict=True)
                )
                assert gain_of(trajectory.turns[k - 1]) == pytest.approx(np.mean(real) - np.mean(placeholder), abs=2e-5)
            prompt += turn.completion.ids
        assert gain_of(trajectory.turns[-1]) == 0


@pytest.fixture(scope="module")
def bundled():
    net, tokenizer = load_pretrained("tiny", device="cpu", seed=0)
    return ModelScorer(Learner(net, lr=0.0), Renderer(tokenizer))


def replied(scorer, text, *, closed=True):
    context = scorer.renderer.extend((user(text),), closed=closed)
    return Turn(context, Completion((1,), (0.0,), (0.0,), (0,)), observation=(user(text),))


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("feedback", ["16..18", "a longer observation than the words in its place", "no", ""])
def test_what_was_not_said_keeps_the_template_and_the_length(bundled, feedback, closed):
    turn = replied(bundled, feedback, closed=closed)
    hidden = bundled.hide_feedback(turn, "no information")
    assert hidden is not None and len(hidden) == len(turn.context)
    text = bundled.renderer.tokenizer.decode(list(hidden))
    shown = bundled.renderer.tokenizer.decode(list(turn.context))
    start, end = shown.split(feedback) if feedback else (shown, "")
    assert text.startswith(start) and text.endswith(end)
    if len(feedback) > 2:
        assert feedback not in text and text[len(start) :].startswith("no inf")


def test_a_context_that_was_rewritten_is_not_asked_about(bundled):
    turn = replied(bundled, "16..18")
    turn.context = (*turn.context, 1)
    assert bundled.hide_feedback(turn, "no information") is None
    trajectory = Trajectory([replied(bundled, "1"), turn], Stop.TERMINATED)
    asyncio.run(score.feedback_gain(bundled, [Group(Ticket(0, 0, "train", 0, 1), [trajectory])]))
    assert [gain_of(one) for one in trajectory.turns] == [0, 0]


def test_a_reply_is_tried_without_the_token_that_ends_it(bundled):
    ids = bundled.encode_reply("Tor")
    assert bundled.renderer.tokenizer.decode(list(ids)) == "Tor"


@pytest.mark.parametrize(
    "part", [score.answer_gain, partial(score.answer_gain, log=True), partial(score.feedback_gain, below=9.0)]
)
def test_gains_do_not_depend_on_the_budget_of_a_pass(part):
    result = []
    for budget in (1, 10_000):
        groups = random_groups()
        for trajectory in (t for group in groups for t in group.trajectories):
            trajectory.answer = "ab"
        scorer = ModelScorer(Learner(model(), lr=0.0, microbatch_tokens=budget), SimpleNamespace())
        scorer.encode_reply, scorer.hide_feedback = (
            (lambda text: (3, 4)),
            (lambda turn, instead: (5,) * len(turn.context)),
        )
        asyncio.run(part(scorer, groups))
        result.append([gain_of(turn) for group in groups for t in group.trajectories for turn in t.turns])
    np.testing.assert_allclose(*result, atol=2e-5)
    assert np.abs(result[0]).max() > 1e-3
