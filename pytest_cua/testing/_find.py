"""Finding texts and pictures on a screenshot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image


class NotOnScreen(Exception):
    pass


@dataclass(frozen=True)
class Box:
    x: int
    y: int
    width: int
    height: int
    score: float = 1.0

    @property
    def center(self) -> tuple[int, int]:
        return self.x + self.width // 2, self.y + self.height // 2


def find_text(image: Image.Image, text: str, **options: Any) -> Box:
    raise NotOnScreen


def find_template(image: Image.Image, template: Image.Image | str | Path, **options: Any) -> Box:
    raise NotOnScreen
