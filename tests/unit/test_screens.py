"""What `screens.compare()` reports, on real pairs of screens and on the traps other tools fell into."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from pytest_cua import screens
from pytest_cua.errors import BadArgument
from pytest_cua.screens import Area, Region, compare

PAIRS = Path(__file__).with_name("screens")
TILE = 64


def pair(kind):
    return PAIRS / f"{kind}-expected.png", PAIRS / f"{kind}-actual.png"


def solid(colour, size=(640, 360), mode="RGB"):
    return Image.new(mode, size, colour)


def drawn(width=200, height=150, seed=1):
    """A screen with structure in every part: bars of many greys and colours, none of them extreme."""
    noise = np.random.default_rng(seed).integers(40, 200, (height // 5 + 1, width // 3 + 1, 3), np.uint8)
    return noise.repeat(5, 0).repeat(3, 1)[:height, :width].copy()


def painted(picture, box, colour):
    x, y, width, height = box
    other = np.asarray(picture).copy()
    other[y : y + height, x : x + width] = colour
    return other


def png(image):
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue()


WHITE = np.full((150, 200, 3), 255, np.uint8)


# -- pairs of real screens ---------------------------------------------------------------------------------------------

CHANGES = {
    "decimal_comma": ((108, 93, 2, 2), 3),
    "minus_lost": ((88, 63, 4, 2), 7),
    "letter_typo": ((221, 8, 2, 2), 4),
    "checkbox": ((89, 46, 13, 13), 158),
    "button_disabled": ((150, 8, 57, 27), 907),
    "text_red": ((23, 7, 111, 14), 550),
    "rows_swapped": ((68, 62, 74, 9), 449),
    "dialog_moved40": ((38, 32, 205, 122), 9185),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_strict_sees_a_change_of_the_application_and_says_where(kind):
    outcome = compare(*pair(kind))

    assert not outcome
    assert outcome.regions[0] == Region(*CHANGES[kind])
    assert str(outcome.regions[0]) in outcome.summary
    assert outcome.distance > 0


@pytest.mark.parametrize("kind", ["rerender", "gradient", "lsb_noise"])
def test_strict_and_perceptual_pass_what_only_the_machine_changed(kind):
    assert compare(*pair(kind))
    assert compare(*pair(kind), tolerance="perceptual", max_distance=0)
    assert compare(*pair(kind)).distance == 0
    assert not compare(*pair(kind), tolerance="exact")


def test_pointer_that_moved_is_the_same_once_both_places_are_excluded():
    assert not compare(*pair("pointer_moved"))
    here, there = (0, 196, 46, 44), (599, 0, 25, 42)
    assert compare(*pair("pointer_moved"), exclude=[here, there])
    assert compare(*pair("pointer_moved"), exclude=[here, there]).distance == 0
    assert not compare(*pair("pointer_moved"), exclude=[here])


@pytest.mark.parametrize(("kind", "seen"), [("dialog_moved40", True), ("text_red", True), ("decimal_comma", False)])
def test_perceptual_is_as_blind_as_its_documentation_says(kind, seen):
    assert compare(*pair(kind), tolerance="perceptual").same is not seen


def test_swapped_rows_are_ten_boxes_not_one_per_letter():
    assert len(compare(*pair("rows_swapped")).regions) == 10


# -- colours and hashes: imagehash calls these equal -------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", ["exact", "strict", "perceptual"])
@pytest.mark.parametrize(
    ("left", "right"),
    [("white", (0, 0, 254)), ("red", (0, 130, 0)), ("white", "black"), ((255, 85, 85), (85, 255, 85))],
)
def test_solid_colours_differ_at_every_level(left, right, tolerance):
    outcome = compare(solid(left), solid(right), tolerance=tolerance)

    assert not outcome
    assert outcome.distance == 64
    assert outcome.regions[0].box == (0, 0, 640, 360)
    assert outcome.warnings == (
        "the expected screen is one solid colour: nothing was rendered",
        "the actual screen is one solid colour: nothing was rendered",
    )


def test_two_blank_screens_are_the_same_but_warned_of():
    outcome = compare(solid("white"), solid("white"))

    assert outcome
    assert "the actual screen is one solid colour: nothing was rendered" in outcome.warnings


def test_a_blank_screen_with_a_running_clock_is_still_blank():
    clock = painted(WHITE, (170, 130, 20, 10), (0, 0, 0))
    assert compare(clock, clock).warnings == ()
    assert len(compare(clock, clock, exclude=[(165, 125, 30, 20)]).warnings) == 2


def test_a_rendered_screen_is_not_warned_of():
    assert compare(drawn(), drawn()).warnings == ()


def test_same_picture_in_other_colours_differs_and_the_largest_difference_is_told():
    screen = drawn()
    outcome = compare(screen, screen[..., ::-1])
    assert not outcome
    assert outcome.largest_difference == int(np.abs(screen.astype(int) - screen[..., ::-1]).max())
    assert f"largest difference {outcome.largest_difference} of 255 levels" in outcome.summary


def test_colour_change_that_greyscale_cannot_see_is_beyond_the_default_distance():
    # both colours have the same brightness in Pillow's greyscale
    red, green = (200, 20, 20), (20, 112, 20)
    grey = [Image.new("RGB", (1, 1), colour).convert("L").getpixel((0, 0)) for colour in (red, green)]
    assert abs(grey[0] - grey[1]) <= 1
    left, right = painted(WHITE, (30, 30, 40, 8), red), painted(WHITE, (30, 30, 40, 8), green)
    assert not compare(left, right, tolerance="perceptual")


def test_a_fill_in_another_colour_beside_text_is_the_largest_distance():
    screen = painted(drawn(), (10, 10, 40, 12), (30, 90, 200))
    assert compare(screen, painted(screen, (10, 10, 40, 12), (60, 120, 230))).distance == 64
    # fifteen pixels are no fill: then the hash decides
    assert compare(screen, painted(screen, (10, 10, 5, 3), (60, 120, 230))).distance < 64


def test_noise_in_the_lowest_bits_changes_no_bit_of_a_distance():
    screen = painted(painted(WHITE, (4, 4, 30, 2), 60), (10, 20, 3, 30), 90)
    other = painted(painted(screen, (20, 30, 4, 3), 70), (40, 50, 1, 3), 120)
    distance = compare(screen, other).distance
    noise = np.random.default_rng(4).integers(0, 4, WHITE.shape, np.uint8)
    assert 1 < distance < 64
    assert compare(screen, other - noise).distance == compare(screen - noise, other).distance == distance


def test_what_happens_in_an_excluded_part_of_a_tile_changes_no_bit_of_its_distance():
    screen, changed = drawn(), painted(drawn(), (70, 70, 8, 8), drawn(seed=6)[:8, :8])
    clock = painted(changed, (80, 80, 40, 40), drawn(seed=7)[:40, :40])
    excluded = [(80, 80, 40, 40)]
    assert compare(screen, clock).distance != compare(screen, changed).distance
    assert compare(screen, clock, exclude=excluded).distance == compare(screen, changed).distance


def test_shaded_text_that_appears_on_a_flat_background_is_the_largest_distance():
    shades = np.random.default_rng(5).integers(0, 200, (9, 40, 1), np.uint8)
    other = painted(WHITE, (70, 70, 40, 9), shades)
    assert compare(WHITE, other).distance == compare(other, WHITE).distance == 64


@pytest.mark.parametrize("channel", [0, 1, 2])
def test_each_channel_is_hashed(channel):
    other = drawn()
    other[..., channel] = drawn(seed=9)[..., channel]
    assert compare(drawn(), other).distance > 16


def test_button_removed_from_a_flat_background_is_the_largest_distance():
    screen = painted(WHITE, (80, 60, 60, 24), (30, 90, 200))
    outcome = compare(screen, WHITE, tolerance="perceptual")
    assert not outcome
    assert outcome.distance == 64
    assert outcome.screen_distance < 64
    assert outcome.regions == (Region((80, 60, 60, 24), 60 * 24),)


# -- levels ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("levels", "same"), [(1, True), (12, True), (13, False)])
def test_strict_passes_a_pixel_within_twelve_levels(levels, same):
    other = painted(drawn(), (70, 70, 1, 1), drawn()[70, 70] + levels)
    assert compare(drawn(), other).same is same
    assert not compare(drawn(), other, tolerance="exact")


def test_uint8_does_not_wrap():
    # 3 - 5 is 254 in uint8: the difference of two levels would be the largest there is
    assert compare(painted(drawn(), (9, 9, 1, 1), 3), painted(drawn(), (9, 9, 1, 1), 5))
    dark, bright = painted(drawn(), (9, 9, 1, 1), 0), painted(drawn(), (9, 9, 1, 1), 255)
    assert compare(dark, bright).largest_difference == compare(bright, dark).largest_difference == 255


@pytest.mark.parametrize("size", [(200, 150), (1280, 800)])
def test_a_whole_screen_darker_by_eight_levels_differs(size):
    screen = drawn(*size)
    assert not compare(screen, screen - 8)
    assert compare(screen, screen - 8).regions[0].box == (0, 0, *size)
    assert compare(screen, screen - 4)


def test_a_faint_fill_differs_only_when_it_is_large():
    assert not compare(WHITE, painted(WHITE, (32, 32, 16, 16), 247))
    assert compare(WHITE, painted(WHITE, (32, 32, 8, 8), 247))
    assert not compare(WHITE, painted(WHITE, (40, 40, 32, 32), 247))  # also when it is not aligned to the cells


def test_faint_noise_that_is_not_dense_is_no_fill():
    faint = np.random.default_rng(2).random(WHITE.shape[:2]) < 0.5
    assert compare(WHITE, np.where(faint[..., None], np.uint8(247), WHITE))


def test_an_excluded_half_does_not_make_a_sliver_a_large_area():
    other = painted(WHITE, (32, 32, 16, 16), 247)
    assert compare(WHITE, other, exclude=[(32, 32, 16, 13)])
    assert not compare(WHITE, other, exclude=[(32, 32, 16, 8)])


# -- small changes on large screens ------------------------------------------------------------------------------------


@pytest.mark.parametrize("tolerance", ["exact", "strict"])
def test_one_pixel_on_a_large_screen_differs(tolerance):
    screen = drawn(1920, 1080)
    outcome = compare(screen, painted(screen, (1919, 1079, 1, 1), 0), tolerance=tolerance)
    assert not outcome
    assert outcome.regions == (Region((1919, 1079, 1, 1), 1),)
    assert outcome.distance >= 1


@pytest.mark.parametrize("x", [0, 63, 64, 127, 128, 191, 192, 199])
@pytest.mark.parametrize("y", [0, 63, 64, 127, 128, 149])
def test_no_corner_of_a_tile_is_blind_to_perceptual(x, y):
    for screen in (WHITE, drawn()):
        other = painted(screen, (x, y, 1, 1), 0)
        assert compare(screen, other).distance >= 1
        assert not compare(screen, other, tolerance="perceptual", max_distance=0)


def rectangles(smallest=6):
    return st.tuples(
        st.integers(0, 200 - smallest),
        st.integers(0, 150 - smallest),
        st.integers(smallest, 200),
        st.integers(smallest, 150),
    ).map(lambda box: (box[0], box[1], min(box[2], 200 - box[0]), min(box[3], 150 - box[1])))


@settings(max_examples=60, deadline=None)
@given(rectangles(), st.booleans(), st.tuples(*[st.integers(0, 255)] * 3))
def test_a_visible_rectangle_is_never_the_same_nor_at_distance_zero(box, structured, colour):
    screen = drawn() if structured else WHITE
    other = painted(screen, box, colour)
    visible = np.abs(screen.astype(int) - other).max(axis=2) > 12
    assume(visible.any())
    outcome = compare(screen, other)

    assert not outcome
    assert outcome.distance > 0
    assert sum(region.pixels for region in outcome.regions) >= visible.sum()
    assert not compare(screen, other, tolerance="perceptual", max_distance=0)


@settings(max_examples=40, deadline=None)
@given(rectangles(), rectangles(), st.booleans())
def test_only_pixels_outside_excluded_boxes_count(box, excluded, structured):
    assume(excluded[2] * excluded[3] < 200 * 150)
    screen = drawn() if structured else WHITE
    other = painted(screen, box, 0)
    outside = np.zeros((150, 200), bool)
    outside[box[1] : box[1] + box[3], box[0] : box[0] + box[2]] = True
    outside[excluded[1] : excluded[1] + excluded[3], excluded[0] : excluded[0] + excluded[2]] = False
    outcome = compare(screen, other, exclude=[excluded])

    assert outcome.same is not outside.any()
    assert (outcome.distance == 0) is not outside.any()
    assert sum(region.pixels for region in outcome.regions) == outside.sum()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 199), st.integers(0, 149)), min_size=1, max_size=60))
def test_regions_hold_each_differing_pixel_once_and_tightly(points):
    other = WHITE.copy()
    for x, y in points:
        other[y, x] = 0
    regions = compare(WHITE, other).regions

    assert sum(region.pixels for region in regions) == len(set(points))
    assert [region.pixels for region in regions] == sorted((region.pixels for region in regions), reverse=True)
    black = other[..., 0] == 0
    for x, y, width, height in (region.box for region in regions):
        part = black[y : y + height, x : x + width]
        assert part.shape == (height, width)
        assert part[0].any() and part[-1].any() and part[:, 0].any() and part[:, -1].any()


def test_a_word_is_one_region_and_two_lines_are_two():
    other = Image.fromarray(WHITE.copy())
    draw = ImageDraw.Draw(other)
    draw.text((20, 20), "total sum")
    draw.text((20, 50), "approved")
    draw.rectangle((20, 20, 20, 20), fill=0)
    assert len(compare(WHITE, painted(WHITE, (20, 20, 5, 8), 0)).regions) == 1
    draw.text((20, 20), "total sum", fill=(0, 0, 0))
    draw.text((20, 50), "approved", fill=(0, 0, 0))
    assert len(compare(WHITE, other).regions) == 2


def test_the_dot_of_a_letter_belongs_to_its_stem():
    assert len(compare(WHITE, painted(painted(WHITE, (40, 40, 2, 2), 0), (40, 48, 2, 9), 0)).regions) == 1
    assert len(compare(WHITE, painted(painted(WHITE, (40, 40, 2, 2), 0), (40, 56, 2, 9), 0)).regions) == 2


# -- sizes -------------------------------------------------------------------------------------------------------------


def test_sizes_that_differ_are_reported_first_and_never_the_same():
    screen = drawn(1280, 800)
    outcome = compare(screen, screen[:768, :1024])

    assert not outcome
    assert outcome.summary == "the sizes differ: expected 1280x800, actual 1024x768"
    assert outcome.regions == ()
    assert outcome.distance == 64
    assert outcome.diff_image().size == (1280, 800)


def test_differences_in_the_shared_part_come_second():
    outcome = compare(WHITE, painted(WHITE, (10, 10, 5, 5), 0)[:146])  # four pixels lower, as in a reported case
    assert outcome.summary.splitlines()[0] == "the sizes differ: expected 200x150, actual 200x146"
    assert outcome.summary.splitlines()[1].startswith("1 region differs: 5x5 at (10, 10), 25 pixels")


def test_area_outside_of_a_smaller_actual_screen_is_still_a_difference_of_size():
    outcome = compare(WHITE, WHITE[:100], areas=[Area(0, 120, 20, 20)])
    assert not outcome
    assert outcome.summary.startswith("the sizes differ")


# -- kinds of pictures -------------------------------------------------------------------------------------------------


def test_colours_under_full_transparency_are_not_seen():
    left, right = solid((255, 0, 0, 0), mode="RGBA"), solid((0, 90, 255, 0), mode="RGBA")
    assert compare(left, right, tolerance="exact")
    assert compare(left, solid("white"), tolerance="exact")


def test_opaque_alpha_changes_nothing():
    screen = Image.fromarray(drawn())
    assert compare(screen, screen.convert("RGBA"), tolerance="exact")
    assert compare(screen, np.asarray(screen.convert("RGBA")), tolerance="exact")


def test_transparent_black_is_not_opaque_black():
    assert not compare(solid((0, 0, 0, 0), mode="RGBA"), solid((0, 0, 0, 255), mode="RGBA"))


def test_rgba_pictures_that_differ_in_colour_only_differ():
    # ImageChops.difference(...).getbbox() of these is None: it looks at alpha alone
    assert not compare(solid((255, 0, 0, 255), mode="RGBA"), solid((0, 0, 255, 255), mode="RGBA"))


def test_palette_greyscale_and_sixteen_bits_are_read_as_what_they_show():
    grey = Image.fromarray(drawn()).convert("L")
    wide = Image.fromarray(np.asarray(grey).astype(np.uint16) * 256 + 77)
    assert wide.mode.startswith("I;16")
    shown = grey.convert("RGB")
    assert compare(shown, grey, tolerance="exact")
    assert compare(shown, wide, tolerance="exact")
    assert compare(shown, np.asarray(grey), tolerance="exact")
    assert compare(solid("red"), solid("red").convert("P"), tolerance="exact")
    assert compare(solid("white"), solid(1, mode="1"), tolerance="exact")


def test_transparent_palette_entry_is_white(tmp_path):
    image = solid("red").convert("P")
    image.save(tmp_path / "a.png", transparency=image.getpixel((0, 0)))
    assert compare(solid("white"), tmp_path / "a.png", tolerance="exact")


@pytest.mark.parametrize(
    "source",
    [
        np.zeros((4, 4, 3), float),
        np.zeros((4, 4, 3), np.uint16),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros(4, np.uint8),
        Image.new("I", (4, 4)),
        Image.new("F", (4, 4)),
        None,
        7,
    ],
)
def test_a_picture_without_a_clear_meaning_is_refused(source):
    with pytest.raises(BadArgument, match="picture"):
        screens.load(source)


def test_missing_foreign_and_truncated_files_are_refused_by_name(tmp_path):
    (tmp_path / "text.png").write_text("not a picture")
    (tmp_path / "half.png").write_bytes(png(Image.fromarray(drawn()))[:900])
    for name, reason in [("gone.png", "No such file"), ("text.png", "not a picture"), ("half.png", "damaged")]:
        with pytest.raises(BadArgument, match=reason) as caught:
            compare(tmp_path / name, WHITE)
        assert name in str(caught.value)


@pytest.mark.parametrize("source", ["path", "text", "image", "array"])
def test_each_kind_of_source_gives_the_same_picture(source, tmp_path):
    image = Image.fromarray(drawn())
    image.save(tmp_path / "a.png")
    given = {"path": tmp_path / "a.png", "text": str(tmp_path / "a.png"), "image": image, "array": drawn()}[source]
    assert compare(given, drawn(), tolerance="exact")
    assert screens.load(given).mode == "RGB"


def test_equal_files_are_decoded_once(tmp_path, monkeypatch):
    for name in ("a.png", "b.png"):
        Image.fromarray(drawn()).save(tmp_path / name)
    decoded = []
    plain = screens.decode
    monkeypatch.setattr(screens, "decode", lambda data, name: decoded.append(name) or plain(data, name))
    assert compare(tmp_path / "a.png", tmp_path / "b.png")
    assert decoded == [tmp_path / "a.png"]


# -- options -----------------------------------------------------------------------------------------------------------


def test_unknown_tolerance_lists_the_known_and_suggests_the_closest():
    with pytest.raises(BadArgument) as caught:
        compare(WHITE, WHITE, tolerance="strikt")
    assert "did you mean 'strict'? known: exact, strict, perceptual" in str(caught.value)


@pytest.mark.parametrize("tolerance", ["", None, 12, 0.2, ["strict"]])
def test_a_tolerance_is_never_a_number(tolerance):
    with pytest.raises(BadArgument, match="known: exact, strict, perceptual"):
        compare(WHITE, WHITE, tolerance=tolerance)


def test_an_option_the_tolerance_does_not_have_is_refused():
    with pytest.raises(BadArgument, match="max_distance=4 means nothing to tolerance='strict'"):
        compare(WHITE, WHITE, max_distance=4)
    with pytest.raises(TypeError):
        compare(WHITE, WHITE, threshold=0.1)


@pytest.mark.parametrize("bits", [-1, 64, 4.0, "4"])
def test_max_distance_that_cannot_be_meant_is_refused(bits):
    with pytest.raises(BadArgument, match="max_distance"):
        compare(WHITE, WHITE, tolerance="perceptual", max_distance=bits)


def test_max_distance_decides_at_the_distance_that_is_reported():
    outcome = compare(*pair("letter_typo"), tolerance="perceptual")
    bits = outcome.distance
    assert 0 < bits < 64
    assert compare(*pair("letter_typo"), tolerance="perceptual", max_distance=bits)
    stricter = compare(*pair("letter_typo"), tolerance="perceptual", max_distance=bits - 1)
    assert not stricter
    assert f"worst tile {bits} bits where {bits - 1} are allowed" in stricter.summary


def test_perceptual_lists_only_the_tiles_that_fail():
    # a pixel in a tile full of structure changes few bits of its hash; a flat tile that is filled changes all
    screen = drawn()
    screen[:, 128:] = 255
    other = painted(painted(screen, (30, 30, 1, 1), 0), (140, 20, 30, 30), 0)
    assert len(compare(screen, other).regions) == 2
    outcome = compare(screen, other, tolerance="perceptual")
    assert [region.box for region in outcome.regions] == [(140, 20, 30, 30)]


# -- areas -------------------------------------------------------------------------------------------------------------

CHANGED = painted(WHITE, (50, 50, 10, 10), 0)


def test_an_excluded_area_never_counts_whatever_it_is_given_as():
    for exclude in ([(50, 50, 10, 10)], [Area(50, 50, 10, 10)], np.array([[50, 50, 10, 10]])):
        assert compare(WHITE, CHANGED, exclude=exclude)
    assert compare(WHITE, CHANGED, areas=[Area(50, 50, 10, 10, type="exclude")])


def test_a_pixel_beside_the_excluded_area_counts():
    outcome = compare(WHITE, CHANGED, exclude=[(50, 50, 10, 9)])
    assert outcome.regions == (Region((50, 59, 10, 1), 10),)


def test_only_the_inside_of_match_areas_counts():
    away, near, on = Area(0, 0, 20, 20), Area(40, 40, 10, 10), Area(59, 59, 5, 5)
    assert compare(WHITE, CHANGED, areas=[away, near])
    assert compare(WHITE, CHANGED, areas=[away, on]).regions == (Region((59, 59, 1, 1), 1),)


def test_exclude_wins_over_match():
    match = Area(40, 40, 30, 30)
    assert not compare(WHITE, CHANGED, areas=[match])
    assert compare(WHITE, CHANGED, areas=[match], exclude=[(45, 45, 20, 20)])


def test_a_text_area_neither_limits_nor_excludes():
    assert not compare(WHITE, CHANGED, areas=[Area(50, 50, 10, 10, type="text")])
    assert not compare(WHITE, CHANGED, areas=[Area(0, 0, 10, 10, type="text")])


def test_a_margin_that_is_not_used_is_said():
    outcome = compare(drawn(), drawn(), areas=[Area(0, 0, 10, 10, margin=5)])
    assert outcome
    assert outcome.warnings == (
        "area 10x10 at (0, 0), type match has a margin of 5 pixels, which went unused: the exact place was compared",
    )


def test_areas_that_leave_nothing_to_compare_are_refused():
    with pytest.raises(BadArgument, match="no pixel to compare"):
        compare(WHITE, CHANGED, exclude=[(0, 0, 200, 150)])
    with pytest.raises(BadArgument, match="no pixel to compare"):
        compare(WHITE, CHANGED, areas=[Area(0, 0, 9, 9)], exclude=[(0, 0, 10, 10)])


@pytest.mark.parametrize("box", [(190, 0, 11, 5), (0, 149, 5, 2), (300, 300, 5, 5)])
def test_an_area_outside_the_picture_is_named(box):
    for options in ({"exclude": [box]}, {"areas": [Area(*box)]}):
        with pytest.raises(BadArgument, match=r"area \d+x\d+ at \(\d+, \d+\).* outside the picture of 200x150 pixels"):
            compare(WHITE, WHITE, **options)


def test_an_area_at_the_very_edge_is_inside():
    assert compare(WHITE, WHITE, exclude=[(190, 145, 10, 5)])


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ((-1, 0, 5, 5), "x of area 5x5 at .* is negative"),
        ((0, -1, 5, 5), "y of area"),
        ((0, 0, 0, 5), "empty"),
        ((0, 0, 5, 0), "empty"),
        ((0, 0, -5, 5), "width of area"),
        ((0.5, 0, 5, 5), "not a whole number of pixels"),
        (("0", 0, 5, 5), "not a whole number of pixels"),
        ((0, 0, 5, 5, "mask"), "type"),
        ((0, 0, 5, 5, "exlude"), "did you mean 'exclude'"),
        ((0, 0, 5, 5, "match", -1), "margin"),
    ],
)
def test_an_area_that_cannot_be_meant_is_refused(values, message):
    with pytest.raises(BadArgument, match=message):
        Area(*values)


@pytest.mark.parametrize("exclude", [(0, 0, 10, 10), [(1, 2, 3)], ["clock"], 5, Area(0, 0, 5, 5)])
def test_exclude_that_is_no_list_of_boxes_is_refused(exclude):
    with pytest.raises(BadArgument, match="exclude"):
        compare(WHITE, WHITE, exclude=exclude)


@pytest.mark.parametrize("areas", [[(0, 0, 5, 5)], [{"xpos": 0}], Area(0, 0, 5, 5), 5])
def test_areas_that_are_no_list_of_areas_are_refused(areas):
    with pytest.raises(BadArgument, match="areas"):
        compare(WHITE, WHITE, areas=areas)


def test_an_area_goes_to_json_and_back_in_the_words_of_openqa():
    area = Area(1, 2, 30, 40, type="exclude", margin=5)
    values = {"xpos": 1, "ypos": 2, "width": 30, "height": 40, "type": "exclude", "margin": 5}
    assert area.to_dict() == values
    assert Area.from_dict(values) == area
    assert Area.from_dict({"xpos": 1, "ypos": 2, "width": 30, "height": 40}) == Area(1, 2, 30, 40)
    assert Area.from_dict({**values, "type": "ocr"}).type == "text"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"xpos": 1, "ypos": 2, "width": 30}, "has no height"),
        ({"xpos": 1, "ypos": 2, "width": 30, "heigth": 4}, "did you mean 'height'"),
        ({"xpos": 1, "ypos": 2, "width": 30, "height": 4, "match": 96}, "unknown key 'match'"),
        ([1, 2, 3, 4], "an area is an object"),
    ],
)
def test_an_area_in_json_that_is_not_understood_is_refused(values, message):
    with pytest.raises(BadArgument, match=message):
        Area.from_dict(values)


# -- what is said and drawn --------------------------------------------------------------------------------------------


def test_the_same_screens_have_nothing_to_say():
    outcome = compare(drawn(), drawn())
    assert outcome.same and outcome
    assert (outcome.regions, outcome.distance, outcome.screen_distance, outcome.largest_difference) == ((), 0, 0, 0)
    assert outcome.summary == "the screens are the same"
    # where something was forgiven, it says by which tolerance
    assert compare(*pair("gradient")).summary == "the screens are the same (strict)"


def test_summary_lists_the_largest_regions_first():
    other = painted(painted(WHITE, (10, 10, 14, 9), 0), (100, 100, 1, 1), 0)
    assert compare(WHITE, other).summary == (
        "2 regions differ: 14x9 at (10, 10), 126 pixels; 1x1 at (100, 100), 1 pixel; "
        "largest difference 255 of 255 levels"
    )


def test_summary_lists_at_most_five_regions():
    other = WHITE.copy()
    for index in range(8):
        other = painted(other, (10, 10 + 17 * index, 4, 4), 0)
    assert compare(WHITE, other).summary.count(" at (") == 5
    assert "; and 3 more" in compare(WHITE, other).summary


def test_differences_all_over_the_text_are_called_fonts():
    rng = np.random.default_rng(3)
    screen = np.full((600, 800, 3), 255, np.uint8)
    other = screen.copy()
    for y in range(10, 590, 24):
        for x in range(10, 780, 60):
            glyph = (rng.random((10, 40)) < 0.3)[..., None]
            screen[y : y + 10, x : x + 40] = np.where(glyph, 0, 255)
            other[y : y + 10, x : x + 40] = np.where(np.roll(glyph, 1, axis=1), 40, 255)
    summary = compare(screen, other).summary
    assert summary.startswith("fonts or rendering differ everywhere: 3")
    assert " regions, the largest 40x10 at" in summary
    # the text of one part, however much of it, is not everywhere
    some = screen.copy()
    some[:150] = other[:150]
    assert "fonts" not in compare(screen, some).summary
    assert "fonts" not in compare(*pair("rows_swapped")).summary
    # neither is a window in place of another
    assert "fonts" not in compare(screen, painted(screen, (20, 20, 760, 560), (90, 90, 90))).summary


def test_a_comparison_prints_without_its_pictures():
    assert len(repr(compare(WHITE, CHANGED))) < 400


RED, BLUE = (220, 0, 0), (60, 90, 200)


def test_diff_image_marks_what_differs_and_what_does_not_count():
    outcome = compare(WHITE, CHANGED, exclude=[(100, 100, 40, 40)])
    image = outcome.diff_image()
    pixels = np.asarray(image)

    assert image.size == (200, 150)
    assert image.getpixel((55, 55))[0] == image.getpixel((55, 55))[2] == 255  # magenta
    for corner in [(47, 47), (62, 62), (47, 62), (55, 48)]:
        assert image.getpixel(corner) == RED  # around the region, not on it
    hatched = (pixels == BLUE).all(axis=2)
    assert hatched[100:140, 100:140].any(axis=0).all()
    assert hatched.sum() == hatched[100:140, 100:140].sum() < 40 * 40 / 2
    assert image.getpixel((5, 5)) == (191, 191, 191)


def test_diff_image_draws_a_box_for_each_region_within_the_picture():
    other = painted(painted(WHITE, (0, 0, 4, 4), 0), (196, 146, 4, 4), 0)
    image = compare(WHITE, other).diff_image()
    assert image.getpixel((0, 6)) == image.getpixel((6, 0)) == RED
    assert image.getpixel((199, 143)) == image.getpixel((193, 149)) == RED


def test_diff_image_of_unequal_sizes_outlines_what_only_one_of_them_has():
    image = compare(WHITE, WHITE[:100, :120]).diff_image()
    assert image.size == (200, 150)
    assert image.getpixel((180, 130)) == (0, 0, 0)
    assert image.getpixel((197, 75)) == (0, 0, 0)
    assert image.getpixel((199, 75)) == RED
    assert image.getpixel((60, 50)) == (191, 191, 191)


def test_diff_image_hatches_all_outside_of_match_areas():
    pixels = np.asarray(compare(WHITE, CHANGED, areas=[Area(45, 45, 20, 20)]).diff_image())
    hatched = (pixels == BLUE).all(axis=2)
    assert hatched[:, :40].any(axis=1).all()
    assert not hatched[45:65, 45:65].any()


def test_screen_distance_tells_which_screen_it_is():
    screen, _ = pair("pointer_moved")
    assert compare(screen, screen).screen_distance == 0
    assert compare(drawn(seed=1), drawn(seed=2)).screen_distance > 8


def test_nothing_is_changed_in_the_pictures_given():
    left, right = drawn(seed=1), drawn(seed=2)
    outcome = compare(left, right, exclude=[(0, 0, 50, 50)])
    outcome.diff_image(), outcome.distance, outcome.screen_distance, outcome.summary
    assert (left == drawn(seed=1)).all() and (right == drawn(seed=2)).all()
    assert compare(*(np.broadcast_to(picture, picture.shape) for picture in (left, left)))  # read-only


# -- keeping pictures --------------------------------------------------------------------------------------------------


def test_content_key_is_of_pixels_and_size_never_of_file_bytes(tmp_path):
    image = Image.fromarray(drawn())
    image.save(tmp_path / "a.png")
    image.save(tmp_path / "a.bmp")
    image.save(tmp_path / "a.webp", lossless=True)
    keys = {screens.content_key(tmp_path / name) for name in ("a.png", "a.bmp", "a.webp")}
    assert keys == {screens.content_key(drawn())} == {screens.content_key(image.convert("RGBA"))}
    assert len(keys.pop()) == 16
    assert screens.content_key(painted(drawn(), (0, 0, 1, 1), 0)) != screens.content_key(drawn())
    assert screens.content_key(WHITE) != screens.content_key(WHITE.reshape(200, 150, 3))


def test_content_key_never_changes_between_versions():
    # cassettes hold it: another value would orphan every recorded screen
    assert screens.content_key(solid((1, 2, 3), (2, 1))) == "0c387648e50406c5"


@pytest.mark.parametrize("size", [(1, 1), (3, 2), (200, 150), (1280, 800)])
def test_to_png_keeps_every_pixel(size):
    screen = drawn(*size)
    with Image.open(io.BytesIO(screens.to_png(screen))) as image:
        assert (image.format, image.mode, image.size) == ("PNG", "RGB", size)
        assert (np.asarray(image) == screen).all()


def test_to_png_works_without_isal(monkeypatch):
    monkeypatch.setitem(sys.modules, "isal", None)
    with Image.open(io.BytesIO(screens.to_png(drawn()))) as image:
        assert (np.asarray(image) == drawn()).all()


def test_to_webp_keeps_every_pixel_in_less_than_png():
    screen = PAIRS / "pointer_moved-expected.png"
    data = screens.to_webp(screen)
    with Image.open(io.BytesIO(data)) as image:
        assert image.format == "WEBP"
        assert compare(screen, image, tolerance="exact")
    assert len(data) * 1.5 < len(screens.to_png(screen))


def test_importing_screens_imports_neither_imagehash_nor_scipy():
    code = "import sys, pytest_cua.screens; print([name for name in sys.modules if name in ('imagehash', 'scipy')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
