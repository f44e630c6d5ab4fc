"""What size a screenshot is sent in, and where a coordinate in it lies on the screen.

The rule is the API's (platform.claude.com, "vision coordinates"): an image may be `long_edge` pixels long and
`ceil(w/28) * ceil(h/28)` visual tokens large; the toolset refuses larger ones. The default desktop fits every tier, so
nothing is scaled there.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from pytest_cua.errors import BadArgument

PATCH = 28  # pixels: one visual token
MANY_IMAGES_EDGE = 2000  # pixels: the longest edge once a request has more than 20 images, as every step soon has
Size = tuple[int, int]
Point = tuple[int, int]


def _fits(width: int, height: int, long_edge: int, tokens: int) -> bool:
    patches = math.ceil(width / PATCH) * math.ceil(height / PATCH)
    # the side that is compared is padded up to whole patches first
    return math.ceil(max(width, height) / PATCH) * PATCH <= long_edge and patches <= tokens


def sent_size(screen: Size, *, long_edge: int, tokens: int) -> Size:
    """The size in which a screen is sent to a model of this tier, at most its own.

    Args:
        screen: Width and height of the screen in pixels.
        long_edge: The tier's longest edge in pixels.
        tokens: The tier's most visual tokens.
    """
    width, height = screen
    if max(screen) <= long_edge and _fits(width, height, long_edge, tokens):
        return screen
    aspect = width / height

    def at(edge: int) -> Size:
        if width >= height:
            return edge, max(round(edge / aspect), 1)
        return max(round(edge * aspect), 1), edge

    low, high = 1, min(max(screen), long_edge)
    while low < high:  # the largest edge that fits
        middle = (low + high + 1) // 2
        if _fits(*at(middle), long_edge, tokens):
            low = middle
        else:
            high = middle - 1
    return at(low)


@dataclass(frozen=True)
class Scaling:
    """Between the pixels of the screen and those of the screenshot that was sent."""

    screen: Size
    sent: Size

    @property
    def is_identity(self) -> bool:
        """Whether screenshots are sent in their own size."""
        return self.screen == self.sent

    def to_screen(self, coordinate: list[int] | tuple[int, ...], *, what: str = "coordinate") -> Point:
        """The pixel of the screen under a coordinate of the screenshot.

        Raises:
            BadArgument: It lies outside of the screenshot; it is never clamped.
        """
        x, y = coordinate
        if not (0 <= x < self.sent[0] and 0 <= y < self.sent[1]):
            raise BadArgument(
                f"{what} ({x}, {y}) is outside of the screenshot, which is {self.sent[0]}x{self.sent[1]} pixels: "
                f"x goes from 0 to {self.sent[0] - 1}, y from 0 to {self.sent[1] - 1}."
            )
        return (
            min(round(x * self.screen[0] / self.sent[0]), self.screen[0] - 1),
            min(round(y * self.screen[1] / self.sent[1]), self.screen[1] - 1),
        )

    def to_sent(self, point: Point) -> Point:
        """The coordinate in the screenshot of a pixel of the screen."""
        return (
            min(round(point[0] * self.sent[0] / self.screen[0]), self.sent[0] - 1),
            min(round(point[1] * self.sent[1] / self.screen[1]), self.sent[1] - 1),
        )

    def region_to_screen(self, region: list[int]) -> tuple[int, int, int, int]:
        """The box `(left, top, right, bottom)` of the screen, right and bottom exclusive, under a region.

        Raises:
            BadArgument: The region is empty or reaches outside of the screenshot.
        """
        x0, y0, x1, y1 = region
        if not (0 <= x0 < x1 <= self.sent[0] and 0 <= y0 < y1 <= self.sent[1]):
            raise BadArgument(
                f"region {region} must be [x0, y0, x1, y1] with x0 < x1 and y0 < y1 inside of the screenshot, "
                f"which is {self.sent[0]}x{self.sent[1]} pixels."
            )
        (width, height), (sent_width, sent_height) = self.screen, self.sent
        left, top = x0 * width // sent_width, y0 * height // sent_height
        # rounded up, in whole numbers: a float would reach one pixel past the edge now and then
        return left, top, -(-x1 * width // sent_width), -(-y1 * height // sent_height)
