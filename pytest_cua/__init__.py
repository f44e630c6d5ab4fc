"""pytest-cua: record a desktop or browser test in sentences with Claude once, replay it deterministically.

```python
from pytest_cua import expect


def test_note(cua):
    cua.desktop.launch("mousepad", "note.txt")
    cua.do("Write 'hello' into the document and save it")
    expect(cua.desktop.file("note.txt")).to_have_text("hello\\n")
```

Everything is loaded when it is first used: importing the package costs a test run nothing to speak of.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pytest_cua.agent.cua import Cua
    from pytest_cua.agent.flow import flow
    from pytest_cua.agent.outcome import Opinion, StepResult
    from pytest_cua.assertions.expect import expect
    from pytest_cua.desktop.desktop import Desktop, DesktopFile, Program, Window
    from pytest_cua.errors import (
        BadArgument,
        Blocked,
        CassetteMismatch,
        CassetteMissing,
        CassetteUnreadable,
        CassetteUnwritable,
        CuaError,
        CuaFailure,
        CuaWarning,
        DesktopDied,
        ExpectFailure,
        LaunchFailed,
        MissingProgram,
        ModelRefused,
        NeedsApplication,
        NotDelivered,
        ScreenDrift,
        SecretLeaked,
        SetupError,
        StepFailed,
        UndeclaredRequest,
        VacuousTest,
    )
    from pytest_cua.screens import Area, Comparison, compare
    from pytest_cua.secrets import Secret
    from pytest_cua.settings import Settings
    from pytest_cua.tools.bash import Bash
    from pytest_cua.tools.edit import Editor
    from pytest_cua.tools.scripted import Computer

_ERRORS = [
    "BadArgument",
    "Blocked",
    "CassetteMismatch",
    "CassetteMissing",
    "CassetteUnreadable",
    "CassetteUnwritable",
    "CuaError",
    "CuaFailure",
    "CuaWarning",
    "DesktopDied",
    "ExpectFailure",
    "LaunchFailed",
    "MissingProgram",
    "ModelRefused",
    "NeedsApplication",
    "NotDelivered",
    "ScreenDrift",
    "SecretLeaked",
    "SetupError",
    "StepFailed",
    "UndeclaredRequest",
    "VacuousTest",
]
_HOMES = {
    "expect": "assertions.expect",
    "flow": "agent.flow",
    "Cua": "agent.cua",
    "Opinion": "agent.outcome",
    "StepResult": "agent.outcome",
    "Desktop": "desktop.desktop",
    "DesktopFile": "desktop.desktop",
    "Program": "desktop.desktop",
    "Window": "desktop.desktop",
    "Area": "screens",
    "Comparison": "screens",
    "compare": "screens",
    "Bash": "tools.bash",
    "Computer": "tools.scripted",
    "Editor": "tools.edit",
    "Secret": "secrets",
    "Settings": "settings",
    **dict.fromkeys(_ERRORS, "errors"),
}

__all__ = [
    "Area",
    "BadArgument",
    "Bash",
    "Blocked",
    "CassetteMismatch",
    "CassetteMissing",
    "CassetteUnreadable",
    "CassetteUnwritable",
    "Comparison",
    "Computer",
    "Cua",
    "CuaError",
    "CuaFailure",
    "CuaWarning",
    "Desktop",
    "DesktopDied",
    "DesktopFile",
    "Editor",
    "ExpectFailure",
    "LaunchFailed",
    "MissingProgram",
    "ModelRefused",
    "NeedsApplication",
    "NotDelivered",
    "Opinion",
    "Program",
    "ScreenDrift",
    "Secret",
    "SecretLeaked",
    "Settings",
    "SetupError",
    "StepFailed",
    "StepResult",
    "UndeclaredRequest",
    "VacuousTest",
    "Window",
    "compare",
    "expect",
    "flow",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'pytest_cua' has no attribute {name!r}")
    value = getattr(import_module(f"pytest_cua.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
