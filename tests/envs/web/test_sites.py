"""Every kind of task on the bundled sites: its script earns 1, scripts that just miss it 0, in every level and style."""

from __future__ import annotations

import json

import pytest

from envs.web.case import Draw
from envs.web.script import element_of
from envs.web.site import Request
from envs.web.web_env import LENGTHS, WebEnv
from tests.support.web_scripts import SITES, make, play

GENTLE = {  # the kinds whose tasks are gentler at level 0
    "web/Mail-v0": ("archive", "look-up"),
    "web/Board-v0": ("triage", "count"),
    "web/Access-v0": ("revoke", "audit"),
    "web/Calendar-v0": ("move", "cancel"),
    "web/Shop-v0": ("look-up",),
    "web/Purchase-v0": ("request",),
    "web/CRM-v0": ("edit", "look-up"),
    "web/Wiki-v0": ("hops", "correct"),
}
SHORT = {  # those whose episodes at level 0 fit the bundled model's limit
    "web/Mail-v0": ("archive", "look-up"),
    "web/Board-v0": ("triage", "count"),
    "web/Access-v0": ("revoke",),
    "web/Calendar-v0": ("cancel",),
    "web/Shop-v0": ("look-up",),
    "web/Purchase-v0": ("request",),
    "web/CRM-v0": ("look-up",),
    "web/Wiki-v0": ("hops",),
}
KINDS = [(id, kind) for id in SITES for kind in make(id).kinds]
SEEDS = range(3)


@pytest.mark.parametrize(("id", "kind"), KINDS)
def test_the_script_reaches_the_goal_and_near_misses_do_not(id: str, kind: str) -> None:
    for level in make(id).levels:
        env = make(id, kind=kind, level=level)
        for index in SEEDS:
            env.reset(seed=0, options={"split": "train", "index": index})
            case = env.case
            done = play(env, index, case.steps)
            assert (done["reward"], done["success"], done["stop"]) == (1.0, True, "terminated"), case.goal
            assert done["rewards"] == dict.fromkeys(env.parts, 1.0) and done["metrics"]["score"] == 1.0
            assert len(case.misses) >= 2, "a kind has at least two ways to miss it"
            for name, steps in case.misses.items():
                missed = play(env, index, steps)
                expected = pytest.approx(case.part_scores.get(name, 0.0), abs=1e-12)
                assert (missed["reward"], missed["success"]) == (expected, False), f"{name}: {case.goal}"


@pytest.mark.parametrize(("id", "kind"), [each for each in KINDS if "answer" in make(each[0]).parts])
def test_the_wrong_way_to_end_earns_nothing(id: str, kind: str) -> None:
    """The state is right, but a goal that was reached is called impossible, or the other way round."""
    env = make(id, kind=kind, level=2)
    for index in range(8):
        env.reset(seed=0, options={"split": "train", "index": index})
        case = env.case
        end = case.steps[-1]._replace(act="stop" if case.is_impossible else "impossible")
        done = play(env, index, [*case.steps[:-1], end])
        assert done["reward"] == 0.0 and done["rewards"]["state"] == 1.0


@pytest.mark.parametrize(("id", "kind"), KINDS)
def test_goals_are_put_in_several_ways_and_drawn_from_the_seed_alone(id: str, kind: str) -> None:
    make_case = make(id).kinds[kind]
    for level in make(id).levels:
        cases = [make_case(Draw(seed, level)) for seed in range(30)]
        again = [make_case(Draw(seed, level)) for seed in range(30)]
        assert [(case.goal, case.short, case.site.state(), case.steps) for case in cases] == [
            (case.goal, case.short, case.site.state(), case.steps) for case in again
        ]
        assert len({case.goal + json.dumps(case.site.state()) for case in cases}) >= 28
        assert len({" ".join(case.goal.split()[:2]) for case in cases}) >= 3, "paraphrases begin differently"
        for case in cases:
            assert case.goal[0].isupper() and case.goal[-1] in ".?!"
            assert json.loads(json.dumps(case.goal_state)) == case.goal_state
            assert len(case.steps) <= make(id).max_turns


def test_about_a_tenth_of_the_goals_of_some_kinds_cannot_be_reached() -> None:
    share = {}
    for id, kind in KINDS:
        cases = [make(id).kinds[kind](Draw(seed, 1)) for seed in range(60)]
        share[kind] = sum(case.is_impossible for case in cases) / len(cases)
    assert len([each for each in share.values() if each]) >= len(SITES)
    assert all(each <= 0.25 for each in share.values()), share


@pytest.mark.parametrize(("id", "kind"), KINDS)
def test_the_short_style_plays_the_same_tasks(id: str, kind: str) -> None:
    env = make(id, kind=kind, level=3, style="short")
    env.reset(seed=0, options={"split": "train", "index": 1})
    assert play(env, 1, env.case.steps)["reward"] == 1.0


@pytest.mark.parametrize(("id", "kind"), KINDS)
def test_an_episode_leaves_the_case_as_it_was(id: str, kind: str) -> None:
    env = make(id, kind=kind)
    env.reset(seed=0, options={"split": "train", "index": 0})
    before = json.dumps(env.case.site.state())
    play(env, 0, env.case.steps)
    assert json.dumps(env.case.site.state()) == before


def opening(env: WebEnv, split: str, index: int) -> str:
    """The first page of a task with its goal, in short style."""
    observation, _ = env.reset(seed=0, options={"split": split, "index": index})
    return str(observation[0]["content"])


@pytest.mark.parametrize(("id", "kind"), [(id, kind) for id, kinds in GENTLE.items() for kind in kinds])
def test_level_0_has_short_pages_few_turns_and_tasks_for_all_splits(id: str, kind: str) -> None:
    env = make(id, kind=kind, level=0, style="short")
    for index in range(8):
        observation, _ = env.reset(seed=0, options={"split": "train", "index": index})
        assert len(env.case.steps) <= 6 and len(env.case.short) <= 50
        for reply in env.oracle():
            assert sum(len(str(message["content"])) for message in observation) <= 320
            observation = env.step(reply)[0]
    openings = {}
    for split, length in LENGTHS.items():
        openings[split] = {opening(env, split, index) for index in range(len(env.tasks(split)))}
        assert len(openings[split]) >= (length if split != "train" else 500)
    assert not openings["train"] & (openings["val"] | openings["test"]) and not openings["val"] & openings["test"]


@pytest.mark.parametrize(("id", "kind"), [(id, kind) for id, kinds in SHORT.items() for kind in kinds])
def test_an_episode_of_level_0_leaves_the_bundled_model_room_for_a_mistake(id: str, kind: str) -> None:
    """Its episodes have at most 512 tokens, which are bytes, with two for each message."""
    env = make(id, kind=kind, level=0, style="short")
    for index in range(40):
        observation, _ = env.reset(seed=0, options={"split": "train", "index": index})
        tokens = 0
        for reply in env.oracle():
            messages = [*observation, reply]
            tokens += sum(len(str(message["content"]).encode()) + 2 for message in messages)
            observation = env.step(reply)[0]
        assert tokens <= 470


@pytest.mark.parametrize(("id", "kind"), [(id, kind) for id, kind in KINDS if id in GENTLE])
def test_level_0_is_as_level_1_where_it_is_not_gentler(id: str, kind: str) -> None:
    make_case = make(id).kinds[kind]
    sizes = []
    for seed in range(8):
        gentle, first = make_case(Draw(seed, 0)), make_case(Draw(seed, 1))
        sizes.append(len(json.dumps(gentle.site.state())) / len(json.dumps(first.site.state())))
        if kind not in GENTLE[id]:
            assert (gentle.goal, gentle.steps, gentle.goal_state) == (first.goal, first.steps, first.goal_state)
    assert (max(sizes) < 1) == (kind in GENTLE[id])


def test_a_script_that_names_no_element_says_so() -> None:
    env = make("web/Widgets-v0", kind="press")
    env.reset(seed=0, options={"split": "train", "index": 0})
    step = env.case.steps[0]._replace(act="click", name="Nowhere")
    with pytest.raises(LookupError, match="shows no 'Nowhere' to click"):
        element_of(env.snapshot, step)


@pytest.mark.parametrize("id", SITES)
def test_a_site_has_no_page_without_the_name_of_what_it_shows(id: str) -> None:
    env = make(id)
    env.reset(seed=0, options={"split": "train", "index": 0})
    paths = [path for method, path in env.case.site._handlers if method == "GET" and path != "/"]
    for path in paths:
        if path.endswith("/"):
            assert env.case.site.respond(Request(path, {}, {}, "GET")).status == 404
    big = {name: ("9" * 30,) for name in ("line", "id", "order", "page", "hour")}
    for method, path in env.case.site._handlers:
        env.case.site.fork().respond(Request(path, big, big, method))


@pytest.mark.parametrize("id", SITES)
@pytest.mark.parametrize("path", ["/favicon.ico", "/", "//", "/no/such", "/a/", "a"])
def test_a_site_answers_each_path(id: str, path: str) -> None:
    env = make(id)
    env.reset(seed=0, options={"split": "train", "index": 0})
    response = env.case.site.respond(Request(path, {}, {}, "GET"))
    assert response.status == (200 if path == "/" else 404), "a page, or one that says that there is none"
