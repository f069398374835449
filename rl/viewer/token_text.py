"""The text of a token, from the tokenizer that a run keeps in its checkpoints."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Piece(NamedTuple):
    """What a token reads. `text` is None where that is not known; `special` marks one that is not written as text.

    `raw` is given where its bytes are no whole characters; `text` then spells them in hexadecimal.
    """

    text: str | None
    special: bool = False
    raw: bytes | None = None


class Pieces:
    """Token ids to pieces; without a tokenizer no text is known."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        self._tokenizer = tokenizer
        self._added = tokenizer.get_added_tokens_decoder() if tokenizer else {}

    def __call__(self, token: int) -> Piece:
        """The piece of one id."""
        if self._tokenizer is None or (raw := self._tokenizer.id_to_token(token)) is None:
            return Piece(None)
        if token in self._added:
            return Piece(raw, special=True)
        text = self._tokenizer.decode([token], skip_special_tokens=False)
        if "\ufffd" in text:
            found = _bytes_of(raw)
            return Piece("".join(f"\\x{byte:02x}" for byte in found), raw=found) if found else Piece(raw)
        if raw.startswith("▁") and not text.startswith(" "):  # a decoder drops the space that begins a text
            text = " " + text
        return Piece(text)


def of_run(run: Path | None, config: Mapping[str, Any]) -> Pieces:
    """The pieces of a run's model: from a checkpoint, else from the model it began with, if that is here."""
    begun = str(config.get("model", ""))
    homes = sorted((run / "checkpoints").glob("update-*/model"), reverse=True) if run else []
    for home in (*homes, *([Path(begun).expanduser()] if begun else [])):
        if (home / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            try:
                return Pieces(Tokenizer.from_file(str(home / "tokenizer.json")))
            except Exception:  # the library raises nothing narrower; a damaged file costs the texts alone
                continue
    if begun == "tiny":
        from rl.policy.tiny import byte_tokenizer

        return Pieces(byte_tokenizer().backend_tokenizer)
    return Pieces()


def _bytes_of(raw: str) -> bytes | None:
    """The bytes behind a byte-level token, or a token of the form `<0xE2>`; None for any other."""
    if re.fullmatch("<0x[0-9A-F]{2}>", raw):
        return bytes([int(raw[3:5], 16)])
    letters = _byte_of_letter()
    return bytes(letters[letter] for letter in raw) if all(letter in letters for letter in raw) else None


@cache
def _byte_of_letter() -> dict[str, int]:
    """The byte behind each letter that byte-level tokenizers write it with."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
