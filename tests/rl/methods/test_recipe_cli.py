"""Recipes and parts as words: what is understood, what is refused, and in which words."""

from __future__ import annotations

import subprocess
import sys
import typing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rl.methods import recipe as recipes
from rl.methods import streams
from rl.methods.options import FilePath
from rl.methods.parts import credit, penalty, score, surrogate
from rl.methods.recipe import Recipe
from tests.support.paths import ROOT

STATEFUL = '''
from dataclasses import dataclass, field

import numpy as np

from rl.methods.recipe import Recipe


@dataclass
class moving_mean:
    """A moving average of the mean reward."""

    decay: float = 0.9
    mean: float = field(default=0.0, init=False)

    def __call__(self, rewards, group, lengths):
        self.mean = self.decay * self.mean + (1 - self.decay) * rewards.mean()
        return np.full_like(rewards, self.mean)

    def state_dict(self):
        return {"mean": self.mean}

    def load_state_dict(self, state):
        self.mean = state["mean"]


recipe = Recipe(baseline=moving_mean(decay=0.5))
'''


@pytest.mark.parametrize(
    "slot, text, function, options",
    [
        ("surrogate", "clip", surrogate.clip, {}),
        ("surrogate", "clip:high=0.3,low=0.1", surrogate.clip, {"high": 0.3, "low": 0.1}),
        ("penalty", "kl_k3:coef=1e-3,straight_through=true", penalty.kl_k3, {"coef": 0.001, "straight_through": True}),
        ("penalty", "value_error:clip=inf", penalty.value_error, {"clip": float("inf")}),
        ("credit", "turn_returns:gamma=0.9,among=alive", credit.turn_returns, {"gamma": 0.9, "among": "alive"}),
        ("credit", "gae:whiten=verl", credit.gae, {"whiten": "verl"}),
        ("credit", "outcome:whiten=true", credit.outcome, {"whiten": True}),
        ("credit", "decoupled:weights=correct:2+form:0.5", credit.decoupled, {"weights": "correct:2+form:0.5"}),
    ],
)
def test_words_become_a_part_with_typed_options(slot: str, text: str, function: object, options: dict) -> None:
    part = recipes.part(slot, text)
    assert getattr(part, "func", part) is function
    assert getattr(part, "keywords", {}) == options


@pytest.mark.parametrize(
    "slot, text, message",
    [
        (
            "ratio",
            "clip",
            "--ratio: no part 'clip' in rl.methods.parts.ratio; it has token, on_policy, sequence, sequence_token, turn, "
            "sampler, sequence_product, interpolated, prefix_minimum",
        ),
        (
            "surrogate",
            "dualclip",
            "--surrogate: no part 'dualclip' in rl.methods.parts.surrogate; did you mean 'dual_clip'?",
        ),
        ("surrogate", "clip:hi=0.3", "--surrogate clip: no option 'hi'; it takes low, high"),
        ("select", "every_token:cap=2", "--select every_token: no option 'cap'; it takes none"),
        ("surrogate", "clip:high=wide", "--surrogate clip: high='wide' is not a number of at least 0"),
        ("surrogate", "clip:high=nan", "--surrogate clip: high='nan' is not a number of at least 0"),
        ("surrogate", "clip:high", "--surrogate clip: high='' is not a number of at least 0"),
        ("reduce", "constant", "--reduce constant: needs length=..."),
        ("reduce", "constant:length=2.5", "--reduce constant: length='2.5' is not a whole number of at least 1"),
        ("reduce", "constant:length=0", "--reduce constant: length='0' is not a whole number of at least 1"),
        ("credit", "gae:lam=1.5", "--credit gae: lam='1.5' is not a number from 0 to 1"),
        ("credit", "anchord", "--credit: no part 'anchord' in rl.methods.parts.credit; did you mean 'anchored'?"),
        ("penalty", "kl_k2:coef=-1", "--penalty kl_k2: coef='-1' is not a number of at least 0"),
        ("credit", "outcome:whiten=yes", "--credit outcome: whiten='yes' is none of true, false, verl"),
        ("select", "truncated_is:level=row", "--select truncated_is: level='row' is none of token, turn, sequence"),
        ("surogate", "clip", "no slot 'surogate'; did you mean 'surrogate'?"),
        ("surrogate", "nowhere/mine.py:soft", "no file 'nowhere/mine.py'"),
    ],
)
def test_a_wrong_word_is_named_with_the_right_one(slot: str, text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        recipes.part(slot, text)
    assert str(error.value) == message


def test_a_private_function_or_a_helper_of_a_slot_is_no_part() -> None:
    for slot, text in (
        ("surrogate", "_ratio"),
        ("sampler", "History"),
        ("score", "Scorer"),
        ("credit", "needs"),
        ("credit", "turn"),
    ):
        with pytest.raises(ValueError, match=f"--{slot}: no part {text!r}"):
            recipes.part(slot, text)


def test_an_unknown_recipe_is_named_with_the_right_one(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        recipes.load("drgrpo")
    assert str(error.value) == "no recipe 'drgrpo'; did you mean 'dr_grpo'?; see rl/methods/recipes/"
    with pytest.raises(ValueError, match=r"no recipe 'xyzzy'; see rl/methods/recipes/"):
        recipes.load("xyzzy")
    with pytest.raises(ValueError, match=r"no recipe 'my\.py:recipe'; write my\.py, whose `recipe` is taken"):
        recipes.load("my.py:recipe")
    with pytest.raises(
        ValueError, match=r"--credit: no part 'my\.py' in .*; write my\.py:FUNCTION for a part in a file"
    ):
        recipes.part("credit", "my.py")
    with pytest.raises(ValueError, match=r"no file 'gone\.py'"):
        recipes.load("gone.py")
    (tmp_path / "empty.py").write_text("")
    with pytest.raises(ValueError, match="defines no `recipe"):
        recipes.load(str(tmp_path / "empty.py"))


def test_a_slot_holds_one_part_or_any_number_and_says_so() -> None:
    with pytest.raises(ValueError, match="penalty takes a tuple of parts"):
        Recipe(penalty=penalty.kl_k2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="surrogate takes one part"):
        Recipe(surrogate=(surrogate.clip,))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="--ratio takes one part, not 2"):
        recipes.parse({"ratio": ["token", "turn"]})
    with pytest.raises(ValueError, match=r"no slot 'penaltys'; did you mean 'penalty'\?"):
        Recipe().but(penaltys=())


def test_words_replace_single_slots_of_a_recipe() -> None:
    ppo = recipes.load("ppo")
    changed = ppo.but(**recipes.parse({"surrogate": "clip:high=0.3", "penalty": ["kl_k2:coef=0.1", "entropy_bonus"]}))
    assert recipes.words(changed) == {
        **recipes.words(ppo),
        "surrogate": "clip:high=0.3",
        "penalty": ["kl_k2:coef=0.1", "entropy_bonus"],
    }
    assert ppo.but(**recipes.parse({"penalty": "none"})).penalty == ()


def test_a_part_that_no_word_can_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"surrogate: .* cannot be named in words"):
        recipes.words(Recipe(surrogate=lambda log_ratio, tokens: log_ratio))
    with pytest.raises(ValueError, match="bound by position"):
        recipes.words(Recipe(credit=partial(credit.outcome, [])))


def typeless(groups, norm, *, decay=None):  # type: ignore[no-untyped-def]
    return credit.outcome(groups, norm)


def positional(groups, norm, decay: float = 0.5):  # type: ignore[no-untyped-def]
    return credit.outcome(groups, norm)


def worded(groups, norm, *, text: str = ""):  # type: ignore[no-untyped-def]
    return credit.outcome(groups, norm)


def typed(groups, norm, *, decay: float = 0.5):  # type: ignore[no-untyped-def]
    return credit.outcome(groups, norm)


def optional(  # type: ignore[no-untyped-def]
    groups, norm, *, decay: float | None = 0.5, top: int | None = None, text: str = "", file: FilePath = ""
):
    return credit.outcome(groups, norm)


def named(  # type: ignore[no-untyped-def]
    groups,
    norm,
    *,
    name: str | None = "a",
    rate: typing.Optional[float] = 0.5,  # noqa: UP045
):
    return credit.outcome(groups, norm)


@pytest.mark.parametrize(
    ("text", "bound"),
    [
        ("decay=none", {"decay": None}),
        ("decay=0.25,top=3", {"decay": 0.25, "top": 3}),
        ("text=a, b,c,decay=0.25", {"text": "a, b,c", "decay": 0.25}),
        ("decay=none,text=a,b", {"decay": None, "text": "a,b"}),
        ("file=/a,b.md,top=2", {"file": "/a,b.md", "top": 2}),
        ("text=,top", {"text": ",top"}),
        ("text=a,,b", {"text": "a,,b"}),
        ("text=a,,,decay=0.25", {"text": "a,,", "decay": 0.25}),
        ("text=,", {"text": ","}),
    ],
)
def test_a_text_may_hold_commas_and_an_optional_number_may_be_none(text: str, bound: dict[str, Any]) -> None:
    part = recipes.part("credit", f"{__file__}:optional:{text}")
    assert part.keywords == bound  # type: ignore[attr-defined]
    assert recipes.words(Recipe(credit=part))["credit"] == f"{__file__}:optional:{text}"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("decay=x", "--credit optional: decay='x' is not a number, or none"),
        ("decay=0.5,b", "--credit optional: no option 'b'; it takes decay, top, text, file"),
        ("text=a,b=c", "--credit optional: no option 'b'; it takes decay, top, text, file"),
    ],
)
def test_a_comma_that_no_text_holds_begins_an_option(text: str, message: str) -> None:
    with pytest.raises(ValueError) as error:
        recipes.part("credit", f"{__file__}:optional:{text}")
    assert str(error.value) == message


@pytest.mark.parametrize(
    ("text", "bound"),
    [("rate=none", {"rate": None}), ("rate=0.25,name=NULL", {"rate": 0.25, "name": None}), ("name=no", {"name": "no"})],
)
def test_an_annotation_that_is_a_text_may_name_typing(text: str, bound: dict[str, Any]) -> None:
    assert recipes.part("credit", f"{__file__}:named:{text}").keywords == bound  # type: ignore[attr-defined]


def test_options_at_their_defaults_need_no_text() -> None:
    assert recipes.words(Recipe(credit=partial(typeless, decay=None)))["credit"] == f"{__file__}:typeless"
    assert recipes.words(Recipe(credit=partial(worded, text="a b")))["credit"] == f"{__file__}:worded:text=a b"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (partial(typeless, decay=0.3), "credit typeless: decay has no type that text can be read as"),
        (partial(positional, decay=0.3), r"credit positional: no option 'decay'; write `\*, decay` in its signature"),
        (
            partial(worded, text="a,b=c"),
            "credit worded: text='a,b=c' holds ',b=c', so it cannot be written as an option",
        ),
        (partial(named, name="none"), "credit named: name='none' means None, so it cannot be written as an option"),
        (partial(named, name="NULL"), "credit named: name='NULL' means None, so it cannot be written as an option"),
        (partial(worded, text="x.py:y"), "credit worded: text='x.py:y' holds '.py:', so it cannot be written"),
        (partial(typed, decay="x"), "credit typed: decay='x' is not a number"),
        (type("Sharing", (), {"__call__": lambda self, groups, norm: []}), r"Sharing is a class; write Sharing\(\)"),
    ],
)
def test_settings_that_could_not_be_read_again_are_refused_at_once(part: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recipes.words(Recipe(credit=part))
    assert recipes.words(Recipe(credit=partial(typed, decay=0.3)))["credit"] == f"{__file__}:typed:decay=0.3"


def test_a_stream_is_needed_and_scored_exactly_where_a_part_reads_it() -> None:
    plain = Recipe()
    assert not streams.needs(plain, "ref") and not streams.needs(plain, "entropy") and streams.score_parts(plain) == ()
    kl = plain.but(**recipes.parse({"penalty": "kl_k3:coef=0.01"}))
    assert streams.needs(kl, "ref") and not streams.needs(kl, "value") and streams.score_parts(kl) == (score.reference,)
    assert streams.score_parts(recipes.load("ppo")) == (score.value,)
    assert streams.needs(plain.but(**recipes.parse({"penalty": "entropy_bonus"})), "entropy")
    for text, needed in (("reward_to_go", False), ("reward_to_go:kl=0.0", False), ("reward_to_go:kl=0.1", True)):
        assert streams.needs(plain.but(**recipes.parse({"credit": text})), "ref") is needed


def test_a_part_with_state_in_a_file_of_its_own_is_written_restored_and_never_shared(tmp_path: Path) -> None:
    import numpy as np

    file = tmp_path / "steady.py"
    file.write_text(STATEFUL)
    first, second = recipes.load(str(file)), recipes.load(str(file))
    first.baseline(np.ones(2), np.zeros(2), np.ones(2))
    assert first.state_dict() == {"baseline": {"mean": 0.5}}
    assert second.state_dict() == {"baseline": {"mean": 0.0}}
    assert recipes.words(first)["baseline"] == f"{file}:moving_mean:decay=0.5"
    third = Recipe().but(**recipes.parse(recipes.words(first)))
    third.load_state_dict(first.state_dict())
    assert third.state_dict() == first.state_dict()
    with pytest.raises(ValueError, match=r"parts with state: none; saved: \['baseline'\]"):
        Recipe().load_state_dict(first.state_dict())


def test_the_catalogue_and_its_words_need_no_torch() -> None:
    code = (
        "import sys; from rl.methods import recipe as r; "
        "[r.words(r.load(name)) for name, _ in r.catalogue()]; sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
