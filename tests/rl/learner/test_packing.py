"""Packed rows give the results of each history on its own, gradients included."""

from functools import cache, partial

import numpy as np
import pytest
import torch

from rl.learner import batch
from rl.learner.batch import split_microbatches, trajectory_rows
from rl.learner.learner import Learner
from rl.learner.packing import Columns, Packing, opening_length
from rl.methods.parts import baseline, ratio, reduce, surrogate
from rl.methods.recipe import Recipe
from rl.policy.decoder import Decoder
from tests.support.models import OTHER_FAMILIES, PACKED_FAMILIES, model
from tests.support.play import VOCAB, flat, random_groups, random_trajectory, trajectories

CPU = torch.device("cpu")
PLAIN = Recipe(baseline=baseline.none, ratio=ratio.on_policy, surrogate=surrogate.linear, reduce=reduce.token_mean)
REDUCES = [
    reduce.token_mean,
    reduce.turn_mean,
    reduce.sequence_mean,
    reduce.sequence_sum,
    partial(reduce.constant, length=7),
    partial(reduce.constant, length=7, per_trajectory=False),
    reduce.group_mean,
]
SPECIAL = {
    "granite": {"logits_scaling": 3.0},
    "cohere": {"logit_scale": 0.3},
    "gemma2": {"final_logit_softcapping": 2.0},
}


@cache
def rows():
    return batch.build_rows(random_groups(), PLAIN)


def learner(net, **more):
    return Learner(net, lr=0.0, max_grad_norm=1e9, **more)


def histories():
    """Yield `(ids, is_sampled, trajectory's return)` of every unbroken history."""
    for group in random_groups():
        for trajectory, reward in zip(group.trajectories, group.rewards, strict=True):
            for history in trajectory.sequences():
                yield history.ids, history.sampled, reward


def sequence_logprobs(net, ids, is_sampled):
    """Log-probabilities of the sampled tokens by the model's own forward over one history, with a gradient."""
    logprobs = net(input_ids=torch.tensor([ids]), use_cache=False).logits[0].float().log_softmax(-1)
    at = np.nonzero(is_sampled)[0]
    return logprobs[at - 1, torch.tensor(ids)[at]]


def gradient(net):
    return torch.cat([weight.grad.flatten() for weight in net.parameters() if weight.grad is not None])


def assert_close(actual, expected, tolerance=1e-5):
    assert float((actual - expected).norm()) <= tolerance * float(expected.norm())


@pytest.mark.parametrize("kind", PACKED_FAMILIES)
def test_packed_log_probabilities_are_those_of_whole_histories(kind):
    net = model(kind)
    logprobs = flat(learner(net).logprobs(trajectories(random_groups())))
    expected = torch.cat([sequence_logprobs(net, ids, is_sampled) for ids, is_sampled, _ in histories()]).tolist()
    np.testing.assert_allclose(logprobs, expected, atol=1e-5)


@pytest.mark.parametrize("kind", [*PACKED_FAMILIES, *OTHER_FAMILIES, *SPECIAL])
def test_so_is_the_gradient_whatever_computes_it(kind):
    net = model(kind, **SPECIAL.get(kind, {}))
    learner(net).update(rows(), PLAIN)
    actual = gradient(net)
    net.zero_grad()
    tokens = sum(sum(is_sampled) for _, is_sampled, _ in histories())
    for ids, is_sampled, reward in histories():
        (-reward * sequence_logprobs(net, ids, is_sampled).sum() / tokens).backward()
    assert_close(actual, gradient(net))


@pytest.mark.parametrize("kind", PACKED_FAMILIES)
def test_padded_rows_through_the_models_own_forward_give_the_same(kind, monkeypatch):
    net = model(kind)
    one = learner(net, critic=True)
    torch.nn.init.normal_(one.value_head.weight, generator=torch.Generator().manual_seed(0))
    records = trajectories(random_groups())

    def everything():
        numbers = flat(one.logprobs(records)) + flat(one.values(records))
        one.update(rows(), PLAIN)
        return torch.tensor(numbers), gradient(net)

    from_packed = everything()
    monkeypatch.setattr("rl.learner.forward.is_supported", lambda net: False)
    from_padded = everything()
    torch.testing.assert_close(from_packed[0], from_padded[0], atol=1e-5, rtol=1e-5)
    assert_close(from_packed[1], from_padded[1])


@pytest.mark.parametrize("part", REDUCES, ids=lambda part: str(getattr(part, "keywords", "") or part.__name__))
def test_cutting_a_step_into_micro_batches_changes_no_gradient(part):
    recipe = PLAIN.but(reduce=part)
    net = model()
    learner(net).update(rows(), recipe)
    once = gradient(net)
    for budget in (1, 25, 60):
        assert len(split_microbatches(rows(), budget)) > 1
        learner(net, microbatch_tokens=budget).update(rows(), recipe)
        assert_close(gradient(net), once, 3e-6)


@pytest.mark.parametrize("part", [ratio.token, ratio.sequence, ratio.sequence_token, ratio.turn])
def test_nor_does_it_where_a_ratio_sums_over_all_rows_of_a_trajectory(part):
    recipe = PLAIN.but(ratio=part, surrogate=surrogate.clip, reduce=reduce.sequence_mean)
    net = model()
    learner(net).update(rows(), recipe)
    once = gradient(net)
    assert float(once.norm()) > 0
    for budget in (1, 25):
        learner(net, microbatch_tokens=budget).update(rows(), recipe)
        assert_close(gradient(net), once, 3e-6)


def test_no_forward_pass_of_an_update_is_longer_than_the_budget_however_many_fresh_turns_there_are(monkeypatch):
    rng = np.random.default_rng(2)
    record = random_trajectory(rng, (4, 5, 6), turns=20, fresh=range(1, 20))
    fresh_rows = trajectory_rows(record, np.linspace(-1, 1, record.num_sampled))
    assert len(fresh_rows) == 20
    recipe = PLAIN.but(ratio=ratio.sequence, surrogate=surrogate.clip, reduce=reduce.sequence_mean)
    net = model()
    learner(net).update(fresh_rows, recipe)
    once, costs = gradient(net), []
    forward = Learner.forward

    def measure(self, net, rows, **options):
        costs.append(sum(row.size for row in rows) + sum(map(len, {row.prefix for row in rows})))
        return forward(self, net, rows, **options)

    monkeypatch.setattr(Learner, "forward", measure)
    limited = learner(net, microbatch_tokens=40)
    limited.update(fresh_rows, recipe)
    assert_close(gradient(net), once, 3e-6)
    limited.logprobs([record])
    assert len(costs) > 3 and max(costs) <= 40


def test_a_shared_prefix_is_computed_once():
    packing = Packing(rows(), CPU)
    prefixes = {row.prefix for row in rows()}
    assert len(prefixes) < len(rows())
    assert len(packing.ids) == sum(map(len, prefixes)) + sum(row.size for row in rows())
    assert len(packing.target) == len(packing.predict) == sum(int(row.mask.sum()) for row in rows())


def tasks_with_one_opening(members: int = 2):
    """Groups of six tasks, whose contexts begin with the same 200 tokens; one context is the opening itself."""
    rng = np.random.default_rng(3)
    opening = tuple(rng.integers(VOCAB, size=200).tolist())
    for length in (0, 3, 3, 5, 1, 4):
        context = opening + tuple(rng.integers(VOCAB, size=length).tolist())
        yield from (random_trajectory(rng, context, turns=int(rng.integers(1, 4))) for _ in range(members))


def test_a_long_opening_of_all_tasks_is_computed_once_and_gives_the_same():
    records = list(tasks_with_one_opening())
    its_rows = [
        row
        for i, one in enumerate(records)
        for row in trajectory_rows(one, np.ones(one.num_sampled), number=i, group=i)
    ]
    prefixes = {row.prefix for row in its_rows}
    packing = Packing(its_rows, CPU)
    tails = sum(len(row.prefix) - 200 for row in its_rows)
    assert len(prefixes) > 2 and len(packing.ids) == 200 + tails + sum(row.size for row in its_rows)
    net = model()
    logprobs = flat(learner(net).logprobs(records))
    expected = [sequence_logprobs(net, history.ids, history.sampled) for one in records for history in one.sequences()]
    np.testing.assert_allclose(logprobs, torch.cat(expected).tolist(), atol=1e-5)
    learner(net).update(its_rows, PLAIN)
    actual = gradient(net)
    net.zero_grad()
    (-torch.cat(expected).sum() / len(logprobs)).backward()
    assert_close(actual, gradient(net))


@pytest.mark.parametrize(
    ("prefixes", "length"),
    [
        ([], 0),
        ([(1,) * 500], 0),
        ([(1,) * 200 + (2,), (1,) * 200 + (3,)], 0),  # no gain of a half
        ([(1,) * 200 + (i,) for i in range(5)], 200),
        ([(1,) * 200 + (i,) for i in range(5)] + [(1,) * 150], 150),
        ([(1,) * 127 + (i,) for i in range(5)], 0),
        ([(1,) * 200 + (i,) * 150 for i in range(5) for _ in range(8)], 0),  # every member would compute the rest
        ([(i,) * 400 for i in range(5)], 0),
    ],
)
def test_an_opening_is_shared_where_that_saves_at_least_half(prefixes, length):
    assert opening_length(prefixes) == length


@pytest.mark.parametrize("count", [1, 2, 3])
def test_rows_of_equal_length_and_single_rows_are_packed_alike(count):
    """Without padding the packing takes views instead of copies."""
    net = model()
    rng = np.random.default_rng(5)
    records = [random_trajectory(rng, (4, 5, 6), turns=1) for _ in range(60)]
    same = [one for one in records if one.num_sampled == records[0].num_sampled][:count]
    actual = [turns[0] for turns in learner(net).logprobs(same)]
    for trajectory, logprobs in zip(same, actual, strict=True):
        (history,) = trajectory.sequences()
        np.testing.assert_allclose(logprobs, sequence_logprobs(net, history.ids, history.sampled).tolist(), atol=1e-5)


def test_columns_and_packed_numbers_have_the_same_order():
    columns, packing = Columns(rows(), CPU), Packing(rows(), CPU)
    ids = columns.pad(lambda row: row.ids, np.int64)
    assert torch.equal(columns.scatter(packing.target) * columns.mask, ids * columns.mask)
    for row, mask in zip(rows(), columns.mask, strict=True):
        assert mask[: row.size].tolist() == row.mask.tolist()
        assert not mask[row.size :].any()


def test_micro_batches_keep_the_order_the_budget_and_trajectories_whole():
    for budget in (1, 20, 40, 10**6):
        parts = split_microbatches(rows(), budget)
        assert [row for part in parts for row in part] == list(rows())
        for part in parts:
            cost = sum(row.size for row in part) + sum(map(len, {row.prefix for row in part}))
            assert cost <= budget or len({row.trajectory for row in part}) == 1
        owners = [{row.trajectory for row in part} for part in parts]
        assert sum(map(len, owners)) == len(set().union(*owners))
    assert len(split_microbatches(rows(), 10**6)) == 1
    assert split_microbatches([], 5) == []


def test_rows_hold_the_records_numbers_at_their_tokens():
    rng = np.random.default_rng(0)
    record = random_trajectory(rng, (1, 2, 3), turns=4, fresh=(2,))
    for k, turn in enumerate(record.turns):
        turn.streams["value"] = tuple(10.0 * k + n for n in range(len(turn.completion.ids)))
    result = trajectory_rows(record, np.arange(record.num_sampled), number=7, group=2, temperature=0.5)
    assert [(row.trajectory, row.group, row.temperature) for row in result] == [(7, 2, 0.5)] * 2
    assert result[0].prefix == (1, 2, 3)
    assert result[1].prefix == record.turns[2].context
    mine = lambda pick: np.concatenate([pick(row)[row.mask] for row in result]).tolist()  # noqa: E731
    replies = [turn.completion for turn in record.turns]
    assert mine(lambda row: row.ids) == [token for reply in replies for token in reply.ids]
    assert mine(lambda row: row.old) == pytest.approx([x for reply in replies for x in reply.logprobs])
    assert mine(lambda row: row.adv) == list(range(record.num_sampled))
    assert mine(lambda row: row.turn) == [k for k, reply in enumerate(replies) for _ in reply.ids]
    assert mine(lambda row: row.streams["value"]) == [x for turn in record.turns for x in turn.streams["value"]]
    for row in result:
        assert not row.adv[~row.mask].any() and not row.old[~row.mask].any() and (row.turn[~row.mask] == -1).all()


def test_a_history_that_begins_with_a_sampled_token_is_refused():
    record = random_trajectory(np.random.default_rng(0), ())
    with pytest.raises(ValueError, match="nothing predicts it"):
        trajectory_rows(record, np.zeros(record.num_sampled))


def test_credit_for_another_number_of_tokens_is_refused():
    record = random_trajectory(np.random.default_rng(0), (1, 2))
    with pytest.raises(ValueError, match=f"{record.num_sampled} sampled tokens"):
        trajectory_rows(record, np.zeros(record.num_sampled + 1))


@pytest.mark.parametrize(
    "changes",
    [
        {"sliding_window": 16, "kind": "mistral"},
        {"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}},
        {"mlp_bias": True},
        {"hidden_act": "gelu"},
        {"kind": "gpt2"},
    ],
)
def test_the_lean_forward_refuses_what_it_does_not_compute(changes):
    net = model(changes.get("kind", "llama"), **{key: value for key, value in changes.items() if key != "kind"})
    with pytest.raises(ValueError, match="no packed forward"):
        Decoder(net)


@pytest.mark.parametrize(
    ("kind", "changes"),
    [
        ("llama", {"attention_bias": True}),
        ("llama", {"head_dim": 16}),
        ("llama", {"num_key_value_heads": 1}),
        ("llama", {"rope_parameters": {"rope_type": "linear", "factor": 4.0, "rope_theta": 1000.0}}),
        ("llama", {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "rope_theta": 1000.0}}),
        ("qwen3", {"attention_bias": True, "num_key_value_heads": 4}),
        ("qwen2", {"tie_word_embeddings": True}),
    ],
)
def test_variants_of_a_covered_family_are_computed_exactly(kind, changes):
    net = model(kind, **changes)
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if name.endswith(("bias", "norm.weight")):  # initialised to what cannot be told from nothing
                weight += 0.3 * torch.randn(weight.shape, generator=torch.Generator().manual_seed(len(name)))
    assert Decoder(net).model is net
    logprobs = flat(learner(net).logprobs(trajectories(random_groups())))
    expected = torch.cat([sequence_logprobs(net, ids, is_sampled) for ids, is_sampled, _ in histories()]).tolist()
    np.testing.assert_allclose(logprobs, expected, atol=1e-5)
