"""Names of keys; no X server is needed."""

from __future__ import annotations

import pytest
from Xlib import XK

from pytest_cua.desktop import keys
from pytest_cua.errors import BadArgument


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Return", "Return"),
        ("return", "Return"),
        ("RETURN", "Return"),
        ("enter", "Return"),
        ("esc", "Escape"),
        ("backspace", "BackSpace"),
        ("pagedown", "Page_Down"),
        ("PageDown", "Page_Down"),
        ("pgdn", "Page_Down"),
        ("Page_Up", "Page_Up"),
        ("altgr", "ISO_Level3_Shift"),
        ("XF86AudioMute", "XF86_AudioMute"),
        ("down", "Down"),
        ("ArrowLeft", "Left"),
        ("del", "Delete"),
        ("f5", "F5"),
        ("F12", "F12"),
        ("cmd", "Super_L"),
        ("win", "Super_L"),
        ("meta", "Super_L"),
        ("option", "Alt_L"),
        ("ctl", "Control_L"),
        ("kp_enter", "KP_Enter"),
        ("Caps Lock", "Caps_Lock"),
        ("tab", "Tab"),
        ("page down", "Page_Down"),
        ("Arrow Up", "Up"),
        ("left shift", "Shift_L"),
        ("ShiftRight", "Shift_R"),
        ("rctrl", "Control_R"),
        ("command", "Super_L"),
        ("windows", "Super_L"),
        ("equals", "equal"),
        ("BackQuote", "grave"),
        ("openbracket", "bracketleft"),
        ("question mark", "question"),
        ("Numpad7", "KP_7"),
        ("numpad enter", "KP_Enter"),
        ("Digit4", "4"),
        ("KeyQ", "q"),
        ("\n", "Return"),
        ("\t", "Tab"),
    ],
)
def test_names_are_case_insensitive_and_have_aliases(text: str, expected: str) -> None:
    keysym = getattr(XK, f"XK_{expected}")
    assert keysym
    assert keys.keysym(text) == keysym
    assert keys.chords(text) == [[keysym]]


def test_every_other_name_is_that_of_a_key() -> None:
    for name, meant in (keys._ALIASES | keys._MODIFIERS).items():
        assert keys.keysym(name) == XK.string_to_keysym(meant) != 0, name


def test_the_names_of_keysyms() -> None:
    names = [keys.name(keys.keysym(text)) for text in ("a", "é", "€", "pgdn", "enter", "ctrl", "XF86Back")]
    assert names == ["a", "é", "€", "Page_Down", "Return", "Control_L", "XF86_Back"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", [ord("a")]),
        ("A", [ord("A")]),
        ("é", [0xE9]),
        ("e\u0301", [0xE9]),
        ("€", [0x010020AC]),
        ("😀", [0x0101F600]),
        ("U20AC", [0x010020AC]),
        ("u+1F600", [0x0101F600]),
        ("-", [ord("-")]),
        ("minus", [ord("-")]),
        ("+", [ord("+")]),
        (" ", [ord(" ")]),
        ("space", [ord(" ")]),
        ("ctrl+S", [XK.XK_Control_L, ord("s")]),
        ("Ctrl + Shift + t", [XK.XK_Control_L, XK.XK_Shift_L, ord("t")]),
        ("ctrl++", [XK.XK_Control_L, ord("+")]),
        ("ctrl+-", [XK.XK_Control_L, ord("-")]),
        ("ctrl+plus", [XK.XK_Control_L, ord("+")]),
        ("super+l", [XK.XK_Super_L, ord("l")]),
        ("ctrl+alt+Delete", [XK.XK_Control_L, XK.XK_Alt_L, XK.XK_Delete]),
    ],
)
def test_characters_and_combinations(text: str, expected: list[int]) -> None:
    assert keys.chords(text) == [expected]


def test_several_are_separated_by_spaces() -> None:
    assert keys.chords("ctrl+a Delete") == [[XK.XK_Control_L, ord("a")], [XK.XK_Delete]]
    assert keys.chords("Up Down") == [[XK.XK_Up], [XK.XK_Down]]
    assert keys.chords("shift Left") == [[XK.XK_Shift_L], [XK.XK_Left]]


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("retrun", "Return"),
        ("pagedwn", "pagedown"),
        ("ctrl-s", "ctrl+s"),
        ("Escpe", "Escape"),
        ("hello", "type()"),
        ("NoSymbol", "type()"),
        ("VoidSymbol", "type()"),
        ("cotnrol", "control"),
        ("ctrl+", "plus"),
        ("", "name"),
        ("  ", "space"),
        ("\x07", "leave it out"),
    ],
)
def test_unknown_names_are_errors_that_help(text: str, hint: str) -> None:
    with pytest.raises(BadArgument) as caught:
        keys.chords(text)
    assert any(hint in line for line in caught.value.hints), caught.value.hints


@pytest.mark.parametrize("given", ["shift", "Ctrl+Shift", ["shift", "alt"], "super", "altgr", "Control_R"])
def test_modifiers(given: object) -> None:
    keysyms = keys.modifiers(given)
    assert keysyms
    assert all(keys.is_modifier(keysym) for keysym in keysyms)


@pytest.mark.parametrize("given", ["", (), None])
def test_no_modifiers(given: object) -> None:
    assert keys.modifiers(given) == []


def test_a_modifier_that_is_nearly_right_is_suggested() -> None:
    with pytest.raises(BadArgument) as caught:
        keys.modifiers("shft")
    assert "did you mean shift?" in caught.value.hints


@pytest.mark.parametrize("given", ["a", "shift+", "shft"])
def test_what_is_no_modifier(given: str) -> None:
    with pytest.raises(BadArgument):
        keys.modifiers(given)
