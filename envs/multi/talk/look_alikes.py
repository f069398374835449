"""Letters that look like those of the English alphabet, and words that are spelled with them."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_LOOK_ALIKES = str.maketrans(
    {
        **dict(zip("аәвԁеєғԍһніјкӏмпорԛгѕстцѵԝхуүзьб", "aebdeefghhijklmnopqrsctuvwxyyzbb", strict=True)),
        **dict(zip("αβγδεζηικλμνορστυχω", "abydezniklmvopotuxw", strict=True)),
        **dict(zip("ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘǫʀꜱᴛᴜᴠᴡʏᴢ", _ALPHABET.replace("x", ""), strict=True)),
        **dict(zip("ɐɔǝɟɓɥᴉɾʞɯɹʇʌʍʎ", "acefghijkmrtvwy", strict=True)),
        **dict(zip("łøđħıƒɑɡϲɭⱥƚ", "lodhifagclal", strict=True)),
        **{
            chr(first + place): letter
            for first in (0x1F1E6, 0x1F150, 0x1F170)
            for place, letter in enumerate(_ALPHABET)
        },
    }
)  # those of Cyrillic, Greek, small capitals, upside down, with a stroke, in squares and circles
_DIGITS = tuple(str.maketrans("01345789@$!|", f"o{one}eastbgas{one}{one}") for one in "li")
_LETTERS = re.compile(r"[a-z]+")
_APOSTROPHE = re.compile(r"(?<=[a-z])['’](?=[a-z])")  # "it's" is one word
_MIXED = re.compile(r"[a-z0-9@$!|]*[a-z][a-z0-9@$!|]*")


def spellings(text: str) -> Iterator[list[str]]:
    """Yield the words of a text in the letters a to z: as they look, and with digits in them read as letters."""
    letters = unicodedata.normalize("NFKD", text).casefold().translate(_LOOK_ALIKES)
    plain = "".join(sign for sign in letters if unicodedata.category(sign) not in ("Mn", "Cf"))
    plain = _APOSTROPHE.sub("", plain)
    yield _LETTERS.findall(plain)
    words = _MIXED.findall(plain)
    if not all(map(str.isalpha, words)):
        for digits in _DIGITS:
            yield [word.translate(digits) for word in words]
