"""Names of keys: what Claude and people write, and the X keysyms that are meant.

Names are case-insensitive, as Claude is told; an unknown name is an error, never a key that silently does nothing.
"""

from __future__ import annotations

import difflib
import functools
import re
import unicodedata
from typing import Final

from Xlib import XK

from pytest_cua.errors import BadArgument

for _group in ("xkb", "xf86"):  # AltGr, and the keys of multimedia keyboards
    XK.load_keysym_group(_group)

#: Other names of modifiers.
_MODIFIERS: Final = {
    "ctrl": "Control_L",
    "control": "Control_L",
    "ctl": "Control_L",
    "shift": "Shift_L",
    "alt": "Alt_L",
    "option": "Alt_L",
    "opt": "Alt_L",
    "super": "Super_L",
    "cmd": "Super_L",
    "command": "Super_L",
    "win": "Super_L",
    "windows": "Super_L",
    "meta": "Super_L",
    "altgr": "ISO_Level3_Shift",
    "altgraph": "ISO_Level3_Shift",
    "hyper": "Hyper_L",
    "controlormeta": "Control_L",
    **{
        form: f"{key}_{side[0].upper()}"
        for side in ("left", "right")
        for name, key in (
            ("ctrl", "Control"),
            ("control", "Control"),
            ("shift", "Shift"),
            ("alt", "Alt"),
            ("option", "Alt"),
            ("super", "Super"),
            ("cmd", "Super"),
            ("command", "Super"),
            ("win", "Super"),
            ("meta", "Super"),
        )
        for form in (f"{side}{name}", f"{name}{side}", f"{side[0]}{name}")
    },
}
#: Other names of keys.
_ALIASES: Final = {
    "enter": "Return",
    "esc": "Escape",
    "del": "Delete",
    "ins": "Insert",
    "bksp": "BackSpace",
    "back": "BackSpace",
    "pgdn": "Page_Down",
    "pgdown": "Page_Down",
    "pagedown": "Page_Down",
    "pgup": "Page_Up",
    "pageup": "Page_Up",
    "arrowup": "Up",
    "arrowdown": "Down",
    "arrowleft": "Left",
    "arrowright": "Right",
    "uparrow": "Up",
    "downarrow": "Down",
    "leftarrow": "Left",
    "rightarrow": "Right",
    "spacebar": "space",
    "capslock": "Caps_Lock",
    "numlock": "Num_Lock",
    "scrolllock": "Scroll_Lock",
    "printscreen": "Print",
    "prtsc": "Print",
    "prtscr": "Print",
    "contextmenu": "Menu",
    "apps": "Menu",
    "dash": "minus",
    "hyphen": "minus",
    "dot": "period",
    "backtick": "grave",
    "backquote": "grave",
    "equals": "equal",
    "dollarsign": "dollar",
    "percentsign": "percent",
    "atsign": "at",
    "exclamation": "exclam",
    "exclamationmark": "exclam",
    "questionmark": "question",
    "lessthan": "less",
    "greaterthan": "greater",
    "openparen": "parenleft",
    "closeparen": "parenright",
    "leftparen": "parenleft",
    "rightparen": "parenright",
    "leftbracket": "bracketleft",
    "rightbracket": "bracketright",
    "leftbrace": "braceleft",
    "rightbrace": "braceright",
    "openbrace": "braceleft",
    "closebrace": "braceright",
    "singlequote": "apostrophe",
    "forwardslash": "slash",
    "star": "asterisk",
    "fullstop": "period",
    "quote": "apostrophe",
    "doublequote": "quotedbl",
    "openbracket": "bracketleft",
    "closebracket": "bracketright",
    "tilde": "asciitilde",
    "caret": "asciicircum",
    "hash": "numbersign",
    "pipe": "bar",
    "kpenter": "KP_Enter",
    "numpadenter": "KP_Enter",
    "numpadadd": "KP_Add",
    "numpadsubtract": "KP_Subtract",
    "numpadmultiply": "KP_Multiply",
    "numpaddivide": "KP_Divide",
    "numpaddecimal": "KP_Decimal",
    **{f"{prefix}{digit}": f"KP_{digit}" for prefix in ("numpad", "kp", "num") for digit in range(10)},
    **{f"digit{digit}": str(digit) for digit in range(10)},  # as browsers call the keys
    **{f"key{letter}": letter for letter in "abcdefghijklmnopqrstuvwxyz"},
}
#: Names that X has for no key at all.
_NO_KEYS: Final = frozenset({0, 0xFFFFFF})
_MODIFIER_KEYSYMS: Final = frozenset(
    XK.string_to_keysym(f"{name}_{side}")
    for name in ("Control", "Shift", "Alt", "Super", "Meta", "Hyper")
    for side in "LR"
) | {XK.string_to_keysym("ISO_Level3_Shift")}
SHIFTS: Final = frozenset({XK.XK_Shift_L, XK.XK_Shift_R})
_FIRST_UNICODE: Final = 0x01000000  # a keysym of Unicode is this plus the code point
_CONTROL_CHARACTERS: Final[dict[str, int]] = {
    "\n": XK.XK_Return,
    "\r": XK.XK_Return,
    "\t": XK.XK_Tab,
    "\b": XK.XK_BackSpace,
    "\x1b": XK.XK_Escape,
}


def chords(text: str) -> list[list[int]]:
    """Parse a key or a combination, or several of them separated by spaces, into keysyms.

    Args:
        text: "Return", "ctrl+s", "ctrl+shift+T", "ctrl++", "ctrl+a Delete", "é", " ".

    Raises:
        BadArgument: a name that is no key.
    """
    if not isinstance(text, str) or not text:
        raise BadArgument(f"{text!r} is no key.", 'write a name such as "Return" or a combination such as "ctrl+s"')
    if len(text) == 1:
        return [[character(text)]]
    words = text.split()
    if len(words) > 1 and "+" not in text and words[0].lower() not in _MODIFIERS and _alias(" ".join(words).lower()):
        return [[keysym(" ".join(words))]]  # "Page Down" is one key; "Up Down" and "shift left" are two
    plain = re.sub(r"\bU\+(?=[0-9A-F]{4,6}\b)", "U", text, flags=re.IGNORECASE)  # the + of "U+20AC" joins nothing
    spaced = re.sub(r"\s*\+\s*", "+", plain).split()
    if not spaced:
        raise BadArgument(f"{text!r} is no key.", 'write "space" for the space bar')
    return [_chord(part) for part in spaced]


def modifiers(names: object) -> list[int]:
    """Parse modifiers that are held during a click.

    Args:
        names: "shift", "ctrl+shift", or several such names.

    Raises:
        BadArgument: a name that is no modifier.
    """
    given = [names] if isinstance(names, str) else list(names or ())  # type: ignore[call-overload]
    parts = [part.strip() for name in given if name for part in str(name).split("+")]
    keysyms = []
    for part in parts:
        keysym = int(XK.string_to_keysym(_alias(part.lower()) or part))
        if keysym not in _MODIFIER_KEYSYMS:
            close = difflib.get_close_matches(part.lower(), _MODIFIERS, n=1, cutoff=0.6)
            meant = [f"did you mean {close[0]}?"] if close else []
            raise BadArgument(f"{part!r} is no modifier key.", *meant, "use shift, ctrl, alt or super, joined by +")
        keysyms.append(keysym)
    return list(dict.fromkeys(keysyms))


def character(text: str) -> int:
    """The keysym of one character; keysyms of Unicode are 0x1000000 plus the code point (X11 protocol, appendix A).

    Raises:
        BadArgument: a character that no key can stand for.
    """
    if text in _CONTROL_CHARACTERS:
        return _CONTROL_CHARACTERS[text]
    code = ord(text)
    if unicodedata.category(text) in ("Cc", "Cs"):
        raise BadArgument(f"The character {text!r} (U+{code:04X}) cannot be typed.", "leave it out of the text")
    if code < 0x100:  # Latin-1, whose keysyms are the code points
        return code
    return _FIRST_UNICODE + code


def name(keysym: int) -> str:
    """What a keysym is called: its character, or the name that X has for it."""
    if _FIRST_UNICODE <= keysym <= _FIRST_UNICODE + 0x10FFFF:
        return chr(keysym - _FIRST_UNICODE)
    if 0x21 <= keysym < 0x7F or 0xA1 <= keysym < 0x100:
        return chr(keysym)
    return _names().get(keysym, f"0x{keysym:x}")


def is_modifier(keysym: int) -> bool:
    """Whether a key changes what others mean."""
    return keysym in _MODIFIER_KEYSYMS


def _chord(text: str) -> list[int]:
    if len(text) == 1:
        return [character(text)]
    names = [*text[:-2].split("+"), "plus"] if text.endswith("++") else text.split("+")
    if not all(names):
        raise BadArgument(
            f"{text!r} is no key combination: something is missing beside a +.", 'the key + itself is "plus"'
        )
    keysyms = [keysym(name) for name in names]
    if len(keysyms) > 1:
        # names are case-insensitive: "ctrl+S" is not ctrl+shift+s; who means that says shift
        keysyms = [value + 0x20 if XK.XK_A <= value <= XK.XK_Z else value for value in keysyms]
    return list(dict.fromkeys(keysyms))


def keysym(name: str) -> int:
    """The keysym of one key's name or character.

    Raises:
        BadArgument: the name is unknown; close names are suggested.
    """
    if len(name) == 1:
        return character(name)
    composed = unicodedata.normalize("NFC", name)
    if len(composed) == 1:  # a letter and the mark above it
        return character(composed)
    lower = name.lower()
    alias = _alias(lower)
    found = XK.string_to_keysym(alias) if alias else _by_name(name)
    if found not in _NO_KEYS:
        return int(found)
    hints = []
    close = difflib.get_close_matches(lower, _all_names(), n=3, cutoff=0.6)
    if close:
        hints.append(f"did you mean {' or '.join(_shown(match) for match in close)}?")
    if "-" in name:
        hints.append(f'join keys with +, as in "{name.replace("-", "+")}"')
    raise BadArgument(f"{name!r} is no key.", *hints, "to enter text use type()")


def _alias(lower: str) -> str | None:
    """X's name of what is called otherwise, in lower case; with or without _, - and spaces between its words."""
    compact = re.sub(r"[_ -]", "", lower)
    return _MODIFIERS.get(lower) or _ALIASES.get(lower) or _ALIASES.get(compact) or _MODIFIERS.get(compact)


def _by_name(name: str) -> int:
    unicode = re.fullmatch(r"[Uu]([0-9A-Fa-f]{4,6})", name)
    if unicode and int(unicode[1], 16) < 0x110000:
        return character(chr(int(unicode[1], 16)))
    return (
        int(XK.string_to_keysym(name))
        or _x_names().get(name.lower(), 0)
        or _x_names().get(name.lower().replace(" ", "_"), 0)
    )


@functools.cache
def _names() -> dict[int, str]:
    """X's name of each keysym; of several the first."""
    names: dict[int, str] = {}
    for name, value in vars(XK).items():
        if isinstance(value, int) and name.startswith("XK_"):
            names.setdefault(value, name.removeprefix("XK_"))
    # what everybody calls them today
    return names | {XK.XK_Page_Up: "Page_Up", XK.XK_Page_Down: "Page_Down"}


@functools.cache
def _x_names() -> dict[str, int]:
    """X's names in lower case; where two differ only in case, the lower one is meant."""
    names: dict[str, int] = {}
    for name, value in vars(XK).items():
        if not isinstance(value, int) or not name.startswith(("XK_", "XF86_")):
            continue
        short = name.removeprefix("XK_").replace("XF86_", "XF86")
        if short.lower() not in names or short.islower():
            names[short.lower()] = value
    return names


@functools.cache
def _all_names() -> list[str]:
    return [*_MODIFIERS, *_ALIASES, *(name for name in _x_names() if len(name) > 1)]


def _shown(lower: str) -> str:
    """A name as one would write it."""
    if lower in _MODIFIERS or lower in _ALIASES:
        return lower
    return next((name[3:] for name in vars(XK) if name.startswith("XK_") and name[3:].lower() == lower), lower)
