"""What files were before the editor changed them, on disk, so that another process can undo an edit.

Each edit is one file, written beside and renamed: a line of JSON, then the old content as it was.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Undo:
    """One edit that can be undone.

    Args:
        name: The file, relative to HOME, with links resolved.
        before: Its content; None when it was not there.
        after: The digest of what the edit wrote.
        made: How many directories above it the edit has made.
    """

    name: str
    before: bytes | None
    after: str
    made: int = 0


class History:
    """The edits that can be undone, the newest of each file first. The caller holds a lock.

    Args:
        directory: Where they are kept.
        per_file: Edits of one file that are kept.
        most_bytes: What all of them may take; the oldest go first, the newest always stays.
    """

    def __init__(self, directory: Path, *, per_file: int = 20, most_bytes: int = 100_000_000) -> None:
        self._directory = directory
        self._per_file = per_file
        self._most_bytes = most_bytes

    def add(self, undo: Undo) -> None:
        """Keep an edit.

        Raises:
            OSError: the disk is full.
        """
        self._directory.mkdir(mode=0o700, exist_ok=True)
        entries = self._entries()
        number = int(entries[-1].name.partition(".")[0]) + 1 if entries else 1
        values = {key: value for key, value in asdict(undo).items() if key != "before"}
        header = json.dumps({**values, "existed": undo.before is not None}).encode()
        new = self._directory / "new"
        try:
            new.write_bytes(header + b"\n" + (undo.before or b""))
            new.rename(self._directory / f"{number:012}.{_key(undo.name)}")
        except OSError:
            new.unlink(missing_ok=True)
            raise
        self._shrink(_key(undo.name))

    def last(self, name: str) -> Undo | None:
        """The newest edit of a file, None when there is none."""
        entries = self._entries(_key(name))
        if not entries:
            return None
        header, _, before = entries[-1].read_bytes().partition(b"\n")
        values: dict[str, Any] = json.loads(header)
        existed = values.pop("existed")
        return Undo(before=before if existed else None, **values)

    def drop(self, name: str) -> None:
        """Forget the newest edit of a file."""
        for entry in self._entries(_key(name))[-1:]:
            entry.unlink()

    def _entries(self, key: str = "*") -> list[Path]:
        """From the oldest to the newest."""
        return sorted(self._directory.glob(f"[0-9]*.{key}"))

    def _shrink(self, key: str) -> None:
        for entry in self._entries(key)[: -self._per_file]:
            entry.unlink()
        entries = self._entries()
        size = sum(entry.stat().st_size for entry in entries)
        for entry in entries[:-1]:
            if size <= self._most_bytes:
                return
            size -= entry.stat().st_size
            entry.unlink()


def digest(data: bytes) -> str:
    """What tells one content from another."""
    return hashlib.sha256(data).hexdigest()


def _key(name: str) -> str:
    return digest(name.encode("utf-8", "surrogateescape"))[:32]
