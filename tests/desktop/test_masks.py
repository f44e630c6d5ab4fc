"""What changed on the screen while a secret was typed is in no picture, wherever its window goes."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
from desktop_support import events, eventually, launch_probe
from PIL import Image

from pytest_cua import Secret, SetupError, secrets
from pytest_cua.desktop.desktop import Desktop
from pytest_cua.desktop.masks import GREY, Box, changed, masks_of, with_masks

PASSWORD = "Wm4-hunter2-iii"
FORM = """
import tkinter

root = tkinter.Tk()
root.title("Log in")
root.geometry("500x200+100+100")
user = tkinter.Entry(root, width=50, insertofftime=0)
user.place(x=40, y=30)
dots = tkinter.Entry(root, width=50, insertofftime=0, show="*")
dots.place(x=40, y=80)
said = tkinter.Label(root)
said.place(x=40, y=130)
root.bind("<F2>", lambda e: dots.config(show=""))
root.bind("<F3>", lambda e: root.geometry("+420+330"))
root.bind("<F4>", lambda e: root.iconify())
root.bind("<F5>", lambda e: root.deiconify())
root.bind("<F6>", lambda e: root.title("for " + dots.get()))
root.bind("<Return>", lambda e: said.config(text="Welcome"))
root.bind("<Escape>", lambda e: root.destroy())
user.focus_force()
root.mainloop()
"""


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    made = dict(secrets._made)
    yield
    secrets._made.clear()
    secrets._made.update(made)


@pytest.fixture
def form(desktop: Desktop) -> Desktop:
    """A desktop with the form; the keyboard is in the field of the user, and the screen is still."""
    desktop.file("form.py").write(FORM)
    desktop.launch("/usr/bin/python3", "form.py")
    desktop.wait_until_still(quiet=300)
    return desktop


def raw(desktop: Desktop) -> Image.Image:
    """The screen as it is."""
    desktop.wait_until_still(quiet=200)
    return desktop._screen.image()


def part(image: Image.Image, box: Box) -> np.ndarray:
    x, y, width, height = box
    return np.asarray(image)[y : y + height, x : x + width]


def is_grey(image: Image.Image, box: Box) -> bool:
    return bool((part(image, box) == GREY).all())


def field(desktop: Desktop, y: int) -> Box:
    """Where the beginning of a field is, on the screen; its window need not be where it was."""
    left, top, _, _ = next(window for window in desktop.read_windows() if "L" in window.title).box
    return left + 44, top + y + 6, 90, 10


def type_into_dots(desktop: Desktop, text: str | Secret) -> None:
    desktop.keyboard.press("Tab")
    desktop.keyboard.type(text)


def outside(image: Image.Image, boxes: list[Box]) -> np.ndarray:
    pixels = np.array(image)
    for x, y, width, height in boxes:
        pixels[y : y + height, x : x + width] = 0
    return pixels


def test_what_is_typed_is_grey_in_every_picture_and_nothing_else_is(form: Desktop) -> None:
    before = raw(form)
    form.keyboard.type(Secret(PASSWORD))
    shown = raw(form)
    letters = field(form, 30)
    assert (part(shown, letters) != part(before, letters)).any()  # they are there to be seen
    for image in (form.capture(), form.screenshot()):
        assert is_grey(image, letters)
        boxes = masks_of(image)
        assert 1 <= len(boxes) <= 3
        assert (outside(image, boxes) == outside(shown, boxes)).all()
        assert sum(width * height for _, _, width, height in boxes) < 500 * 40


def test_plain_text_is_not_hidden(form: Desktop) -> None:
    form.keyboard.type("anna@example.org")
    shown = raw(form)
    assert masks_of(form.capture()) == []
    assert (np.asarray(form.capture()) == np.asarray(shown)).all()


def test_the_value_of_a_variable_is_a_secret_too(form: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "token-of-the-shop")
    form.keyboard.type("token-of-the-shop")
    assert is_grey(form.capture(), field(form, 30))


def test_only_the_secret_in_a_text_is_hidden(form: Desktop) -> None:
    Secret(PASSWORD)
    before = form.capture()
    form.keyboard.type(f"anna\t{PASSWORD}\n")
    after = raw(form)
    image = form.capture()
    assert is_grey(image, field(form, 80))
    for y in (30, 126):  # the user, and what the form says once Return was pressed
        assert (part(image, field(form, y)) != part(before, field(form, y))).any(), y
        assert (part(image, field(form, y)) == part(after, field(form, y))).all(), y


def test_letters_that_a_field_shows_later_are_hidden_too(form: Desktop) -> None:
    type_into_dots(form, Secret(PASSWORD))
    dots, hidden = raw(form), form.capture()
    form.keyboard.press("F2")
    letters = raw(form)
    assert (np.asarray(dots) != np.asarray(letters)).any()
    assert (np.asarray(hidden) == np.asarray(form.capture())).all()


def test_a_mask_moves_with_its_window_and_leaves_nothing_behind(form: Desktop) -> None:
    type_into_dots(form, Secret(PASSWORD))
    form.keyboard.press("F2")
    first = field(form, 80)
    form.keyboard.press("F3")
    eventually(lambda: field(form, 80)[0] > first[0] + 200)
    second = field(form, 80)
    assert is_grey(form.capture(), second)
    form.wait_until_still(quiet=300)
    image = form.capture()
    assert is_grey(image, second)
    assert not is_grey(image, first)
    assert (outside(image, masks_of(image)) == outside(raw(form), masks_of(image))).all()


def test_where_a_masked_window_has_been_is_hidden_until_the_screen_was_still(form: Desktop) -> None:
    type_into_dots(form, Secret(PASSWORD))
    first = field(form, 80)
    form.keyboard.press("F3")
    eventually(lambda: field(form, 80)[0] > first[0] + 200)
    assert is_grey(form.capture(), first)  # nobody has waited yet
    form.wait_until_still(quiet=300)
    assert not is_grey(form.capture(), first)


def test_a_mask_goes_with_its_window(form: Desktop) -> None:
    type_into_dots(form, Secret(PASSWORD))
    assert masks_of(form.capture())
    form.keyboard.press("Escape")
    eventually(lambda: not form.read_windows())
    form.capture()
    form.wait_until_still(quiet=300)
    assert masks_of(form.capture()) == []
    form.launch("/usr/bin/python3", "form.py")  # the server may give the same ids again
    assert masks_of(form.capture()) == []


def test_a_minimized_window_is_not_painted_and_hidden_again_when_it_is_back(form: Desktop) -> None:
    window = form.read_windows()[0]
    type_into_dots(form, Secret(PASSWORD))
    form.keyboard.press("F4")
    eventually(lambda: form.read_windows()[0].minimized)
    form.capture()
    form.wait_until_still(quiet=300)
    assert not is_grey(form.capture(), field(form, 80))
    form._windows.activate(window.id)
    eventually(lambda: not form.read_windows()[0].minimized)
    assert is_grey(form.capture(), field(form, 80))


def test_a_thread_of_the_test_gets_no_picture_of_it_either(form: Desktop) -> None:
    before = raw(form)
    pictures: list[Image.Image] = []
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            pictures.append(form.capture())

    thread = threading.Thread(target=look)
    thread.start()
    try:
        eventually(lambda: pictures)
        form.keyboard.type(Secret(PASSWORD))
        count = len(pictures)
        eventually(lambda: len(pictures) > count)
    finally:
        over.set()
        thread.join()
    letters = field(form, 30)
    assert any(is_grey(image, letters) for image in pictures)
    for image in pictures:
        assert is_grey(image, letters) or (part(image, letters) == part(before, letters)).all()


def test_what_shows_nothing_gets_no_mask(desktop: Desktop) -> None:
    launch_probe(desktop)
    desktop.keyboard.type(Secret(PASSWORD))
    assert eventually(lambda: events(desktop, "key"))
    assert masks_of(desktop.capture()) == []


def test_a_secret_that_is_not_set_here_types_nothing(form: Desktop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SHOP_PASSWORD", raising=False)
    before = raw(form)
    with pytest.raises(SetupError, match="SHOP_PASSWORD"):
        form.keyboard.type(Secret.from_env("SHOP_PASSWORD"))
    assert (np.asarray(raw(form)) == np.asarray(before)).all()


def test_a_title_with_a_secret_is_hidden_in_its_frame_and_in_the_panel(form: Desktop) -> None:
    type_into_dots(form, Secret(PASSWORD))
    form.keyboard.press("F6")
    eventually(lambda: PASSWORD in form.read_windows()[0].title)
    shown, image = raw(form), form.capture()
    left, top, width, _ = form.read_windows()[0].box
    bar, panel = (left, top - 15, width, 10), (0, form.size[1] - 20, form.size[0], 15)
    for box in (bar, panel):
        assert len(np.unique(part(shown, box).reshape(-1, 3), axis=0)) > 5  # letters
        assert is_grey(image, box)
    form.keyboard.press("Escape")
    eventually(lambda: not form.read_windows())
    form.capture()
    form.wait_until_still(quiet=300)
    assert masks_of(form.capture()) == []


PAGE = (
    "data:text/html,<title>Shop</title><body><input id=p type=password autofocus style='width:300px'>"
    "<p id=said>Log in</p><script>onkeydown = e => { if (e.key == 'F2') p.type = 'text';"
    " if (e.key == 'Enter') said.textContent = 'Welcome' }</script>"
)


def test_in_a_browser(desktop: Desktop) -> None:
    page = desktop.browser(PAGE)
    spot = page.locator("#p").bounding_box()
    assert spot is not None
    letters = round(spot["x"]) + 6, round(spot["y"]) + 6, 60, 8
    desktop.keyboard.type(Secret(PASSWORD))
    assert page.locator("#p").input_value() == PASSWORD
    assert not is_grey(raw(desktop), letters)
    dots = desktop.capture()
    assert is_grey(dots, letters)
    desktop.keyboard.press("F2")
    assert (np.asarray(raw(desktop)) != np.asarray(dots)).any()
    assert is_grey(desktop.capture(), letters)
    desktop.keyboard.press("Return")
    page.locator("#said", has_text="Welcome").wait_for()
    shown, image = raw(desktop), desktop.capture()
    said = page.locator("#said").bounding_box()
    assert said is not None
    box = round(said["x"]), round(said["y"]), 60, round(said["height"])
    assert (part(image, box) == part(shown, box)).all()


# ------------------------------------------------------------------ without a desktop


def test_a_box_grows_over_plain_ground_up_to_what_stands_beside_it() -> None:
    before = Image.new("RGB", (300, 100), "white")
    before.paste("black", (40, 30, 42, 70))  # the left edge of a field
    before.paste("black", (200, 30, 202, 70))  # a button
    after = before.copy()
    after.paste("blue", (44, 46, 104, 52))  # dots
    inside = (10, 10, 280, 80)
    assert changed(before, after, inside=inside) == [(40, 34, 142, 30)]  # both with 2 pixels more on each side
    assert changed(before, after, inside=None) == [(42, 44, 64, 10)]
    assert changed(before, before, inside=inside) == []


def test_a_picture_says_where_it_is_painted_and_its_file_does_not(tmp_path: object) -> None:
    image = with_masks(Image.new("RGB", (10, 10)), [[1, 2, 3, 4]])
    assert masks_of(image) == [(1, 2, 3, 4)]
    path = f"{tmp_path}/a.png"
    image.save(path)
    assert masks_of(Image.open(path)) == []
