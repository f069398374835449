"""Questions about a corpus of the user's own."""

import json
import pickle

import pytest

import envs
from envs.checks import check_env
from envs.data import MissingData
from envs.types import assistant
from tests.support.corpus_files import QUESTIONS, write_corpus, write_rows

ID = "tools/Corpus-v0"


@pytest.fixture
def root(tmp_path):
    return write_corpus(tmp_path)


def play(root, *replies, index=0, **options):
    """Play replies, texts or lists of calls; return the last step's result, and the environment."""
    env = envs.make(ID, data_root=str(root), **options).unwrapped
    env.reset(seed=0, options={"split": "test", "index": index})
    result = None
    for reply in replies:
        result = env.step(
            assistant(reply) if isinstance(reply, str) else assistant(tool_calls=reply, first_id=env.turns)
        )
    return result, env


def search(query):
    return ("search", {"query": query})


def read(title, **options):
    return ("read", {"title": title, **options})


def answer(text, *sources):
    return ("answer", {"text": text, "sources": list(sources)})


@pytest.mark.parametrize(
    "options", [{}, {"style": "short"}, {"rule": "f1"}, {"cite": 0.5}, {"part_length": 100}, {"rule": "igpo"}]
)
def test_it_passes_the_doctor(root, options):
    failures = [result for result in check_env(ID, data_root=str(root), **options) if result.faults]
    assert not failures


def test_several_searches_and_reads_of_one_reply_are_made_in_order(root):
    (obs, _, terminated, _, info), _ = play(
        root, [search("Difference Engine designer"), search("borough district"), read("walworth"), search("zzz")]
    )
    contents = [message["content"] for message in obs]
    assert contents[0].startswith("1. Charles Babbage\nCharles Babbage designed") or "(part 1 of 2)" in contents[0]
    assert contents[1].startswith("1. Walworth\n") and contents[2].startswith("Walworth\nWalworth is a district")
    assert contents[3] == "error: nothing fits these words"
    assert not terminated and info["valid"]
    assert info["metrics"]["calls"] == 4 and info["metrics"]["errors"] == 0  # nothing found is no mistake


@pytest.mark.parametrize(
    ("reply", "reward"),
    [
        ("<answer>Southwark</answer>", 1.0),
        ("<think>Hm.</think> <answer>the Southwark</answer>", 2 / 3),  # articles count
        ("Southwark", -3.0),
        ([("answer", {"text": "Southwark"})], 1.0),  # a call needs no tags
    ],
)
def test_a_text_without_answer_tags_may_cost(root, reply, reward):
    (_, earned, terminated, _, info), _ = play(root, reply, rule="igpo", no_tags=-3.0)
    assert terminated and earned == pytest.approx(reward) and info["success"] == (reward == 1.0)


@pytest.mark.parametrize(
    "reply", ["<think>Hm. <answer>Southwark</answer>", "<answer>Southwark</answer> <answer>Kent</answer>"]
)
def test_tags_that_give_no_single_answer_are_no_answer(root, reply):
    (_, earned, terminated, _, info), _ = play(root, reply, rule="igpo")
    assert not terminated and earned == 0 and not info["valid"]


def test_search_keys_of_another_form_are_refused(tmp_path):
    root = write_corpus(tmp_path)
    write_rows(root / "corpus" / "test.jsonl", [{**QUESTIONS[0], "keys": ["borough"]}])
    with pytest.raises(ValueError, match=r"test\.jsonl.*field 'keys' is \['borough'\], not a list of lists"):
        play(root)


def test_gains_of_the_documents_that_the_question_names(root):
    (*_, first), env = play(root, [search("Difference Engine")])
    assert first["metrics"]["gain"] == first["metrics"]["coverage"] == 0.25  # one of two is listed
    second = env.step(assistant(tool_calls=[read("Charles Babbage"), read("Walworth"), read("Walworth")], first_id=1))[
        4
    ]
    assert second["metrics"]["gain"] == 0.75 and second["metrics"]["coverage"] == 1.0
    assert second["metrics"]["redundancy"] == pytest.approx(1 / 3)
    third = env.step(assistant(tool_calls=[read("Walworth")], first_id=4))[4]
    assert third["metrics"]["gain"] == 0.0 and third["metrics"]["redundancy"] == 1.0


@pytest.mark.parametrize(
    ("index", "replies", "score", "citation"),
    [
        (0, [[answer("the Southwark", "Charles Babbage", "walworth")]], 1.0, 1.0),
        (0, [[answer("London borough of Southwark", "Walworth")]], 1.0, 2 / 3),
        (0, [[answer("Southwark", "Walworth", "Ada Lovelace", "invented")]], 1.0, 0.4),
        (0, [[answer("Southwark")]], 1.0, 0.0),
        (0, ["I think it is in the borough.\n\n<answer>Southwark</answer>"], 1.0, 0.0),
        (0, [[answer("Walworth or Southwark", "Walworth")]], 0.0, 2 / 3),
        (1, [[answer("punched cards", "notes/looms")]], 1.0, 0.0),  # cited without a look at it
        (1, [[search("loom")], [answer("punched cards", "notes/looms")]], 1.0, 1.0),
        (1, [[search("loom"), search("Ada")], [answer("punched cards", "notes/looms", "Ada Lovelace")]], 1.0, 0.5),
        (2, ["London"], 1.0, 0.0),
    ],
)
def test_answers_and_citations(root, index, replies, score, citation):
    (_, reward, terminated, _, info), _ = play(root, *replies, index=index)
    assert terminated and reward == score and info["success"] == bool(score)
    assert info["rewards"] == {"answer": score, "citation": pytest.approx(citation)}


def test_citations_weigh_as_asked(root):
    (_, reward, *_), _ = play(root, [answer("Southwark", "Walworth")], cite=0.3)
    assert reward == pytest.approx(0.7 + 0.3 * 2 / 3)
    (_, reward, *_), _ = play(root, [answer("London", "Walworth", "Charles Babbage")], cite=0.3)
    assert reward == 0.0


def test_f1_pays_for_a_part_but_is_no_success(root):
    (_, reward, _, _, info), _ = play(root, [answer("in Southwark")], rule="f1")
    assert reward == pytest.approx(2 / 3) and not info["success"]


def test_only_the_first_answer_counts_and_nothing_is_shown_after_it(root):
    (obs, reward, *_), _ = play(root, [answer("London"), answer("Southwark"), read("Walworth")])
    assert reward == 0.0 and "district" not in str(obs)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (("read", {"title": "Nobody"}), "there is no document of this title"),
        (("read", {"title": "Walworth", "part": 2}), "this document has 1 part"),
        (("read", {"title": "Walworth", "part": 0}), "greater than or equal to 1"),
        (("search", {"query": " "}), "search needs words"),
        (("answer", {"text": "..."}), "answer needs a text with words"),
        (("answer", {"text": "x", "sources": ["y"] * 21}), "at most 20 sources"),
        (("find", {"query": "x"}), "find"),
    ],
)
def test_mistakes_are_answered_and_the_episode_goes_on(root, call, error):
    (obs, _, terminated, _, _), _ = play(root, [call])
    assert error in obs[-1]["content"] and not terminated


def test_short_style_searches_and_reads_by_one_letter(root):
    (obs, *_), env = play(root, "s Difference Engine", style="short")
    assert obs[-1]["content"].startswith("Charles Babbage")
    assert "borough of Southwark" in env.step(assistant("r Walworth"))[0][-1]["content"]
    assert env.step(assistant("Southwark"))[1] == 1.0


def test_a_document_is_read_part_by_part(root):
    (obs, *_), _ = play(root, [read("Charles Babbage", part=2)])
    assert obs[-1]["content"] == "Charles Babbage (part 2 of 2)\nHis machine was never finished."


def test_long_parts_are_cut_short_in_a_listing(root):
    (obs, *_), _ = play(root, [search("Difference")], snippet=20)
    assert obs[-1]["content"].splitlines()[1] == "Charles Babbage ..."


def test_without_files_of_val_a_tenth_of_train_is_held_out(root):
    rows = [{"question": f"Question {number}?", "answer": "x"} for number in range(50)]
    write_rows(root / "corpus" / "train.jsonl", rows)
    env = envs.make(ID, data_root=str(root)).unwrapped
    parts = [{task.metadata["question"] for task in env.load(split)} for split in ("train", "val")]
    assert [len(part) for part in parts] == [45, 5] and not parts[0] & parts[1]
    write_rows(root / "corpus" / "val.jsonl", QUESTIONS)
    env = envs.make(ID, data_root=str(root), found=4).unwrapped  # other arguments, so that the files are read again
    assert [len(env.load(split)) for split in ("train", "val")] == [50, 3]


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"question": "x?"}, "field 'answer' is None"),
        ({"question": "x?", "answers": []}, "field 'answer' is \\[\\]"),
        ({"question": " ", "answer": "x"}, "field 'question' is ' '"),
        ({"question": "x?", "answer": "x", "documents": ["Nobody"]}, "the documents have no 'Nobody'"),
        ({"question": "x?", "answer": "x", "documents": "Ada"}, "field 'documents' is 'Ada', not a list of titles"),
    ],
)
def test_malformed_questions_are_refused_with_their_line(root, row, error):
    (root / "corpus" / "test.jsonl").write_text(json.dumps(row) + "\n")
    with pytest.raises(ValueError, match=f"test.jsonl:1: {error}"):
        envs.make(ID, data_root=str(root)).reset(seed=0)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"found": 0}, "found 0 is outside 1..100"),
        ({"rule": "bleu"}, "rule 'bleu' is not one of em, f1"),
        ({"cite": 2}, "cite 2 is outside 0..1"),
        ({"cite": 0.5, "style": "short"}, "cite 0.5 needs style=full"),
    ],
)
def test_wrong_arguments_are_refused(options, error):
    with pytest.raises(ValueError, match=error):
        envs.make(ID, **options)


def test_missing_documents_and_questions_say_where_they_belong(root, tmp_path_factory):
    with pytest.raises(MissingData, match="corpus/documents/"):
        envs.make(ID, data_root=str(tmp_path_factory.mktemp("empty"))).reset(seed=0)
    (root / "corpus" / "test.jsonl").unlink()
    with pytest.raises(MissingData, match="train"):
        envs.make(ID, data_root=str(root)).reset(seed=0)


def test_documents_may_stand_anywhere(root, tmp_path):
    (root / "corpus" / "documents").rename(tmp_path / "elsewhere")
    (obs, *_), _ = play(root, [read("walworth")], documents=str(tmp_path / "elsewhere"))
    assert "Southwark" in obs[-1]["content"]


def test_a_copy_opens_the_index_again_and_a_changed_file_is_read_again(root):
    _, env = play(root, [search("loom")])
    copy = pickle.loads(pickle.dumps(env))
    assert copy.corpus is env.corpus  # of the same process
    assert len(pickle.dumps(env)) < 20_000
    (root / "corpus" / "documents" / "new.txt").write_text("A new document.")
    (obs, *_), _ = play(root, [read("new")])
    assert obs[-1]["content"] == "new\nA new document."
