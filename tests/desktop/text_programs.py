"""Programs that hold text, each with a way to read what it holds, and mixed texts to type into them.

Used by `test_text.py` and by `benchmarks/bench_text.py`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

from desktop_support import eventually

from pytest_cua.desktop.desktop import Desktop
from pytest_cua.desktop.waiting import wait_for

#: What a mixed text is drawn from: whole characters as a reader sees them, some of several code points.
KINDS: Final[dict[str, list[str]]] = {
    "ascii": [chr(code) for code in range(32, 127)],
    "accents": list("äöüßÄÖÜéèêëñçøåæœžščřłąęőşğıİ€’“”…–—"),
    # vowel signs stay with their letters: after a flag, Chromium's own caret goes to the wrong side of one
    "scripts": [*"ЖдяЩюαβγΩψאבגשعربيไทยกขค", "हि", "न्दी"],
    "cjk": [chr(code) for code in range(0x4E00, 0x9FA0, 41)] + list("かなカナ한국어。、「」"),
    "emoji": list("😀🎉🐍🚀❤☃✔🧪🥨🦊"),
    "emoji sequences": ["👩‍👩‍👧‍👦", "👩🏽‍🚀", "👍🏿", "🇩🇪", "🇯🇵", "❤️", "1️⃣", "🏳️‍🌈"],
    "combining marks": ["é", "ä̀", "n̈", "ṩ", "각", "क्षि"],
    "controls": ["\n", "\t"],
}
_WEIGHTS: Final = [50, 12, 8, 12, 5, 4, 5, 4]

_TK: Final = """
import pathlib, tkinter
root = tkinter.Tk()
root.title("tk text")
text = tkinter.Text(root)
text.pack()
text.focus_set()
def save(event):
    pathlib.Path("tk.txt").write_text(text.get("1.0", "end-1c"), encoding="utf-8", errors="surrogatepass")
    return "break"
text.bind("<Control-s>", save)
def clear(event):
    text.delete("1.0", "end")
    return "break"
text.bind("<Control-q>", clear)
root.mainloop()
"""
# a page in which the Tab key writes a tab, as in a program for writing
_PAGE: Final = """<textarea autofocus style="width: 600px; height: 500px"></textarea><script>
document.querySelector("textarea").addEventListener("keydown", e => {
    if (e.key !== "Tab") return;
    e.preventDefault();
    e.target.setRangeText("\\t", e.target.selectionStart, e.target.selectionEnd, "end");
});
</script>"""
# what would change a text by itself
_FEATHERPAD: Final = "[text]\nnoIndent=true\nappendEmptyLine=false\nnoAutoScroll=true\n"


def mixed_text(seed: int, length: int) -> str:
    """A text of `length` code points of all kinds; every fifth begins with a dash."""
    draw = random.Random(seed)
    text = "-" if seed % 5 == 0 else ""
    while len(text) < length:
        kind = draw.choices(list(KINDS), _WEIGHTS)[0]
        text += draw.choice(KINDS[kind])
    return text[:length]


class Holder:
    """A running program that holds text.

    Args:
        empty: Takes the text out.
        read: Gives the text.
    """

    def __init__(self, empty: Callable[[], None], read: Callable[[], str], save: Callable[[], None]) -> None:
        self.empty = empty
        self._read = read
        self._save = save

    def text(self, expected: str, timeout: float = 10_000) -> str:
        """What the program holds once it has read its input: the expected text, or what is there after a while."""
        self._save()
        wait_for(lambda: self._read() == expected, timeout)
        return self._read()


def _file_holder(desktop: Desktop, name: str, emptying: str) -> Holder:
    file = desktop.home / name

    def empty() -> None:
        desktop.keyboard.press(emptying)
        desktop.keyboard.press("ctrl+s")
        eventually(lambda: file.exists() and file.read_bytes() == b"", 20_000)

    return Holder(
        empty,
        lambda: file.read_bytes().decode("utf-8", "replace") if file.exists() else "",
        lambda: desktop.keyboard.press("ctrl+s"),
    )


def mousepad(desktop: Desktop) -> Holder:
    """GTK."""
    desktop.launch("mousepad", "pad.txt")
    return _file_holder(desktop, "pad.txt", "ctrl+a Delete")


def featherpad(desktop: Desktop) -> Holder:
    """Qt."""
    desktop.file(".config/featherpad/fp.conf").write(_FEATHERPAD)
    desktop.file("feather.txt").write("x")
    desktop.launch("featherpad", "feather.txt")
    return _file_holder(desktop, "feather.txt", "ctrl+a Delete")


def tk(desktop: Desktop) -> Holder:
    """Tk."""
    desktop.launch("/usr/bin/python3", "-c", _TK)
    return _file_holder(desktop, "tk.txt", "ctrl+q")


def xterm(desktop: Desktop) -> Holder:
    """A terminal; the text is what a program in it reads from its standard input."""
    desktop.launch("xterm", "-e", "sh", "-c", "stty -icanon -echo -ixon; touch ready; exec cat > term.txt")
    eventually((desktop.home / "ready").exists)
    file = desktop.home / "term.txt"
    start = 0

    def empty() -> None:
        nonlocal start
        start = file.stat().st_size

    return Holder(empty, lambda: file.read_bytes()[start:].decode("utf-8", "replace"), lambda: None)


def chromium(desktop: Desktop) -> Holder:
    """A text area of a page."""
    page: Any = desktop.browser()
    page.set_content(_PAGE)
    page.bring_to_front()
    desktop.pointer.click(200, 200)
    desktop.wait_until_still()
    area = page.locator("textarea")
    return Holder(
        lambda: page.evaluate("document.querySelector('textarea').value = ''"),
        lambda: str(area.input_value()),
        lambda: None,
    )


PROGRAMS: Final[dict[str, Callable[[Desktop], Holder]]] = {
    "xterm": xterm,
    "mousepad": mousepad,
    "featherpad": featherpad,
    "tk": tk,
    "chromium": chromium,
}


def first_difference(got: str, expected: str) -> str:
    """Where two texts part, in words, or ""."""
    if got == expected:
        return ""
    at = next((i for i, (a, b) in enumerate(zip(got, expected, strict=False)) if a != b), min(len(got), len(expected)))
    return f"at {at} of {len(expected)} ({len(got)} arrived): {got[at : at + 8]!r} for {expected[at : at + 8]!r}"
