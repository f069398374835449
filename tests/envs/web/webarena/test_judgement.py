"""What a task file in WebArena's form says counts, and what it refuses. Expected values follow the paper's rules."""

import json

import pytest

import envs
from envs.web.webarena.judgement import Contents, Unsupported, answer_fits, page_fits, read_judgement, url_fits
from envs.web.webarena.task_file import read_tasks


@pytest.mark.parametrize(
    ("contents", "text", "fits"),
    [
        (Contents(exact="Ada Abel"), ' "ada abel" ', True),
        (Contents(exact="Ada Abel"), "It is Ada Abel", False),
        (Contents(exact="N/A"), "n/a", True),
        (Contents(includes=("12",)), "it costs 12 euros", True),
        (Contents(includes=("12",)), "it costs 120 euros", False),  # one word alone must be a word
        (Contents(includes=("red lamp", "12")), "A Red Lamp for 120", True),
        (Contents(includes=("red lamp", "12")), "A red lamp", False),
    ],
)
def test_answers(contents, text, fits):
    assert answer_fits(contents, text) is fits


@pytest.mark.parametrize(
    ("references", "url", "fits"),
    [
        (["http://127.0.0.1:8000/cart"], "http://127.0.0.1:8000/cart/", True),
        (["http://127.0.0.1:8000/cart"], "http://127.0.0.1:8000/cart?x=1", True),
        (["http://127.0.0.1:8000/cart"], "http://127.0.0.1:8000/", False),
        (["http://127.0.0.1:8000/s?q=lamp&page=2"], "http://127.0.0.1:8000/s?page=2&q=lamp&z=0", True),
        (["http://127.0.0.1:8000/s?q=lamp&page=2"], "http://127.0.0.1:8000/s?q=lamp", False),
        (["http://127.0.0.1:8000/a", "http://127.0.0.1:8000/b"], "http://127.0.0.1:8000/b", True),
    ],
)
def test_addresses(references, url, fits):
    assert url_fits(references, url) is fits


def test_parts_of_pages():
    assert page_fits(Contents(includes=("Lamp |OR| Light", "12.50")), "A light &amp; more for 12.50")
    assert not page_fits(Contents(includes=("Lamp |OR| Light", "12.50")), "A light for 12")
    assert page_fits(Contents(exact="R&D"), "r&amp;d")


@pytest.mark.parametrize(
    ("spec", "error", "reason"),
    [
        ({}, ValueError, "eval_types is missing"),
        ({"eval_types": ["vqa"]}, Unsupported, "'vqa' is not one of"),
        (
            {"eval_types": ["string_match"], "reference_answers": {"fuzzy_match": ["x"]}},
            Unsupported,
            "a model as a judge",
        ),
        ({"eval_types": ["string_match"], "reference_answers": {}}, ValueError, "neither exact_match nor must_include"),
        ({"eval_types": ["url_match"]}, ValueError, "needs a reference_url"),
        ({"eval_types": ["program_html"]}, ValueError, "no targets"),
        (
            {"eval_types": ["program_html"], "program_html": [{"url": "func:f(__last__)", "required_contents": {}}]},
            Unsupported,
            "a function of WebArena's own code",
        ),
    ],
)
def test_what_cannot_be_judged_is_refused(spec, error, reason):
    with pytest.raises(error, match=reason):
        read_judgement(spec)


def task(**more):
    spec = {"eval_types": ["string_match"], "reference_answers": {"exact_match": "x"}}
    return {"task_id": 7, "intent": "Say x.", "start_url": "__SITE__/a", "eval": spec, **more}


def test_files_are_lists_or_lines_and_placeholders_get_addresses(tmp_path):
    urls = (("__SITE__", "http://127.0.0.1:8000/"),)
    for name, text in (("a.json", json.dumps([task(), task(task_id=8)])), ("b.jsonl", f"{json.dumps(task())}\n" * 2)):
        (tmp_path / name).write_text(text)
        tasks = read_tasks(tmp_path / name, urls, False)
        assert [each.start for each in tasks] == ["http://127.0.0.1:8000/a"] * 2


@pytest.mark.parametrize(
    ("change", "arguments", "reason"),
    [
        ({}, {}, "'__SITE__/a' is no address"),
        ({"start_url": "http://127.0.0.1:99999/"}, {}, "t.json, task 7: 'http://127.0.0.1:99999/' is no address"),
        ({"start_url": "http://["}, {}, r"t.json, task 7: 'http://\[' is no address"),
        ({"start_url": "http://example.org/"}, {}, "is not on this machine; name its host by hosts=example.org"),
        ({"start_url": "http://127.0.0.1:1 |AND| http://127.0.0.1:2"}, {}, "several pages; skip_unsupported=true"),
        ({"intent": ""}, {}, "task 7: intent is missing"),
        ({"storage_state": "none.json"}, {"urls": {"__SITE__": "http://localhost"}}, "no file 'none.json'"),
    ],
)
def test_a_bad_file_is_one_line(tmp_path, change, arguments, reason):
    (tmp_path / "t.json").write_text(json.dumps([task(**change)]))
    with pytest.raises(ValueError, match=reason) as error:
        envs.make(f"webarena:{tmp_path / 't.json'}", **arguments)
    assert "\n" not in str(error.value)


def test_a_missing_file_and_a_file_without_a_split_are_one_line(tmp_path):
    with pytest.raises(ValueError, match=r"the task file .*none.json.* cannot be read"):
        envs.make(f"webarena:{tmp_path / 'none.json'}")
    (tmp_path / "t.json").write_text(json.dumps([task(start_url="http://127.0.0.1:1")]))
    env = envs.make(f"webarena:{tmp_path / 't.json'}")
    with pytest.raises(ValueError, match="1 tasks, none of them for the split 'test'"):
        env.reset(seed=0, options={"split": "test"})
