"""A text editor that nobody here wrote: what a first test looks like."""

from __future__ import annotations

import pytest

from pytest_cua import Blocked, Cua, expect


def test_invoice_total(cua: Cua) -> None:
    cua.desktop.file("invoice.txt").write("Item: 42 EUR\n")
    cua.desktop.launch("mousepad", "invoice.txt")
    cua.do("Add the line 'Total: {total}' at the end of the document and save it", params={"total": "42 EUR"})
    expect(cua.desktop.file("invoice.txt")).to_have_text("Item: 42 EUR\nTotal: 42 EUR\n")
    expect(cua.desktop).to_have_screenshot("invoice-saved")


@pytest.mark.parametrize("name", ["Ada", "José"])
def test_greeting(cua: Cua, name: str) -> None:
    cua.desktop.file("letter.txt").write("")
    cua.desktop.launch("mousepad", "letter.txt")
    cua.do("Write 'Dear {name},' into the empty document and save it", params={"name": name})
    expect(cua.desktop.file("letter.txt")).to_have_text(f"Dear {name},\n")


def test_what_cannot_be_done_is_blocked(cua: Cua) -> None:
    cua.desktop.file("letter.txt").write("Dear Ada,\n")
    cua.desktop.launch("mousepad", "letter.txt")
    with pytest.raises(Blocked, match="no 'Export as PDF'"):
        cua.do("Export the document as PDF, by the entry 'Export as PDF' of the File menu")
    assert cua.desktop.file("letter.txt").read_text() == "Dear Ada,\n"
    expect(cua.desktop.file("letter.pdf")).not_to_exist()
