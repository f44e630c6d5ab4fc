"""The Claude client and the table of models.

The table is data: what a model accepts is looked up, never guessed from its name. Sources: the model pages of
platform.claude.com as of November 2026, and `anthropic.types.model` of SDK 2.14.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import anthropic

from pytest_cua.errors import BadArgument
from pytest_cua.trace import Usage
from pytest_cua.versions import TOOLSET, VERSIONS

ADAPTIVE: Mapping[str, Any] = MappingProxyType({"type": "adaptive", "display": "summarized"})
REPLAY_KEY = "replay-needs-no-key"


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """What one model accepts.

    Attributes:
        computer_tools: The computer tool versions it takes on the Claude API, the preferred one first.
        thinking: The `thinking` parameter to send; None sends none.
        max_tokens: The most tokens of one reply; the SDK refuses more than 21,333 without streaming.
        long_edge, image_tokens: Image limits of its tier: longest edge in pixels and visual tokens (28-pixel patches).
        max_images: The most images in one conversation.
        usd_in, usd_out: Dollars per million input and output tokens; None where not published.
    """

    computer_tools: tuple[str, ...] = (TOOLSET,)
    thinking: Mapping[str, Any] | None = field(default_factory=lambda: ADAPTIVE)
    max_tokens: int = 16_000
    long_edge: int = 2576
    image_tokens: int = 4784
    max_images: int = 600
    usd_in: float | None = None
    usd_out: float | None = None


_OLD, _OLDER = "computer_20251124", "computer_20250124"
MODELS: Mapping[str, ModelInfo] = MappingProxyType(
    {
        "claude-opus-5-5": ModelInfo(),
        "claude-sonnet-5-5": ModelInfo(usd_in=2.0, usd_out=10.0),
        "claude-haiku-5-5": ModelInfo(usd_in=0.10, usd_out=0.50),
        "claude-fable-5-2": ModelInfo(),
        "claude-mythos-5-2": ModelInfo(),
        "claude-fable-5-1": ModelInfo(),
        "claude-mythos-5-1": ModelInfo(),
        "claude-fable-5": ModelInfo(computer_tools=(TOOLSET, _OLD)),
        "claude-mythos-5": ModelInfo(computer_tools=(TOOLSET, _OLD)),
        "claude-opus-5": ModelInfo(computer_tools=(TOOLSET, _OLD)),
        "claude-sonnet-5": ModelInfo(computer_tools=(TOOLSET, _OLD)),
        "claude-opus-4-8": ModelInfo(computer_tools=(TOOLSET, _OLD)),
        "claude-opus-4-7": ModelInfo(computer_tools=(_OLD,)),
        "claude-opus-4-6": ModelInfo(computer_tools=(_OLD,), long_edge=1568, image_tokens=1568),
        "claude-sonnet-4-6": ModelInfo(computer_tools=(_OLD,), long_edge=1568, image_tokens=1568),
        # these think only with a budget, which a test does not need
        "claude-opus-4-5": ModelInfo(computer_tools=(_OLD,), thinking=None, long_edge=1568, image_tokens=1568),
        "claude-haiku-4-5": ModelInfo(
            computer_tools=(_OLDER,), thinking=None, long_edge=1568, image_tokens=1568, max_images=100
        ),
        "claude-sonnet-4-5": ModelInfo(computer_tools=(_OLDER,), thinking=None, long_edge=1568, image_tokens=1568),
        # retired on the Claude API; for those who are served it elsewhere
        "claude-3-5-sonnet": ModelInfo(
            computer_tools=("computer_20241022",),
            thinking=None,
            max_tokens=8192,
            long_edge=1568,
            image_tokens=1568,
            max_images=100,
        ),
    }
)
UNKNOWN_MODEL = ModelInfo(thinking=None)


def model_info(model: str) -> ModelInfo:
    """What the model accepts; a dated name is that of its model, and one that is not in the table a current one."""
    undated = re.sub(r"-\d{8}$", "", model)
    return MODELS.get(model) or MODELS.get(undated) or UNKNOWN_MODEL


def computer_version(model: str, asked: str = "auto") -> str:
    """The version of the computer tool that a model is given.

    Args:
        model: The model.
        asked: "auto" for the newest that it takes; else the version, whatever the table says.

    Raises:
        BadArgument: There is no such version.
    """
    if asked == "auto":
        return model_info(model).computer_tools[0]
    if asked not in VERSIONS:
        raise BadArgument(f"{asked!r} is no version of the computer tool: use auto, {', '.join(VERSIONS)}.")
    return asked


def usage_of(message: Any, model: str) -> Usage:
    """The usage of one reply, priced by the table of models."""
    usage = message.usage
    read = getattr(usage, "cache_read_input_tokens", None) or 0
    created = getattr(usage, "cache_creation_input_tokens", None) or 0
    info = model_info(model)
    cost = None
    if info.usd_in is not None and info.usd_out is not None:
        # cached input is read at a tenth of the price and written at five quarters of it (prompt caching, 5 minutes)
        paid_in = usage.input_tokens + 0.1 * read + 1.25 * created
        cost = (paid_in * info.usd_in + usage.output_tokens * info.usd_out) / 1_000_000
    return Usage(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cache_read_input_tokens=read,
        cache_creation_input_tokens=created,
        cost_usd=cost,
    )


def live_client() -> anthropic.Anthropic:
    """The client of the environment: `ANTHROPIC_API_KEY`, `ANTHROPIC_BASE_URL` and the SDK's other variables."""
    return anthropic.Anthropic()


@functools.cache  # it holds no state of a test, and making one takes some 60 ms
def replay_client() -> anthropic.Anthropic:
    """A client that can reach nobody: its middleware answers, and a dummy key keeps the SDK from looking for one."""
    return anthropic.Anthropic(api_key=REPLAY_KEY, base_url="http://replay.invalid", max_retries=0)
