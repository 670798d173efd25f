"""How failures are told: one clear message, and nothing of the data in it."""

from __future__ import annotations

import traceback

from dp_sql.errors import DPSQLError


def message_of(error: BaseException) -> str:
    """Return what to print for an error.

    A DPSQLError tells it itself. Of any other, a bug, only its type and place are shown: its text
    might hold what a row holds.
    """
    if isinstance(error, DPSQLError):
        return f"Error ({error.code}): {error}"
    frames = traceback.extract_tb(error.__traceback__)
    place = f" at {frames[-1].filename}:{frames[-1].lineno}" if frames else ""
    return f"Error (internal): {type(error).__name__}{place}; this is a bug in dp_sql, please report it"
