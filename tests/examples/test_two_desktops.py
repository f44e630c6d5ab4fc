"""Two desktops in one test: what happens on one is not seen on the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pytest_cua import Cua, expect


def test_two_desktops_do_not_meet(cua: Cua, desktop_factory: Callable[..., Any]) -> None:
    other = desktop_factory()
    for desktop, word in [(cua.desktop, "first"), (other, "second")]:
        desktop.file("word.txt").write("")
        desktop.launch("mousepad", "word.txt")
        cua.do("Write the word {word} into the document and save it", params={"word": word}, desktop=desktop)
    expect(cua.desktop.file("word.txt")).to_have_text("first\n")
    expect(other.file("word.txt")).to_have_text("second\n")
