"""The names of keys that can be pressed: those of a US keyboard, as Playwright takes them, in both engines."""

from __future__ import annotations

from string import ascii_uppercase, digits

from envs.web.page import PageError

MAX_SHOWN = 40  # characters of a wrong name in the message
_NAMES = """
    Alt AltGraph AltLeft AltRight ArrowDown ArrowLeft ArrowRight ArrowUp AudioVolumeDown AudioVolumeMute
    AudioVolumeUp Backquote Backslash Backspace BracketLeft BracketRight CapsLock Comma ContextMenu Control
    ControlLeft ControlOrMeta ControlRight Delete End Enter Equal Escape Home Insert MediaPlayPause MediaTrackNext
    MediaTrackPrevious Meta MetaLeft MetaRight Minus NumLock NumpadAdd NumpadDecimal NumpadDivide NumpadEnter
    NumpadMultiply NumpadSubtract PageDown PageUp Pause Period PrintScreen Quote ScrollLock Semicolon Shift
    ShiftLeft ShiftRight Slash Space Tab
"""
KEYS = frozenset(
    (
        *_NAMES.split(),
        *(f"F{number}" for number in range(1, 13)),
        *(f"Key{letter}" for letter in ascii_uppercase),
        *(f"{row}{digit}" for row in ("Digit", "Numpad") for digit in digits),
        *map(chr, range(32, 127)),
        "\n",
        "\r",
    )
)


def check_key(key: str) -> None:
    """Raise PageError for what is neither a key nor a combination of keys, such as `Control+Shift+A`."""
    if not all(name in KEYS for name in _names_of(key)):
        raise PageError(
            f"{key[:MAX_SHOWN]!r} is no key; keys are named Enter, Tab, Space, ArrowDown, Backspace, a, ..., "
            "and a combination Control+a"
        )


def _names_of(key: str) -> list[str]:
    """The keys of a combination; a plus at the beginning of a name is a key itself."""
    names = [""]
    for letter in key:
        if letter == "+" and names[-1]:
            names.append("")
        else:
            names[-1] += letter
    return names
