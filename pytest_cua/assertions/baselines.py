"""`to_have_screenshot`: the screen against its accepted picture, and what becomes of a picture that is new.

| | no baseline | another picture |
|---|---|---|
| while recording | written as proposed, passes | fails; one that is only proposed is proposed anew |
| `--cua-update=missing` | written as accepted, passes | fails |
| `--cua-update=changed` | fails | written as accepted, passes |
| `--cua-update=all` | written as accepted, passes | written as accepted, passes |
| else | fails | fails |
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pytest_cua import screens
from pytest_cua.assertions.areas import Baseline, load_baseline, save_baseline
from pytest_cua.desktop.masks import masks_of
from pytest_cua.errors import CassetteUnwritable, pytest_command

if TYPE_CHECKING:
    from PIL import Image

    from pytest_cua.observe import TestContext

FOLDER = "baselines"


class ScreenshotCheck:
    """One `to_have_screenshot`: compares, and settles what is written and what fails.

    Args:
        context: The test.
        desktop: Name of the desktop, for the message.
        name: Name of the baseline.
        areas, exclude, tolerance, max_distance: As `screens.compare` takes them.
    """

    def __init__(
        self,
        context: TestContext,
        desktop: str,
        name: str,
        *,
        areas: Sequence[Any],
        exclude: Sequence[Any],
        tolerance: str,
        max_distance: int | None,
    ) -> None:
        screens.check_tolerance(tolerance)
        self._context = context
        context.compared.add(name)
        self._desktop = desktop
        self._name = name
        self._folder = context.folder / FOLDER
        self._baseline: Baseline | None = load_baseline(self._folder, name)
        kept = self._baseline.areas if self._baseline else ()
        given = [area if isinstance(area, screens.Area) else screens.Area(*area) for area in areas]
        self._areas = given or [area for area in kept if area.type == "match"]
        self._exclude = [*exclude, *(area for area in kept if area.type == "exclude")]
        self._tolerance = tolerance
        self._max_distance = max_distance

    def compare(self, image: Image.Image) -> screens.Comparison | None:
        """The comparison with the baseline, None when there is none."""
        if self._baseline is None:
            return None
        return screens.compare(
            self._baseline.image,
            image,
            tolerance=self._tolerance,
            areas=self._areas,
            exclude=[*self._exclude, *_excluding(image)],
            max_distance=self._max_distance,
        )

    def settle(self, result: tuple[Image.Image, screens.Comparison | None]) -> tuple[str, ...] | None:
        """Write what is to be written; the message and hints of a failure, or None."""
        image, comparison = result
        update = "" if self._context.is_offline else self._context.settings.update
        if comparison is None:
            if update in ("missing", "all"):
                self._write(image, "accepted")
                return None
            if self._context.recording:
                self._write(image, "proposed")
                return None
            return self.missing()
        if comparison.same:
            return None
        if self._context.recording and self._baseline is not None and self._baseline.state == "proposed":
            self._write(image, "proposed")  # nobody has accepted the other one yet
            return None
        if update in ("changed", "all"):
            self._write(image, "accepted")
            return None
        return self._differs(image, comparison)

    def _write(self, image: Image.Image, state: Any) -> None:
        try:
            save_baseline(
                self._folder,
                self._name,
                image,
                state=state,
                now=dt.datetime.now(dt.UTC),
                areas=self._with_masks(image),
            )
        except OSError as error:
            where, why = error.filename or self._folder, error.strerror or error
            raise CassetteUnwritable(
                f"The baseline {self._name!r} cannot be written: {where}: {why}.",
                f"make the folder writable: {self._folder}",
            ) from None
        self._context.notes.append(f"baseline {self._name}: {state} {self._folder / self._name}.png")

    def _with_masks(self, image: Image.Image) -> list[screens.Area] | None:
        """The areas of the baseline and what is painted over in its picture; None keeps them as they are."""
        kept = self._baseline.areas if self._baseline else ()
        new = [area for area in _excluding(image) if area not in kept]
        return [*kept, *new] if new else None

    def missing(self) -> tuple[str, ...]:
        """Message and hint: there is no baseline."""
        return (
            f"There is no baseline {self._name!r} to compare desktop {self._desktop} with: "
            f"{self._folder / self._name}.png does not exist.",
            f"look at the screen and accept it: {pytest_command('--cua-update=missing', test=self._context.test)}",
        )

    def _differs(self, image: Image.Image, comparison: screens.Comparison) -> tuple[str, ...]:
        folder = self._context.artifacts
        folder.mkdir(parents=True, exist_ok=True)
        actual, diff = folder / f"{self._name}-actual.png", folder / f"{self._name}-diff.png"
        image.save(actual)
        comparison.diff_image().save(diff)
        recorded = " (as recorded)" if self._context.is_offline else ""
        proposed = " (proposed, not yet accepted)" if self._baseline and self._baseline.state == "proposed" else ""
        limit = f", allowed {self._max_distance if self._max_distance is not None else 4}"
        allowed = limit if self._tolerance == "perceptual" else ""
        return (
            f"desktop {self._desktop}{recorded} does not show the baseline {self._name!r}{proposed}. "
            f"{comparison.summary} "
            f"(perceptual distance {comparison.distance} of 64 bits in the worst tile{allowed})\n"
            f"  baseline: {self._folder / self._name}.png\n"
            f"  actual:   {actual}\n"
            f"  diff:     {diff}",
            f"if the change is meant: {pytest_command('--cua-update=changed', test=self._context.test)}",
        )


def _excluding(image: Image.Image) -> list[screens.Area]:
    """What is painted over in a picture because a secret was typed there, as areas that never count."""
    return [screens.Area(*box, type="exclude") for box in masks_of(image)]


def accept_proposed(folder: Path) -> list[Path]:
    """Accept the proposed baselines in a test's folder; returns their pictures."""
    accepted = []
    for path in sorted((folder / FOLDER).glob("*.png")):
        baseline = load_baseline(folder / FOLDER, path.stem)
        if baseline is not None and baseline.state == "proposed":
            save_baseline(folder / FOLDER, path.stem, baseline.image, state="accepted", now=baseline.recorded_at)
            accepted.append(path)
    return accepted
