"""The text of single tokens, from the tokenizer of a run's checkpoints or of an evaluation's policy."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class TokenText(NamedTuple):
    """The text of one token.

    Attributes:
        text: The text, None if it is unknown, or the bytes in hexadecimal if they are not whole characters.
        special: Whether it is a special token, such as the end of a message.
        raw: The bytes, if they are not whole characters; else None.

    """

    text: str | None
    special: bool = False
    raw: bytes | None = None


class TokenTexts:
    """Maps token ids to their texts; without a tokenizer, all texts are unknown."""

    def __init__(self, tokenizer: Tokenizer | None = None) -> None:
        """Use `tokenizer`, if there is one."""
        self._tokenizer = tokenizer
        self._special_tokens = tokenizer.get_added_tokens_decoder() if tokenizer else {}

    def __call__(self, token: int) -> TokenText:
        """Return the text of one token id; one with the text None if the tokenizer does not have it."""
        if self._tokenizer is None or (raw := self._tokenizer.id_to_token(token)) is None:
            return TokenText(None)
        if token in self._special_tokens:
            return TokenText(raw, special=True)
        text = self._tokenizer.decode([token], skip_special_tokens=False)
        if "\ufffd" in text:
            content = _token_bytes(raw)
            hexadecimal = "".join(f"\\x{byte:02x}" for byte in content or b"")
            return TokenText(hexadecimal, raw=content) if content else TokenText(raw)
        if raw.startswith("▁") and not text.startswith(" "):  # a decoder drops the space at the start of a text
            text = " " + text
        return TokenText(text)


def token_texts(run: Path | None, config: Mapping[str, Any]) -> TokenTexts:
    """Return the token texts of the model of the run in folder `run`, whose settings are `config`.

    The tokenizer is that of the newest checkpoint that has one, else that of the model the run started from (`model` in
    `config`), if it is a local folder or the bundled model; else all texts are unknown.
    """
    initial_model = str(config.get("model", ""))
    checkpoints = sorted((run / "checkpoints").glob("update-*/model"), reverse=True) if run else []
    homes = [home for model in checkpoints for home in (model, *sorted(model.glob("*/")))]
    for home in (*homes, *([Path(initial_model).expanduser()] if initial_model else [])):
        if (home / "tokenizer.json").is_file():
            from tokenizers import Tokenizer

            try:
                return TokenTexts(Tokenizer.from_file(str(home / "tokenizer.json")))
            except Exception:  # the library raises nothing narrower; try the next file
                continue
    if initial_model == "tiny":
        from rl.policy.tiny import byte_tokenizer

        return TokenTexts(byte_tokenizer().backend_tokenizer)
    return TokenTexts()


def policy_token_texts(policy: str) -> TokenTexts:
    """Return the token texts of the policy of an evaluation: `tiny`, or the folder of a model or a run.

    Of any other policy, and of a folder that is no longer there, all texts are unknown.
    """
    folder = Path(policy).expanduser()
    is_run = bool(policy) and (folder / "checkpoints").is_dir()
    return token_texts(folder if is_run else None, {"model": policy})


def _token_bytes(raw: str) -> bytes | None:
    """Return the bytes of a byte-level token or of a token like `<0xE2>`; None for any other."""
    if re.fullmatch("<0x[0-9A-F]{2}>", raw):
        return bytes([int(raw[3:5], 16)])
    letters = _byte_of_letter()
    return bytes(letters[letter] for letter in raw) if all(letter in letters for letter in raw) else None


@cache
def _byte_of_letter() -> dict[str, int]:
    """Return the byte that each letter of a byte-level token stands for (GPT-2's alphabet)."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = (byte for byte in range(256) if byte not in printable)
    return {chr(byte): byte for byte in printable} | {chr(0x100 + i): byte for i, byte in enumerate(others)}
