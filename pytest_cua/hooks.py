"""The hooks of this plugin that a `conftest.py` or another plugin may implement."""

from __future__ import annotations

from typing import Any


def pytest_cua_tools(item: Any) -> list[Any] | None:
    """Give Claude more tools in the steps of a test.

    Args:
        item: The test, a `pytest.Item`.

    Returns:
        "bash", "editor", or functions that `anthropic.beta_tool` made tools of; they come before those of the marker.
    """
