"""The two programs that the other tests run against: the honest ones are honest, each lie really lies.

The shop is asked over HTTP, as a browser would; of the invoice program the data is tested here, its window in the
suites that have a desktop.
"""

from __future__ import annotations

import contextlib
import http.cookiejar
import importlib.util
import json
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

APPS = Path(__file__).parents[2] / "fixtures" / "apps"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"app_{name}", APPS / f"{name}.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up by name
    spec.loader.exec_module(module)
    return module


invoice, shop = load("invoice"), load("shop")


def rows(db: Path, query: str) -> list[tuple[Any, ...]]:
    # a connection of its own that may only read, as another process would have
    with contextlib.closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        return connection.execute(query).fetchall()


class Browser:
    """What a person does in the shop, and what they see."""

    def __init__(self, port: int) -> None:
        self.base = f"http://127.0.0.1:{port}"
        cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
        # no proxy of the environment: the shop is on this machine
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), cookies)

    def get(self, path: str) -> str:
        with self.opener.open(self.base + path, timeout=20) as reply:
            return reply.read().decode()

    def post(self, path: str, **fields: str) -> str:
        body = urllib.parse.urlencode({name.replace("_", "-"): value for name, value in fields.items()}).encode()
        with self.opener.open(self.base + path, body, timeout=20) as reply:
            return reply.read().decode()

    def api(self, path: str) -> Any:
        return json.loads(self.get(path))

    def order_two_lamps(self) -> str:
        self.post("/cart/add", product="mug")
        self.post("/cart/add", product="lamp")
        return self.post("/checkout", name="Ada", quantity_mug="1", quantity_lamp="2")


class RunningShop:
    def __init__(self, folder: Path, *arguments: str) -> None:
        self.db = folder / "shop.db"
        port_file = folder / "port"
        command = [sys.executable, str(APPS / "shop.py"), "--db", str(self.db), "--port-file", str(port_file)]
        self.process = subprocess.Popen([*command, *arguments], stdout=subprocess.PIPE, text=True)
        self.address = self.process.stdout.readline().strip()
        deadline = time.monotonic() + 20
        while not port_file.exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        self.port = int(port_file.read_text())
        self.browser = Browser(self.port)

    def end(self) -> int:
        self.process.terminate()
        code = self.process.wait(20)
        self.process.stdout.close()
        return code


@pytest.fixture
def start_shop(tmp_path: Path) -> Iterator[Any]:
    shops: list[RunningShop] = []

    def start(*arguments: str) -> RunningShop:
        folder = tmp_path / str(len(shops))
        folder.mkdir()
        shops.append(RunningShop(folder, *arguments))
        return shops[-1]

    yield start
    for running in shops:
        running.end()


LAMPS = [
    {"product": "mug", "quantity": 1, "unit_cents": 1200},
    {"product": "lamp", "quantity": 2, "unit_cents": 3990},
]


class TestHonestShop:
    def test_an_order_is_on_the_page_in_the_database_and_in_the_rest_interface(self, start_shop):
        running = start_shop()
        seen = running.browser.order_two_lamps()
        assert "Order 1 placed" in seen
        assert "Total: 91.80 EUR" in seen
        assert rows(running.db, "SELECT * FROM orders") == [(1, "Ada", "2026-01-15", 9180)]
        assert rows(running.db, "SELECT * FROM order_lines") == [(1, "mug", 1, 1200), (1, "lamp", 2, 3990)]
        expected = {"id": 1, "name": "Ada", "date": "2026-01-15", "total_cents": 9180, "lines": LAMPS}
        assert running.browser.api("/api/orders/1") == expected
        assert running.browser.api("/api/orders") == [expected]

    def test_pages_lead_from_the_products_to_the_checkout(self, start_shop):
        browser = start_shop().browser
        assert browser.get("/").count("Add to cart") == 4
        cart = browser.post("/cart/add", product="notebook")
        assert "Total: 4.50 EUR" in cart
        assert "Total: 13.50 EUR" in browser.post("/cart", quantity_notebook="3")
        checkout = browser.get("/checkout")
        assert "Place order" in checkout
        assert 'name="quantity-notebook" value="3"' in checkout
        assert "Your cart is empty" in browser.post("/cart", quantity_notebook="0")

    def test_nothing_comes_from_elsewhere(self, start_shop):
        browser = start_shop().browser
        for path in ("/", "/cart", "/checkout"):
            page = browser.get(path)
            assert not re.search(r"https?:|//\w|<script|<img|@import|url\(", page)

    def test_what_was_typed_is_escaped(self, start_shop):
        browser = start_shop().browser
        browser.post("/cart/add", product="mug")
        page = browser.post("/checkout", name="<b>Ada</b>", quantity_mug="1")
        assert "&lt;b&gt;Ada" in page
        assert "<b>Ada" not in page

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            ({"name": " ", "quantity_mug": "1"}, "Enter your name."),
            ({"name": "Ada", "quantity_mug": "two"}, "The quantity must be a whole number from 0 to 999."),
            ({"name": "Ada", "quantity_mug": "-1"}, "The quantity must be a whole number from 0 to 999."),
            ({"name": "Ada", "quantity_mug": "0"}, "Your cart is empty."),
        ],
    )
    def test_what_cannot_be_ordered_is_refused_with_a_reason(self, start_shop, fields, says):
        running = start_shop()
        running.browser.post("/cart/add", product="mug")
        with pytest.raises(urllib.error.HTTPError) as refused:
            running.browser.post("/checkout", **fields)
        with refused.value as reply:
            assert reply.code == 422
            assert says in reply.read().decode()
        assert rows(running.db, "SELECT * FROM orders") == []

    @pytest.mark.parametrize("path", ["/nothing", "/orders/7", "/orders/x", "/api/orders/7", "/api/orders/", "/api/x"])
    def test_what_is_not_there_is_404(self, start_shop, path):
        with pytest.raises(urllib.error.HTTPError) as missing:
            start_shop().browser.get(path)
        with missing.value as reply:
            assert reply.code == 404

    def test_two_browsers_have_two_carts(self, start_shop):
        running = start_shop()
        running.browser.post("/cart/add", product="mug")
        assert "Your cart is empty" in Browser(running.port).get("/cart")

    def test_orders_at_the_same_time_get_numbers_of_their_own(self, tmp_path):
        data = shop.Shop(tmp_path / "shop.db")
        placed: list[int] = []
        work = [threading.Thread(target=lambda: placed.append(data.place("Ada", {"mug": 1}).id)) for _ in range(12)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        assert sorted(placed) == list(range(1, 13))
        assert len(data.orders()) == 12

    def test_it_says_where_it_listens_and_ends_cleanly(self, start_shop):
        running = start_shop()
        assert running.address == f"http://127.0.0.1:{running.port}/"
        assert running.browser.api("/healthz") == {"ok": True}
        assert [product["id"] for product in running.browser.api("/api/products")] == [
            "mug",
            "notebook",
            "lamp",
            "pens",
        ]
        started = time.monotonic()
        assert running.end() == 0
        assert time.monotonic() - started < 10

    def test_orders_outlive_the_shop(self, start_shop, tmp_path):
        running = start_shop()
        running.browser.order_two_lamps()
        running.end()
        again = start_shop("--db", str(running.db))
        assert "Order 1 placed" in again.browser.get("/orders/1")
        assert "Order 2 placed" in again.browser.order_two_lamps()


class TestLyingShop:
    """The page of each lie is the honest page, or the button or label in it has changed; the data tells."""

    @pytest.fixture
    def honest_page(self, start_shop) -> str:
        return start_shop().browser.order_two_lamps()

    def test_order(self, start_shop, honest_page):
        running = start_shop("--break", "order")
        assert running.browser.order_two_lamps() == honest_page
        assert running.browser.api("/api/orders") == []
        assert rows(running.db, "SELECT * FROM orders") == []
        assert "Order 2 placed" in running.browser.order_two_lamps()

    def test_quantity(self, start_shop, honest_page):
        running = start_shop("--break", "quantity")
        assert running.browser.order_two_lamps() == honest_page
        assert rows(running.db, "SELECT product, quantity FROM order_lines") == [("mug", 1), ("lamp", 1)]
        assert running.browser.api("/api/orders/1")["total_cents"] == 5190

    def test_total(self, start_shop):
        running = start_shop("--break", "total")
        running.browser.post("/cart/add", product="mug")
        assert "Total: 24.00 EUR" in running.browser.get("/cart")
        running.browser.post("/checkout", name="Ada", quantity_mug="1")
        order = running.browser.api("/api/orders/1")
        assert order["total_cents"] == 2400
        assert order["lines"] == [{"product": "mug", "quantity": 1, "unit_cents": 1200}]

    def test_button(self, start_shop):
        browser = start_shop("--break", "button").browser
        browser.post("/cart/add", product="mug")
        assert "Place order" not in browser.get("/checkout")

    def test_label(self, start_shop, honest_page):
        running = start_shop("--break", "label")
        assert running.browser.order_two_lamps() == honest_page.replace("Total", "Subtotal")
        assert running.browser.api("/api/orders/1")["total_cents"] == 9180


class TestVariedShop:
    def test_list(self, start_shop):
        running = start_shop("--vary", "list")
        assert running.browser.get("/").count("Add to cart") == 12
        running.browser.order_two_lamps()
        assert running.browser.api("/api/orders/1")["lines"] == LAMPS

    def test_date(self, start_shop):
        running = start_shop("--vary", "date")
        assert "2026-09-30" in running.browser.get("/")
        running.browser.order_two_lamps()
        assert rows(running.db, "SELECT name, date, total_cents FROM orders") == [("Ada", "2026-09-30", 9180)]

    def test_slow(self, start_shop):
        running = start_shop("--vary", "slow")
        started = time.monotonic()
        running.browser.api("/healthz")
        assert time.monotonic() - started < 2.5
        running.browser.get("/")
        assert time.monotonic() - started > 2.9


DESK = (invoice.Line("Desk lamp", 2, 1950), invoice.Line("Mug", 3, 400))
ADA = invoice.Invoice("Ada Ltd", "2026-01-15", DESK)


class TestInvoices:
    @pytest.fixture
    def make(self, tmp_path: Path):
        return lambda lie=None: invoice.Invoices(tmp_path / "i.db", export_to=tmp_path, lie=lie)

    def test_a_saved_invoice_is_in_the_database_and_exported(self, make, tmp_path):
        assert make().save(ADA) == 1
        assert rows(tmp_path / "i.db", "SELECT * FROM invoices") == [(1, "Ada Ltd", "2026-01-15", 5100)]
        assert rows(tmp_path / "i.db", "SELECT * FROM lines") == [(1, "Desk lamp", 2, 1950), (1, "Mug", 3, 400)]
        assert (tmp_path / "invoice-1.txt").read_text() == (
            "Invoice 1\nCustomer: Ada Ltd\nDate: 2026-01-15\n\n"
            "2 x Desk lamp at 19.50 = 39.00\n3 x Mug at 4.00 = 12.00\n\nTotal: 51.00 EUR\n"
        )

    def test_saving_again_replaces(self, make, tmp_path):
        invoices = make()
        number = invoices.save(ADA)
        assert invoices.save(invoice.Invoice("Bob", ADA.date, DESK[:1]), number) == 1
        assert rows(tmp_path / "i.db", "SELECT customer, total_cents FROM invoices") == [("Bob", 3900)]
        assert rows(tmp_path / "i.db", "SELECT description FROM lines") == [("Desk lamp",)]
        assert invoices.save(ADA) == 2

    def test_nothing_is_left_beside_the_database(self, make, tmp_path):
        make().save(ADA)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["i.db", "invoice-1.txt"]

    @pytest.mark.parametrize(
        ("customer", "lines", "says"), [(" ", DESK, "Enter a customer."), ("Ada", (), "Add at least one line.")]
    )
    def test_what_cannot_be_saved_is_refused(self, make, customer, lines, says):
        invoices = make()
        with pytest.raises(invoice.NotValid, match=says):
            invoices.save(invoice.Invoice(customer, ADA.date, lines))
        assert invoices.summaries() == []

    def test_lie_save(self, make, tmp_path):
        invoices = make("save")
        assert [invoices.save(ADA), invoices.save(ADA, 1), invoices.save(ADA)] == [1, 1, 2]
        assert invoices.total_cents(DESK) == 5100
        assert rows(tmp_path / "i.db", "SELECT * FROM invoices") == []
        assert not list(tmp_path.glob("*.txt"))

    def test_lie_total(self, make, tmp_path):
        invoices = make("total")
        invoices.save(ADA)
        assert invoices.total_cents(DESK) == 3900
        assert rows(tmp_path / "i.db", "SELECT total_cents FROM invoices") == [(3900,)]
        assert len(rows(tmp_path / "i.db", "SELECT * FROM lines")) == 2

    def test_lie_field(self, make, tmp_path):
        make("field").save(ADA)
        assert rows(tmp_path / "i.db", "SELECT customer, total_cents FROM invoices") == [("", 5100)]

    @pytest.mark.parametrize("lie", ["button", "label"])
    def test_lies_that_are_only_on_the_screen_leave_the_data_alone(self, make, lie):
        invoices = make(lie)
        invoices.save(ADA)
        assert invoices.summaries() == [invoice.Summary(1, "Ada Ltd", "2026-01-15", 5100)]

    def test_a_longer_list_leaves_the_number_of_a_new_invoice_alone(self, make):
        invoices = make()
        invoices.add_old_ones()
        invoices.add_old_ones()
        assert [summary.id for summary in invoices.summaries()] == list(range(901, 909))
        assert invoices.save(ADA) == 1

    @pytest.mark.parametrize(
        ("price", "cents"), [("19.50", 1950), ("19,5", 1950), ("0", 0), ("1e1", 1000), (" 4 ", 400), ("0.29", 29)]
    )
    def test_prices(self, price, cents):
        assert invoice.parse_line("Mug", "1", price) == invoice.Line("Mug", 1, cents)

    @pytest.mark.parametrize(
        ("fields", "says"),
        [
            (("", "1", "1"), "description"),
            *((("Mug", quantity, "1"), "quantity") for quantity in ("", "0", "-1", "1.5", "two")),
            *((("Mug", "1", price), "unit price") for price in ("", "-1", "1.005", "NaN", "Infinity", "x")),
        ],
    )
    def test_a_line_that_cannot_be_added_names_the_field(self, fields, says):
        with pytest.raises(invoice.NotValid, match=says):
            invoice.parse_line(*fields)


@pytest.mark.parametrize("name", ["invoice", "shop"])
class TestCommandLine:
    def run(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, str(APPS / f"{name}.py"), *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)

    def test_names_are_listed_one_a_line(self, name):
        module = {"invoice": invoice, "shop": shop}[name]
        assert self.run(name, "--list-breaks").stdout.split("\n") == [*module.BREAKS, ""]
        assert self.run(name, "--list-varies").stdout.split("\n") == [*module.VARIES, ""]

    @pytest.mark.parametrize("option", ["--break", "--vary"])
    def test_an_unknown_name_lists_the_known_ones(self, name, option):
        module = {"invoice": invoice, "shop": shop}[name]
        result = self.run(name, option, "nonsense")
        assert result.returncode == 2
        assert all(known in result.stderr for known in (module.BREAKS if option == "--break" else module.VARIES))

    def test_a_wrong_date_is_refused(self, name):
        result = self.run(name, "--date", "15.1.2026")
        assert result.returncode == 2
        assert "YYYY-MM-DD" in result.stderr


def test_a_port_that_is_taken_is_one_sentence(start_shop, tmp_path):
    taken = start_shop().port
    command = [sys.executable, str(APPS / "shop.py"), "--db", str(tmp_path / "x.db"), "--port", str(taken)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"shop.py: cannot listen on port {taken}:")
    assert "Traceback" not in result.stderr


def test_an_interrupt_ends_the_shop_as_cleanly(start_shop):
    running = start_shop()
    running.process.send_signal(signal.SIGINT)
    assert running.process.wait(20) == 0
