"""Reading a corpus and cutting its documents."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.tools.corpus.documents import Corpus, cut, read_documents
from tests.support.corpus_files import write_corpus


def test_every_form_of_file_is_read(tmp_path):
    documents = read_documents(write_corpus(tmp_path) / "corpus" / "documents")
    assert [*documents] == ["notes/looms", "Ada Lovelace", "Charles Babbage", "Walworth"]  # the picture is no document
    assert documents["Walworth"] == ["Walworth is a district of London, in the borough of Southwark."]
    assert len(documents["Charles Babbage"]) == 2  # lines with one title are one document


def test_a_single_file_is_a_corpus(tmp_path):
    file = tmp_path / "notes.rst"
    file.write_text("Some text.")
    assert read_documents(file) == {"notes": ["Some text."]}


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("a.jsonl", '{"text": "x"}', r"a\.jsonl:1: field 'title' is None"),
        ("a.jsonl", '{"title": "x", "text": " "}', "field 'text' is ' '"),
        ("a.jsonl", '{"title": "x", "text": "y"}\n[1]', r"a\.jsonl:2: not a JSON object but a list"),
        ("a.jsonl", "{", "not JSON"),
        ("a.txt", " \n", "an empty document"),
        ("a.txt", b"\xff\xfe", "not UTF-8"),
        ("a.csv", "x", r"no documents in .*: it needs files that end in \.txt, \.md, \.jsonl"),
    ],
)
def test_a_malformed_corpus_is_refused_with_its_place(name, content, error, tmp_path):
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=error):
        read_documents(tmp_path)


def test_a_missing_corpus_is_refused(tmp_path):
    with pytest.raises(ValueError, match="neither a file nor a folder"):
        read_documents(tmp_path / "nowhere")


@given(st.text(alphabet="ab .!\n", max_size=300), st.integers(3, 40))
def test_pieces_are_short_and_lose_nothing_but_spaces(text, length):
    pieces = [*cut(text, length)]
    assert all(0 < len(piece) <= length and piece == piece.strip() for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())


def test_a_text_is_cut_at_paragraphs_then_sentences_then_words():
    assert [*cut("One two.\n\nThree.\n\nFour five six seven. Eight.", 18)] == [
        "One two.\n\nThree.",
        "Four five six",
        "seven. Eight.",
    ]


def test_titles_are_found_in_any_case_and_in_quotes():
    corpus = Corpus({"Ada": ["a" * 250], "ada": ["x"], "Straße": ["y"]}, 100)
    assert [corpus.find_title(name) for name in ("ada", "Ada", "ADA", ' "STRASSE"', "Bel", "")] == [
        *("ada", "Ada", "Ada", "Straße", None, None)
    ]
    assert [part.number for part in corpus.document("Ada")] == [1, 2, 3]


def test_the_digest_changes_with_any_part():
    texts = [{"A": ["one"]}, {"A": ["two"]}, {"B": ["one"]}, {"A": ["one"], "B": ["x"]}]
    assert len({Corpus(each, 100).digest for each in texts}) == 4
    assert json.loads(json.dumps(Corpus(texts[0], 100).digest)) == Corpus(texts[0], 100).digest
