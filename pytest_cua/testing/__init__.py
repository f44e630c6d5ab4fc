"""Public helpers to test suites that use pytest-cua: a scripted Claude, a window that writes down what it is given, and
finding things on a screenshot.
"""

from __future__ import annotations

from pytest_cua.desktop.probe import ProbeEvent, ProbeWindow
from pytest_cua.testing._find import Box, NotOnScreen, find_template, find_text
from pytest_cua.testing._script import (
    Failure,
    Raw,
    ScriptedRequest,
    ScriptEnded,
    ToolResult,
    Turn,
    by_sentence,
    disconnect,
    error,
    finish,
    raw,
    say,
    think,
    turn,
    use,
    use_tool,
)
from pytest_cua.testing._server import SCRIPTED_HEADER, Rejection, ScriptedClaude

__all__ = [
    "SCRIPTED_HEADER",
    "Box",
    "Failure",
    "NotOnScreen",
    "ProbeEvent",
    "ProbeWindow",
    "Raw",
    "Rejection",
    "ScriptEnded",
    "ScriptedClaude",
    "ScriptedRequest",
    "ToolResult",
    "Turn",
    "by_sentence",
    "disconnect",
    "error",
    "find_template",
    "find_text",
    "finish",
    "raw",
    "say",
    "think",
    "turn",
    "use",
    "use_tool",
]
