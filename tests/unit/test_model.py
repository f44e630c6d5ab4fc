"""Which tool a model is given, and what is known of models."""

from __future__ import annotations

import pytest

from pytest_cua.errors import BadArgument
from pytest_cua.model import MODELS, computer_version, model_info
from pytest_cua.testing._validate import MODELS as RULES
from pytest_cua.versions import TOOLSET, VERSIONS


@pytest.mark.parametrize(
    ("model", "version"),
    [
        ("claude-sonnet-5-5", TOOLSET),
        ("claude-opus-4-8", TOOLSET),
        ("claude-opus-4-7", "computer_20251124"),
        ("claude-haiku-4-5-20251001", "computer_20250124"),
        ("claude-3-5-sonnet-20241022", "computer_20241022"),
        ("claude-of-tomorrow", TOOLSET),
    ],
)
def test_the_model_decides_on_the_version(model: str, version: str) -> None:
    assert computer_version(model) == version
    assert computer_version(model, "computer_20250124") == "computer_20250124"


def test_a_version_that_does_not_exist_is_told() -> None:
    with pytest.raises(BadArgument, match=r"computer_2030.* is no version .* auto, computer_toolset_20260801"):
        computer_version("claude-sonnet-5-5", "computer_2030")


@pytest.mark.parametrize("model", MODELS)
def test_the_scripted_server_takes_what_the_table_gives(model: str) -> None:
    assert set(model_info(model).computer_tools) == RULES[model].computers
    assert model_info(model).max_images == RULES[model].max_images
    tier = RULES[model].tier
    assert (model_info(model).long_edge, model_info(model).image_tokens) == (tier.edge, tier.patches)
    assert set(model_info(model).computer_tools) <= set(VERSIONS)
