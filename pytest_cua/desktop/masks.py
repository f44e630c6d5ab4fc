"""What changed on the screen while a secret was typed is painted over, in every picture that is taken afterwards.

A mask belongs to the window that had the keyboard: it moves with it, and goes when it closes. Where a masked window has
just been, the screen stays painted over until it has been still: programs may not have drawn anew yet. A title that
holds a secret is painted over as well, in its frame and in the panel.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from PIL import Image

from pytest_cua import secrets
from pytest_cua.desktop.windows import Mark, Window, WindowReader

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Pixels: TypeAlias = npt.NDArray[np.uint8]  # (height, width, 3), RGB

Box: TypeAlias = tuple[int, int, int, int]  # x, y, width, height in pixels

GREY: Final = (128, 128, 128)
_INFO: Final = "pytest_cua_masks"  # in the `info` of a picture, which Pillow writes into no file
_QUIET: Final = 200.0  # ms without a changed pixel, before and after a secret is typed
_LONG_QUIET: Final = 1_000.0  # ms to wait where nothing has changed yet
_ROOM: Final = 2  # pixels around what changed
_FRAME: Final = 40  # pixels around a window in which what changes is its frame, and moves with it
_HIGHER: Final = 10  # pixels that a letter may be higher than the dot that stands for it
_WIDER: Final = 16  # pixels, beside its own width, that a revealed text may be wider than its dots


def masks_of(image: Image.Image) -> list[Box]:
    """The boxes `(x, y, width, height)` that are painted over in a picture of a desktop, in pixels."""
    return list(image.info.get(_INFO, ()))


def with_masks(image: Image.Image, boxes: Iterable[Iterable[int]]) -> Image.Image:
    """A copy of the picture that says where it is painted over: for one that comes from a file, which does not."""
    noted = image.copy()
    noted.info[_INFO] = tuple((x, y, width, height) for x, y, width, height in boxes)
    return noted


@dataclass
class _Mask:
    """A box that is painted over.

    Attributes:
        box: Where it was made.
        window: The window it belongs to, as it was then; None where no window had the keyboard: it stays for good.
        mark: Tells whether the window has closed since.
        moves: Whether it moves with the window; a panel that shows the window's title does not.
        last: Where it was when it was last looked at, None where it was not to be seen.
    """

    box: Box
    window: Window | None
    mark: Mark
    moves: bool
    last: Box | None = None


class Masks:
    """The masks of one desktop.

    Args:
        windows: Says where windows are.
        picture: Takes the picture of the screen as it is.
        settle: Waits until the screen is still, for so many milliseconds.
    """

    def __init__(
        self, windows: WindowReader, picture: Callable[[], Image.Image], settle: Callable[[float], object]
    ) -> None:
        self._windows = windows
        self._picture = picture
        self._settle = settle
        self._masks: list[_Mask] = []
        self._titles: list[Box] = []  # where titles with a secret were when they were last looked at
        self._left: list[Box] = []  # where masked windows have been, until the screen has been still
        self._lock = threading.RLock()  # a thread of the test must get no picture while a secret is typed

    def capture(self) -> Image.Image:
        """The screen now, painted over; `masks_of` gives where."""
        with self._lock:
            before = self._boxes()
            image = self._picture()
            # a window may have moved meanwhile
            boxes = {*before, *self._boxes()}
            return self._painted(image, boxes) if boxes else image

    def left_over(self) -> list[Box]:
        """The places that masked windows have left so far."""
        with self._lock:
            self._boxes()
            return list(self._left)

    def forget(self, places: list[Box]) -> None:
        """The screen has been still since these places were left."""
        with self._lock:
            for place in places:
                if place in self._left:
                    self._left.remove(place)

    @contextmanager
    def hiding(self) -> Iterator[None]:
        """What changes on the screen during this block is painted over from then on."""
        with self._lock:
            self._settle(_QUIET)
            window = next((window for window in self._windows.read() if window.focused), None)
            mark = self._windows.mark()
            before = self._picture()
            try:
                yield
            finally:
                self._add(window, mark, before)

    def _add(self, window: Window | None, mark: Mark, before: Image.Image) -> None:
        self._settle(_QUIET)
        after = self._picture()
        boxes = changed(before, after, inside=window.box if window else None)
        if not boxes:  # a slow program, or one that shows nothing of what is typed
            self._settle(_LONG_QUIET)
            after = self._picture()
            boxes = changed(before, after, inside=window.box if window else None)
        for box in boxes:
            moves = window is not None and _is_inside(box, _grown(window.box, _FRAME))
            self._masks.append(_Mask(box, window, mark, moves, last=box))

    def _boxes(self) -> list[Box]:
        """Where to paint now; notices what moved and what closed."""
        for mask in list(self._masks):
            now = self._place(mask)
            if mask.last is not None and mask.last != now:
                self._left.append(mask.last)
            mask.last = now
        titles = self._titles_now()
        self._left += [title for title in self._titles if title not in titles]
        self._titles = titles
        return [*self._left, *titles, *(mask.last for mask in self._masks if mask.last is not None)]

    def _titles_now(self) -> list[Box]:
        """Where titles are drawn that hold a secret."""
        if not secrets.any_known():
            return []
        titled = [window for window in self._windows.read() if secrets.are_in(window.title)]
        bars = [self._windows.title_bar(window) for window in titled if not window.minimized]
        return [*bars, *self._windows.dock_boxes()] if titled else []

    def _place(self, mask: _Mask) -> Box | None:
        """Where a mask is now, None where it is not to be seen; one whose window has closed is forgotten."""
        if mask.window is None:
            return mask.box
        self._windows.drain()
        if self._windows.is_new(mask.window.id, mask.mark):
            self._masks.remove(mask)
            return None
        now = self._windows.one(mask.window.id)
        if not mask.moves:
            return mask.box
        if now is None or now.minimized:
            return None
        x, y, width, height = mask.box
        return x + now.box[0] - mask.window.box[0], y + now.box[1] - mask.window.box[1], width, height

    def _painted(self, image: Image.Image, boxes: Iterable[Box]) -> Image.Image:
        visible = [clipped for box in sorted(boxes) if (clipped := _clipped(box, image.size)) is not None]
        painted = with_masks(image, visible)
        for x, y, width, height in visible:
            painted.paste(GREY, (x, y, x + width, y + height))
        return painted


def changed(before: Image.Image, after: Image.Image, *, inside: Box | None) -> list[Box]:
    """The boxes in which two pictures differ, each with room for what a field may show in its place.

    A field that shows dots may be told to show the letters, which are higher and wider: so inside of the window a box
    grows over the field's plain ground, up to what stands beside it.

    Args:
        before, after: Pictures of one size.
        inside: The window's box; outside of it nothing grows.
    """
    import numpy as np

    from pytest_cua import screens

    pixels = np.asarray(after)
    found = []
    for region in screens.compare(before, after, tolerance="exact").regions:
        box = region.box
        if inside is not None and _is_inside(box, inside):
            box = _over_ground(pixels, box, inside)
        clipped = _clipped(_grown(box, _ROOM), after.size)
        assert clipped is not None
        found.append(clipped)
    return sorted(found)


def _over_ground(pixels: Pixels, box: Box, limits: Box) -> Box:
    """The box, grown over the plain ground around it."""
    left, top, right, bottom = box[0], box[1], box[0] + box[2], box[1] + box[3]
    first_x, first_y = max(0, limits[0]), max(0, limits[1])
    last_x = min(pixels.shape[1], limits[0] + limits[2])
    last_y = min(pixels.shape[0], limits[1] + limits[3])
    wider = box[2] + _WIDER
    top -= _plain(pixels[max(first_y, top - _HIGHER) : top, left:right][::-1])
    bottom += _plain(pixels[bottom : min(last_y, bottom + _HIGHER), left:right])
    left -= _plain(pixels[top:bottom, max(first_x, left - wider) : left].swapaxes(0, 1)[::-1])
    right += _plain(pixels[top:bottom, right : min(last_x, right + wider)].swapaxes(0, 1))
    return left, top, right - left, bottom - top


def _plain(rows: Pixels) -> int:
    """How many of these rows, from the first on, have all the one colour that the first begins with."""
    if not rows.size:
        return 0
    plain = (rows == rows[0, 0]).all(axis=(1, 2))
    return len(plain) if plain.all() else int(plain.argmin())


def _grown(box: Box, by: int) -> Box:
    x, y, width, height = box
    return x - by, y - by, width + 2 * by, height + 2 * by


def _is_inside(box: Box, other: Box) -> bool:
    return (
        other[0] <= box[0]
        and other[1] <= box[1]
        and box[0] + box[2] <= other[0] + other[2]
        and box[1] + box[3] <= other[1] + other[3]
    )


def _clipped(box: Box, size: tuple[int, int]) -> Box | None:
    """The part of a box on the screen, None when there is none."""
    left, top = max(0, box[0]), max(0, box[1])
    width, height = min(size[0], box[0] + box[2]) - left, min(size[1], box[1] + box[3]) - top
    return (left, top, width, height) if width > 0 and height > 0 else None
