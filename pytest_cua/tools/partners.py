"""Bash and the text editor as tools of a step: their definitions, and the session each goes on with on a desktop."""

from __future__ import annotations

from typing import Any

from anthropic.tools import ToolError

from pytest_cua.tools.around import Live, Recorded
from pytest_cua.tools.edit import EDITORS, Editor
from pytest_cua.tools.plain import Calls, PlainTool, Result
from pytest_cua.trace import Action


def session_of(name: str, desktop: Any) -> Any:
    """A new session of bash or the editor on a desktop; `close` ends it."""
    if name == "bash":
        from pytest_cua.tools.bash import Bash

        return Bash(desktop)
    return Editor(desktop)


class BashTool(PlainTool):
    """Claude's bash tool, on the shell of a desktop or from a recording.

    Args:
        version: `bash_20250124` or `bash_20241022`.
        session: The shell; None where results come from a recording.
        around, calls, confirm: As for `PlainTool`.
    """

    def __init__(self, version: str, session: Any, around: Live | Recorded, calls: Calls, **more: Any) -> None:
        super().__init__(around, calls, **more)
        self._version = version
        self._session = session

    def to_dict(self) -> Any:
        """Its definition."""
        return {"type": self._version, "name": "bash"}

    def work(self, action: Action) -> Result:
        """Run a command, or restart the shell."""
        text, is_error = self._session.call(action.input)
        if is_error:
            raise ToolError(text)
        return str(text)


class EditorTool(PlainTool):
    """Claude's text editor tool, on the files of a desktop or from a recording.

    Args:
        version: Such as `text_editor_20250728`.
        session: The editor; None where results come from a recording.
        around, calls, confirm: As for `PlainTool`.
    """

    def __init__(self, version: str, session: Any, around: Live | Recorded, calls: Calls, **more: Any) -> None:
        super().__init__(around, calls, **more)
        self._version = version
        self._editor = Editor(session.desktop, version=version) if session is not None else None

    def to_dict(self) -> Any:
        """Its definition."""
        return {"type": self._version, "name": EDITORS[self._version].name}

    def work(self, action: Action) -> Result:
        """View or change a file."""
        assert self._editor is not None
        return self._editor.call(action.input)
