"""`dpsql tune`: what its command line says, and its proposals as text."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from dp_sql.cli.grid import table
from dp_sql.errors import ParameterError
from dp_sql.privacy.amount import show
from dp_sql.tune import MOST, Ends, Setting, Tuning


def read_bounds(texts: Sequence[str]) -> dict[str, Ends | None]:
    """Return the bounds of `--bounds column=low:high`, None for a column alone. Raises ParameterError."""
    found: dict[str, Ends | None] = {}
    for text in texts:
        name, equals, ends = text.partition("=")
        low, colon, high = ends.partition(":")
        if not name or (equals and not (low.strip() and colon and high.strip())):
            raise ParameterError(f"{text!r} isn't column=low:high.", hint="--bounds amount=0:1000")
        found[name.strip()] = (low.strip(), high.strip()) if equals else None
    return found


def tuning_text(tuning: Tuning, name: str, width: int | None = None) -> str:
    """Return the candidates as tables, and the lines to paste. name: of the table."""
    parts = [_setting_text(setting, tuning, width) for setting in tuning.settings]
    lines = "".join(f"    {line}\n" for line in tuning.yaml)
    return "\n".join([*parts, f"To paste below {name} in the schema file:\n{lines}"])


def _setting_text(setting: Setting, tuning: Tuning, width: int | None) -> str:
    head = [setting.name, f"{setting.counted} cut", f"deviation of {setting.of}", ""]
    rows = [
        [
            c.value + ("+" if c.value == str(MOST) and setting.counted == "persons" else ""),
            f"{float(c.cut):.0%}",
            "" if c.deviation is None else _short(c.deviation),
            "proposed" if c.proposed else "",
        ]
        for c in setting.candidates
    ]
    note = (
        f"Shares are off by up to {_short(setting.error)} {setting.counted}; the deviation is at "
        f"epsilon {show(tuning.epsilon)}.\n"
    )
    return table(head, rows, [True, True, True, False], width) + note


def _short(number: float) -> str:
    """Return a number with three digits that count, without an exponent."""
    return format(Decimal(f"{number:.3g}"), "f")
