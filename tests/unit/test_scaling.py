"""The size a screenshot is sent in, and the way from its pixels to those of the screen and back."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_cua.errors import BadArgument
from pytest_cua.tools.scaling import MANY_IMAGES_EDGE, Scaling, sent_size

STANDARD = (1568, 1568)  # the longest edge in pixels, and the visual tokens
HIGH = (2576, 4784)
TIERS = (STANDARD, HIGH)

# screen, what the standard tier is sent, what the high tier is sent
TABLE = [
    ((1024, 768), (1024, 768), (1024, 768)),
    ((1280, 720), (1280, 720), (1280, 720)),
    ((1280, 800), (1280, 800), (1280, 800)),
    ((1366, 768), (1366, 768), (1366, 768)),
    ((1440, 900), (1389, 868), (1440, 900)),
    ((1600, 900), (1456, 819), (1600, 900)),
    ((1920, 1080), (1456, 819), (1920, 1080)),
    ((2560, 1440), (1456, 819), (2560, 1440)),
    ((3840, 2160), (1456, 819), (2576, 1449)),
    ((1920, 1200), (1389, 868), (1920, 1200)),
    ((1080, 1920), (819, 1456), (1080, 1920)),
    ((5120, 1440), (1568, 441), (2576, 724)),
    ((1075, 1520), (924, 1307), (1075, 1520)),
]
SCALED = [(screen, sent) for screen, *both in TABLE for sent in both]


def size_for(screen: tuple[int, int], tier: tuple[int, int]) -> tuple[int, int]:
    return sent_size(screen, long_edge=tier[0], tokens=tier[1])


def fits(size: tuple[int, int], tier: tuple[int, int]) -> bool:
    across, down = (math.ceil(side / 28) for side in size)
    return max(across, down) * 28 <= tier[0] and across * down <= tier[1]


@pytest.mark.parametrize(("screen", "standard", "high"), TABLE)
def test_the_size_that_is_sent(screen: tuple[int, int], standard: tuple[int, int], high: tuple[int, int]) -> None:
    assert size_for(screen, STANDARD) == standard
    assert size_for(screen, HIGH) == high


screens = st.tuples(st.integers(64, 8000), st.integers(64, 8000))
tiers = st.sampled_from(TIERS)


@given(screen=screens, tier=tiers)
def test_what_is_sent_fits_and_keeps_its_shape(screen: tuple[int, int], tier: tuple[int, int]) -> None:
    sent = size_for(screen, tier)
    assert fits(sent, tier)
    assert all(1 <= small <= large for small, large in zip(sent, screen, strict=True))
    if fits(screen, tier):
        assert sent == screen
        return
    long, short = (0, 1) if screen[0] >= screen[1] else (1, 0)
    assert abs(sent[short] - sent[long] * screen[short] / screen[long]) <= 0.5 + 1e-9
    # one pixel more on the long edge would be refused
    longer = sent[long] + 1
    across = max(1, round(longer * screen[short] / screen[long]))
    assert longer > screen[long] or not fits((longer, across), tier)


# ------------------------------------------------------------------ coordinates

# the last pixel of the screenshot stands for the last row and column of those that it was made of
LAST = [
    ((1280, 800), (1280, 800), (1279, 799)),
    ((1440, 900), (1389, 868), (1439, 899)),
    ((1920, 1080), (1456, 819), (1919, 1079)),
    ((3840, 2160), (1456, 819), (3837, 2157)),
    ((3840, 2160), (2576, 1449), (3839, 2159)),
    ((5120, 1440), (1568, 441), (5117, 1437)),
    ((1080, 1920), (819, 1456), (1079, 1919)),
]


@pytest.mark.parametrize(("screen", "sent", "last"), LAST)
def test_the_corners(screen: tuple[int, int], sent: tuple[int, int], last: tuple[int, int]) -> None:
    scaling = Scaling(screen, sent)
    right, bottom = sent[0] - 1, sent[1] - 1
    assert scaling.to_screen((0, 0)) == (0, 0)
    assert scaling.to_screen((right, 0)) == (last[0], 0)
    assert scaling.to_screen((0, bottom)) == (0, last[1])
    assert scaling.to_screen([right, bottom]) == last
    for x in (0, screen[0] - 1):
        for y in (0, screen[1] - 1):  # the corners of the screen are the corners of the screenshot, never past them
            assert scaling.to_sent((x, y)) == (right if x else 0, bottom if y else 0)


@pytest.mark.parametrize(("screen", "sent"), SCALED)
def test_every_pixel_of_the_edges(screen: tuple[int, int], sent: tuple[int, int]) -> None:
    scaling = Scaling(screen, sent)
    assert scaling.is_identity is (screen == sent)
    for axis in (0, 1):
        other = 1 - axis
        for edge in (0, sent[other] - 1):
            before = -1
            for place in range(sent[axis]):
                point = (place, edge) if axis == 0 else (edge, place)
                there = scaling.to_screen(point)
                # `round` is the API's: half to even
                assert there[axis] == min(round(place * screen[axis] / sent[axis]), screen[axis] - 1)
                assert before < there[axis] < screen[axis]
                assert scaling.to_sent(there) == point  # there and back
                before = there[axis]
        for edge in (0, screen[other] - 1):
            reached = [
                scaling.to_sent((place, edge) if axis == 0 else (edge, place))[axis] for place in range(screen[axis])
            ]
            assert reached == sorted(reached)
            assert set(reached) == set(range(sent[axis]))


@pytest.mark.parametrize(("screen", "sent"), [((1280, 800), (1280, 800)), ((3840, 2160), (1456, 819))])
def test_a_coordinate_outside_is_told_its_range(screen: tuple[int, int], sent: tuple[int, int]) -> None:
    scaling = Scaling(screen, sent)
    width, height = sent
    for point in ((-1, 0), (0, -1), (width, 0), (0, height), (width, height), (-1, height - 1), (10**9, 5)):
        with pytest.raises(BadArgument) as caught:
            scaling.to_screen(point, what="start_coordinate")
        assert str(caught.value) == (
            f"start_coordinate ({point[0]}, {point[1]}) is outside of the screenshot, which is {width}x{height} "
            f"pixels: x goes from 0 to {width - 1}, y from 0 to {height - 1}."
        )


# ------------------------------------------------------------------ regions


@pytest.mark.parametrize(("screen", "sent"), SCALED)
def test_the_whole_screenshot_is_the_whole_screen(screen: tuple[int, int], sent: tuple[int, int]) -> None:
    assert Scaling(screen, sent).region_to_screen([0, 0, *sent]) == (0, 0, *screen)


@pytest.mark.parametrize("screen", [(1521, 1080), (1598, 700), (1605, 1437), (1626, 1080), (1626, 1437)])
def test_sizes_at_which_a_float_reaches_one_pixel_past_the_edge(screen: tuple[int, int]) -> None:
    sent = size_for(screen, STANDARD)
    pairs = list(zip(screen, sent, strict=True))
    assert any(math.ceil(small * (large / small)) > large for large, small in pairs)
    assert Scaling(screen, sent).region_to_screen([0, 0, *sent]) == (0, 0, *screen)


def test_a_region_outside_or_without_content_is_told_the_size() -> None:
    scaling = Scaling((3840, 2160), (1456, 819))
    for region in (
        [-1, 0, 10, 10],
        [0, -1, 10, 10],
        [0, 0, 1457, 10],
        [0, 0, 10, 820],
        [10, 0, 10, 10],
        [0, 10, 10, 10],
        [20, 0, 10, 10],
        [0, 20, 10, 10],
    ):
        with pytest.raises(BadArgument) as caught:
            scaling.region_to_screen(region)
        assert f"region {region} must be [x0, y0, x1, y1]" in str(caught.value)
        assert "which is 1456x819 pixels" in str(caught.value)


@given(screen=screens, tier=tiers, data=st.data())
def test_a_region_never_reaches_past_the_screen(screen: tuple[int, int], tier: tuple[int, int], data: Any) -> None:
    sent = size_for(screen, tier)
    # the edges themselves are tried often: there a float reaches one pixel too far
    x0, y0 = (data.draw(st.integers(0, side - 1) | st.just(side - 1)) for side in sent)
    x1, y1 = (
        data.draw(st.integers(start + 1, side) | st.just(side)) for start, side in zip((x0, y0), sent, strict=True)
    )
    left, top, right, bottom = Scaling(screen, sent).region_to_screen([x0, y0, x1, y1])
    assert 0 <= left < right <= screen[0]
    assert 0 <= top < bottom <= screen[1]
    # every pixel of the screen that the region touches is in it, and none besides
    assert left * sent[0] <= x0 * screen[0] < (left + 1) * sent[0]
    assert top * sent[1] <= y0 * screen[1] < (top + 1) * sent[1]
    assert (right - 1) * sent[0] < x1 * screen[0] <= right * sent[0]
    assert (bottom - 1) * sent[1] < y1 * screen[1] <= bottom * sent[1]


def test_no_side_is_longer_than_a_request_with_many_images_takes() -> None:
    for screen in ((3840, 2160), (2560, 1440), (5120, 1440), (1440, 2560), (2001, 100)):
        sent = sent_size(screen, long_edge=min(2576, MANY_IMAGES_EDGE), tokens=4784)
        assert max(sent) <= 2000, screen
