"""A browser on the desktop: seen on the screen, looked into with Playwright."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from desktop_support import eventually

from pytest_cua.desktop.desktop import Desktop, DesktopConfig

PAGE = b"""<!doctype html><meta charset="utf-8"><title>shop</title>
<button id="buy" style="position: absolute; left: 300px; top: 200px; width: 120px; height: 40px"
  onclick="document.title = 'bought ' + event.clientX + ',' + event.clientY">Buy</button>
<input id="name" style="position: absolute; left: 300px; top: 300px">
<div style="height: 5000px"></div>"""


@pytest.fixture
def url() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.end_headers()
            self.wfile.write(PAGE)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()
        thread.join()


def test_a_page_is_seen_by_playwright_and_clicked_by_the_pointer(url: str) -> None:
    with Desktop.start(DesktopConfig(size=(1024, 768))) as desktop:
        page = desktop.browser(url)
        assert page.title() == "shop"
        assert page.locator("#buy").inner_text() == "Buy"
        assert page.evaluate("[innerWidth, innerHeight, screenX, screenY]") == [1024, 768, 0, 0]
        desktop.wait_until_still()
        desktop.pointer.click(360, 220)
        page.wait_for_function("document.title == 'bought 360,220'")
        desktop.pointer.click(320, 310)
        desktop.keyboard.type("Zoë € 漢字 😀")
        page.wait_for_function("document.getElementById('name').value.length >= 11")
        assert page.locator("#name").input_value() == "Zoë € 漢字 😀"
        desktop.pointer.scroll("down", 5, 500, 500)
        page.wait_for_function("scrollY > 0")
        assert [w.focused for w in desktop.windows()] == [True]


def test_two_desktops_have_each_their_browser(url: str) -> None:
    size = (800, 600)
    with Desktop.start(DesktopConfig(size=size)) as first, Desktop.start(DesktopConfig(size=size)) as second:
        one, two = first.browser(url), second.browser(url)
        first.wait_until_still()
        first.pointer.click(360, 220)
        one.wait_for_function("document.title != 'shop'")
        assert two.title() == "shop"
        first.close()
        assert two.title() == "shop"  # closing one does not end the other's connection
        eventually(lambda: two.evaluate("document.readyState") == "complete")
