"""Baselines on disk: what is written, what is kept, and what a damaged one says."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pytest
from PIL import Image

from pytest_cua import screens
from pytest_cua.assertions.areas import Area, load_baseline, save_baseline
from pytest_cua.errors import BadArgument, CassetteUnreadable, CassetteUnwritable

NOW = datetime(2026, 11, 30, 10, 42, 7, 999, tzinfo=UTC)
SCREEN = np.random.default_rng(1).integers(0, 255, (60, 80, 3), np.uint8)
CLOCK = Area(50, 40, 30, 20, type="exclude")


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "test_invoice" / "baselines"


def save(folder, name="saved", image=SCREEN, **options):
    return save_baseline(folder, name, image, **{"state": "proposed", "now": NOW, **options})


def edit(folder, **values):
    path = folder / "saved.json"
    about = json.loads(path.read_text("utf-8"))
    about.update(values)
    path.write_text(json.dumps({key: value for key, value in about.items() if value is not ...}), "utf-8")


def test_what_is_saved_is_loaded(folder):
    saved = save(folder, state="accepted", areas=[CLOCK], tolerance="exact")
    loaded = load_baseline(folder, "saved")

    assert loaded == saved
    assert screens.compare(loaded.image, SCREEN, tolerance="exact")
    assert (loaded.name, loaded.state, loaded.areas) == ("saved", "accepted", (CLOCK,))
    assert (loaded.size, loaded.tolerance) == ((80, 60), "exact")
    assert loaded.recorded_at == datetime(2026, 11, 30, 10, 42, 7, tzinfo=UTC)


def test_json_is_for_people_and_for_reviews(folder):
    save(folder, areas=[Area(1, 2, 3, 4, margin=5)])
    assert (folder / "saved.json").read_bytes().decode() == (
        "{\n"
        '  "areas": [\n'
        "    {\n"
        '      "height": 4,\n'
        '      "margin": 5,\n'
        '      "type": "match",\n'
        '      "width": 3,\n'
        '      "xpos": 1,\n'
        '      "ypos": 2\n'
        "    }\n"
        "  ],\n"
        '  "format": 1,\n'
        '  "recorded_at": "2026-11-30T10:42:07Z",\n'
        '  "size": [\n'
        "    80,\n"
        "    60\n"
        "  ],\n"
        '  "state": "proposed"\n'
        "}\n"
    )


def test_nothing_but_the_two_files_is_left_and_others_may_read_them(folder):
    save(folder)
    save(folder)
    assert sorted(path.name for path in folder.iterdir()) == ["saved.json", "saved.png"]
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o666 & ~mask}


def test_no_picture_is_no_baseline(folder):
    assert load_baseline(folder, "saved") is None
    save(folder, "other")
    assert load_baseline(folder, "saved") is None


def test_a_new_picture_keeps_areas_and_tolerance(folder):
    save(folder, state="accepted", areas=[CLOCK], tolerance="perceptual")
    other = SCREEN[::-1]
    save(folder, image=other, now=NOW + timedelta(days=1))
    loaded = load_baseline(folder, "saved")

    assert screens.compare(loaded.image, other, tolerance="exact")
    assert (loaded.areas, loaded.tolerance, loaded.state) == ((CLOCK,), "perceptual", "proposed")
    assert loaded.recorded_at.day == 1


def test_areas_are_kept_for_the_next_picture_when_the_picture_was_deleted(folder):
    save(folder, areas=[CLOCK])
    (folder / "saved.png").unlink()
    assert load_baseline(folder, "saved") is None
    assert save(folder).areas == (CLOCK,)


def test_areas_that_are_given_replace_those_that_are_there(folder):
    save(folder, areas=[CLOCK])
    assert save(folder, areas=[]).areas == ()
    assert load_baseline(folder, "saved").areas == ()


def test_an_area_outside_of_the_new_picture_is_refused_and_nothing_is_written(folder):
    save(folder, areas=[CLOCK])
    before = {path: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(BadArgument, match=r"area 30x20 at \(50, 40\).* outside the picture of 70x60"):
        save(folder, image=SCREEN[:, :70])
    assert {path: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize(
    "name", ["", ".", "..", "a/b", "../a", "a.png", "-rf", "_a", "two words", "ä", "a\n", "a" * 101, 5]
)
def test_a_name_that_could_lead_elsewhere_is_refused(folder, name):
    for call in (lambda: load_baseline(folder, name), lambda: save(folder, name)):
        with pytest.raises(BadArgument, match="a baseline cannot be called"):
            call()
    assert not folder.exists()


def test_a_refused_name_comes_with_a_good_one(folder):
    with pytest.raises(BadArgument, match="call it 'invoice-saved'"):
        save(folder, "invoice saved!")
    save(folder, "Invoice_saved-2")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"state": "approved"}, "known: proposed, accepted"),
        ({"now": datetime(2026, 1, 1)}, "time zone"),
        ({"tolerance": "fuzzy"}, "known: exact, strict, perceptual"),
        ({"image": np.zeros((3, 3))}, "uint8"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_written(folder, options, message):
    with pytest.raises(BadArgument, match=message):
        save(folder, **options)
    assert not folder.exists()


def test_times_are_kept_in_utc(folder):
    save(folder, now=datetime(2026, 11, 30, 12, 0, tzinfo=timezone(timedelta(hours=2))))
    assert json.loads((folder / "saved.json").read_text())["recorded_at"] == "2026-11-30T10:00:00Z"


# -- damage ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"format": 2}, "format is 2, this version reads 1"),
        ({"format": ...}, "format is None"),
        ({"state": "ok"}, "state is 'ok'"),
        ({"state": ...}, "has no 'state'"),
        ({"arreas": []}, "unknown key 'arreas'"),
        ({"size": [80]}, "size is"),
        ({"size": [81, 60]}, "does not belong to saved.png: it says 81x60, the picture is 80x60"),
        ({"areas": {}}, "not a list"),
        ({"areas": [{"xpos": 1}]}, "has no ypos"),
        ({"areas": [{"xpos": 70, "ypos": 1, "width": 30, "height": 4}]}, "outside the picture"),
        ({"areas": [{"xpos": "1", "ypos": 1, "width": 3, "height": 4}]}, "not a whole number"),
        ({"tolerance": "fuzzy"}, "tolerance='fuzzy' is unknown"),
        ({"recorded_at": "yesterday"}, "recorded_at is 'yesterday'"),
        ({"recorded_at": "2026-11-30T10:42:00"}, "recorded_at is"),
    ],
)
def test_a_wrong_value_in_the_json_names_the_file_and_the_fix(folder, values, message):
    save(folder)
    edit(folder, **values)
    with pytest.raises(CassetteUnreadable, match=message) as caught:
        load_baseline(folder, "saved")
    assert str(folder / "saved.json") in caught.value.message
    assert f"git checkout -- {folder / 'saved.png'} {folder / 'saved.json'}" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"null"])
def test_json_that_is_none_names_the_file(folder, data):
    save(folder)
    (folder / "saved.json").write_bytes(data)
    with pytest.raises(CassetteUnreadable, match=r"saved\.json"):
        load_baseline(folder, "saved")


@pytest.mark.parametrize("cut", [0, 20, 200])
def test_a_damaged_picture_names_the_file(folder, cut):
    save(folder)
    path = folder / "saved.png"
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(CassetteUnreadable, match=r"saved\.png is damaged"):
        load_baseline(folder, "saved")


def test_a_picture_without_its_json_is_not_taken_for_accepted(folder):
    save(folder, state="accepted")
    (folder / "saved.json").unlink()
    with pytest.raises(CassetteUnreadable, match=r"saved\.json is missing"):
        load_baseline(folder, "saved")


def test_saving_does_not_replace_areas_that_cannot_be_read(folder):
    save(folder, areas=[CLOCK])
    (folder / "saved.json").write_text("{ <<<<<<< HEAD")
    with pytest.raises(CassetteUnreadable):
        save(folder)
    assert (folder / "saved.json").read_text() == "{ <<<<<<< HEAD"


def test_a_picture_saved_by_another_program_is_read_as_well(folder):
    save(folder)
    Image.fromarray(SCREEN).convert("RGBA").save(folder / "saved.png", optimize=True)
    assert screens.compare(load_baseline(folder, "saved").image, SCREEN, tolerance="exact")


def test_a_folder_that_cannot_be_made_names_the_file_and_the_reason(tmp_path):
    (tmp_path / "baselines").write_text("a file where the folder should be")
    with pytest.raises(
        CassetteUnwritable, match=r"saved\.\w+ cannot be written: (File exists|Not a directory)"
    ) as caught:
        save(tmp_path / "baselines")
    assert str(tmp_path / "baselines") in str(caught.value)


def test_a_file_that_cannot_be_read_names_it_and_the_reason(folder):
    (folder / "saved.png").mkdir(parents=True)
    with pytest.raises(CassetteUnreadable, match=r"saved\.png cannot be read: Is a directory"):
        load_baseline(folder, "saved")


def test_a_file_that_cannot_be_replaced_leaves_nothing_behind(folder):
    (folder / "saved.png").mkdir(parents=True)
    with pytest.raises(CassetteUnwritable, match=r"saved\.png cannot be written: Is a directory"):
        save(folder, state="accepted")
    assert [path.name for path in folder.iterdir()] == ["saved.png"]


@pytest.mark.parametrize(("old", "new"), [("accepted", "proposed"), ("proposed", "accepted"), ("accepted", "accepted")])
def test_stopped_between_the_files_a_picture_nobody_accepted_is_not_accepted(folder, monkeypatch, old, new):
    save(folder, state=old)
    other = SCREEN[::-1]
    replaced = []
    replace = type(folder).replace

    def stop_after_the_first(path, target):
        if replaced:
            raise KeyboardInterrupt
        replaced.append(replace(path, target))

    monkeypatch.setattr(type(folder), "replace", stop_after_the_first)
    with pytest.raises(KeyboardInterrupt):
        save(folder, image=other, state=new)

    loaded = load_baseline(folder, "saved")
    is_new = bool(screens.compare(loaded.image, other))
    assert loaded.state == "proposed" or not is_new or new == "accepted"
    assert sorted(path.name for path in folder.iterdir()) == ["saved.json", "saved.png"]
