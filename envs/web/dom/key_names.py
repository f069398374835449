"""The names of keys that can be pressed: those of a US keyboard, as Playwright takes them, in both engines."""

from __future__ import annotations

from string import ascii_uppercase, digits

from envs.web.page import PageError

MAX_LENGTH = 40  # of a combination, in characters; of a longer one the message shows as many
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
MODIFIERS = frozenset(name for name in KEYS if name.startswith(("Alt", "Control", "Meta", "Shift")))


def check_key(key: str) -> None:
    """Raise PageError for what is neither a key nor a key after modifiers, each once, such as `Control+Shift+A`."""
    *modifiers, last = _names_of(key[: MAX_LENGTH + 1])
    names = {last, *modifiers}
    if len(key) > MAX_LENGTH or last not in KEYS or not MODIFIERS.issuperset(modifiers) or len(names) <= len(modifiers):
        raise PageError(
            f"{key[:MAX_LENGTH]!r} is no key; keys are named Enter, Tab, Space, ArrowDown, Backspace, a, ..., "
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
