"""A web shop in Chromium, tested from three sides: its REST interface, its page, its screen."""

from __future__ import annotations

import json
from urllib.request import urlopen

from pytest_cua import Cua, expect

ORDER = "Order three coffee mugs in the name of Ada, and place the order"


def test_order_arrives_at_the_api(cua: Cua, shop: str) -> None:
    cua.desktop.browser(shop)
    cua.do(ORDER)
    with urlopen(f"{shop}/api/orders") as response:
        orders = json.load(response)
    assert [(o["name"], o["total_cents"], o["lines"][0]["quantity"]) for o in orders] == [("Ada", 3600, 3)]


def test_order_is_confirmed_on_the_page(cua: Cua, shop: str) -> None:
    page = cua.desktop.browser(shop)
    cua.do(ORDER)
    expect(page.get_by_text("Order 1 placed")).to_be_visible()
    expect(page).to_have_title("Thank you - Corner Shop")
    expect(cua.desktop.file("shop.db")).to_have_rows("SELECT name, total_cents FROM orders", [("Ada", 3600)])


def test_cart(cua: Cua, shop: str) -> None:
    cua.desktop.browser(shop)
    cua.do("Put one desk lamp into the cart")
    expect(cua.desktop).to_have_screenshot("cart")
