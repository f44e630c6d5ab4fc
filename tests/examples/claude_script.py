"""Plays Claude for the example tests: it finds what it clicks on the screenshot it was sent, by its text.

No key was at hand when these recordings were made; their headers say `model_endpoint: scripted`. With a key the
same tests record with the real model: `./dev demo --record`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from pytest_cua.testing import Box, ScriptedRequest, by_sentence, finish, say, turn, use

Play = Generator[Any, ScriptedRequest, None]


def click(box: Box, dx: int = 0, dy: int = 0) -> Any:
    """A click in the middle of what was found, or beside it."""
    x, y = box.center
    return use("left_click", coordinate=[round(x) + dx, round(y) + dy])


def right_of(box: Box, distance: int) -> Any:
    """A click to the right of a label, where its field is."""
    _, y = box.center
    return use("left_click", coordinate=[round(box.x + box.width) + distance, round(y)])


# ---------------------------------------------------------------- mousepad


def append_total(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    assert request.find_text("Item: 42 EUR")
    request = yield turn(
        say("The document is open. I go to its end, add the line and save."),
        use("key", text="ctrl+End"),
        use("type", text="Total: {total}\n"),
        use("key", text="ctrl+s"),
        use("screenshot"),
    )
    assert request.find_text("Total: 42 EUR")
    yield finish("The last line reads 'Total: {total}' and the title has no asterisk: it is saved.")


def write_greeting(request: ScriptedRequest) -> Play:
    yield use("screenshot")
    yield turn(use("type", text="Dear {name},\n"), use("key", text="ctrl+s"), use("screenshot"))
    yield finish("The greeting is in the document, and it is saved.")


def export_pdf(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    request = yield turn(click(request.find_text("File")), use("screenshot"))
    yield turn(
        finish(
            "The File menu of this editor has no 'Export as PDF'; the nearest entry is 'Print...'.", outcome="blocked"
        )
    )


# ---------------------------------------------------------------- invoice


def enter_customer(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    request = yield turn(right_of(request.find_text("Customer"), 60), use("type", text="{customer}"), use("screenshot"))
    yield finish("The customer field shows the name.")


def add_line(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    request = yield turn(
        click(request.find_text("Description", nth=0), dy=26),
        use("type", text="{description}\t{quantity}\t{price}\n"),
        use("screenshot"),
    )
    assert request.find_text("added")
    yield finish("The line is in the table and the status line says 'Line added'.")


def save_invoice(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    request = yield turn(click(request.find_text("Save")), use("screenshot"))
    assert request.find_text("Saved", bold=True)
    yield finish("The status line says 'Saved invoice 1'.")


# ---------------------------------------------------------------- shop


def order_mugs(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    mug = request.find_text("Coffee mug")
    row = (0, int(mug.y) - 20, request.size[0], int(mug.y + mug.height) + 20)
    request = yield turn(
        say("I put the mug into the cart."),
        click(request.find_text("Add to cart", within=row)),
        use("screenshot"),
    )
    request = yield turn(click(request.find_text("Go to checkout")), use("screenshot"))
    request = yield turn(
        right_of(request.find_text("Name"), 100),
        use("type", text="Ada\t"),
        use("key", text="ctrl+a"),
        use("type", text="3"),
        use("screenshot"),
    )
    request = yield turn(click(request.find_text("Place order")), use("screenshot"))
    assert request.find_text("placed")
    yield finish("The page says 'Order 1 placed'.")


def fill_cart(request: ScriptedRequest) -> Play:
    request = yield use("screenshot")
    lamp = request.find_text("Desk lamp")
    row = (0, int(lamp.y) - 20, request.size[0], int(lamp.y + lamp.height) + 20)
    request = yield turn(click(request.find_text("Add to cart", within=row)), use("screenshot"))
    yield finish("The cart shows one desk lamp.")


# ---------------------------------------------------------------- two desktops


def write_word(request: ScriptedRequest) -> Play:
    yield use("screenshot")
    yield turn(use("type", text="{word}\n"), use("key", text="ctrl+s"), use("screenshot"))
    yield finish("The word is in the document, and it is saved.")


def script() -> Any:
    """What is played for which sentence."""
    return by_sentence(
        {
            "Add the line 'Total": append_total,
            "Write 'Dear": write_greeting,
            "Export the document": export_pdf,
            "Enter the customer": enter_customer,
            "Add the line .* x ": add_line,
            "Save the invoice": save_invoice,
            "Order three coffee mugs": order_mugs,
            "Put one desk lamp": fill_cart,
            "Write the word": write_word,
        }
    )
