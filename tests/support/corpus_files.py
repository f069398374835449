"""A small corpus with questions, in every form of file that is read."""

from __future__ import annotations

import json
from pathlib import Path

ROWS = [
    {"title": "Ada Lovelace", "text": "Ada Lovelace wrote notes on the Analytical Engine.\n\nShe was born in London."},
    {"title": "Charles Babbage", "text": "Charles Babbage designed the Difference Engine. He was born in Walworth."},
    {"contents": '"Walworth"\nWalworth is a district of London, in the borough of Southwark.'},
    {"title": "Charles Babbage", "text": "His machine was never finished."},
]
QUESTIONS: list[dict] = [
    {
        "question": "In which borough was the designer of the Difference Engine born?",
        "answers": ["Southwark", "London Borough of Southwark"],
        "documents": ["charles babbage", "Walworth"],
    },
    {"question": "What controlled Jacquard's loom?", "golden_answers": ["punched cards"]},
    {"question": "Where was Ada Lovelace born?", "answer": "London", "supporting_facts": [["Ada Lovelace", 1]]},
]


def write_corpus(root: Path) -> Path:
    """Write `corpus/` below `root`: documents and the questions of "test". Returns `root`."""
    notes = root / "corpus" / "documents" / "notes"
    notes.mkdir(parents=True)
    write_rows(notes.parent / "pages.jsonl", ROWS)
    (notes / "looms.md").write_text("# Looms\nJacquard's loom was controlled by punched cards.\n")
    (notes / "picture.png").write_bytes(b"\x89PNG")
    write_rows(root / "corpus" / "test.jsonl", QUESTIONS)
    return root


def write_rows(path: Path, rows: list[dict]) -> None:
    """Write JSON lines."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
