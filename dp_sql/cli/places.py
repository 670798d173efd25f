"""Where dpsql keeps what belongs to a user: the demo's ledger and the shell's history."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from dp_sql.errors import EngineError, LedgerError

_NAME = "dp_sql"


def user_folder(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> Path:
    """Return the folder of the user's data, whether it exists or not.

    DPSQL_HOME wins; else it is %LOCALAPPDATA% on Windows, Application Support on macOS and
    XDG_DATA_HOME or ~/.local/share elsewhere. Raises EngineError where there is no home folder.
    """
    chosen = environ.get("DPSQL_HOME")
    if chosen:
        return Path(chosen).expanduser().absolute()
    if platform == "win32":
        base = environ.get("LOCALAPPDATA")
        return (Path(base) if base else _home() / "AppData" / "Local") / _NAME
    if platform == "darwin":
        return _home() / "Library" / "Application Support" / _NAME
    base = environ.get("XDG_DATA_HOME", "")
    # a relative XDG_DATA_HOME is to be ignored, says the XDG base directory specification
    return (Path(base) if Path(base).is_absolute() else _home() / ".local" / "share") / _NAME


def make_user_folder() -> Path:
    """Return the folder of the user's data, made for this user alone if it wasn't there.

    Raises EngineError where it can't be made.
    """
    folder = user_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise EngineError(
            f"the folder {str(folder)!r} can't be made: {error.strerror}.",
            hint="set DPSQL_HOME to a folder that you may write",
        ) from None
    return folder


def private_file(path: Path) -> Path:
    """Return `path`, made empty and readable by its owner alone if it wasn't there."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    return path


def forget(ledger: Path) -> None:
    """Delete a ledger and the files that SQLite keeps beside it. Raises LedgerError where it can't."""
    try:
        for end in ("", "-wal", "-shm", "-journal", ".answers"):
            ledger.with_name(ledger.name + end).unlink(missing_ok=True)
    except OSError as error:
        raise LedgerError(
            f"the ledger {str(ledger)!r} can't be deleted: {error.strerror}.",
            hint="close what uses it, or set DPSQL_HOME to another folder",
        ) from None


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise EngineError(
            "this user has no home folder.", hint="set DPSQL_HOME to a folder that you may write"
        ) from None
