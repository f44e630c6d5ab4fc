"""An invoice program of our own, tested by what it stored, what it wrote and what it shows."""

from __future__ import annotations

import pytest

from pytest_cua import Cua, expect

DATE = (745, 112, 125, 32)  # the invoice's date and the older invoices are no business of these tests
LIST = (140, 466, 722, 108)
pytestmark = pytest.mark.cua(exclude=[DATE, LIST])

ADD = "Add the line {quantity} x {description} at {price}"


def add(cua: Cua, description: str, quantity: int, price: str) -> None:
    cua.do(ADD, params={"description": description, "quantity": quantity, "price": price})


def test_saved_invoice_is_in_the_database(invoice: Cua) -> None:
    invoice.do("Enter the customer {customer}", params={"customer": "Acme Ltd"})
    add(invoice, "Paper", 2, "4.50")
    invoice.do("Save the invoice")
    database = expect(invoice.desktop.file("invoices.db"))
    database.to_have_rows("SELECT customer, total_cents FROM invoices WHERE id < 900", [("Acme Ltd", 900)])
    database.to_have_rows(
        "SELECT description, quantity, unit_cents FROM lines WHERE invoice_id < 900", [("Paper", 2, 450)]
    )
    expect(invoice.desktop.file("invoice-1.txt")).to_contain_text("Total: 9.00 EUR")


def test_total_of_several_lines(invoice: Cua) -> None:
    for description, quantity, price in [("Paper", 2, "4.50"), ("Ink", 1, "19.90"), ("Folders", 10, "1.20")]:
        add(invoice, description, quantity, price)
    expect(invoice.desktop).to_have_screenshot("three-lines", exclude=[DATE, LIST])
    expect(invoice.desktop).to_have_screenshot(
        "three-lines", exclude=[DATE, LIST], tolerance="perceptual", max_distance=4
    )
