r"""What `\set` changes: how answers are shown. Its epsilon and delta are the session's, as SET's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from dp_sql.amounts import Amounts
from dp_sql.cli.render import Format
from dp_sql.dataclass import dataclass
from dp_sql.errors import ParameterError
from dp_sql.privacy.amount import show
from dp_sql.schema.catalog import PrivacyDefaults

AMOUNTS = ("epsilon", "delta")  # which the connection keeps


@dataclass(frozen=True, slots=True)
class Settings:
    """epsilon, delta: decimal texts of the command line, None for the session's.

    within, confidence: such texts too, None where no accuracy is asked for.
    """

    epsilon: str | None = None
    delta: str | None = None
    within: str | None = None
    confidence: str | None = None
    format: Format = Format.TABLE
    intervals: bool = True

    def lines(self, session: Amounts, defaults: PrivacyDefaults) -> list[str]:
        """Return each setting with its value. defaults: what holds where the session has none."""
        return [
            f"epsilon    {_or_default(session.epsilon, defaults.epsilon)}",
            f"delta      {_or_default(session.delta, defaults.delta)}",
            f"format     {self.format.value}",
            f"intervals  {'on' if self.intervals else 'off'}",
        ]


def changed(settings: Settings, name: str, value: str) -> Settings:
    """Return the settings with one changed. Raises ParameterError for a name or value that isn't."""
    change = _CHANGES.get(name.lower())
    if change is None:
        raise ParameterError(
            f"there is no setting {name!r}.", hint=f"one of {', '.join(SETTING_NAMES)}"
        )
    return change(settings, value)


def format_named(name: str) -> Format:
    """Return the format of that name, or raise ParameterError."""
    try:
        return Format(name.lower())
    except ValueError:
        raise ParameterError(
            f"there is no format {name!r}.", hint=f"one of {', '.join(Format)}"
        ) from None


def _format(settings: Settings, value: str) -> Settings:
    return replace(settings, format=format_named(value))


def _intervals(settings: Settings, value: str) -> Settings:
    if value.lower() not in ("on", "off"):
        raise ParameterError(f"intervals are on or off, not {value!r}.", hint="\\set intervals on")
    return replace(settings, intervals=value.lower() == "on")


_CHANGES: Mapping[str, Callable[[Settings, str], Settings]] = {
    "format": _format,
    "intervals": _intervals,
}
SETTING_NAMES = (*AMOUNTS, *_CHANGES)


def _or_default(value: Fraction | None, default: Fraction | None) -> str:
    if value is not None:
        return show(value)
    return "not set" if default is None else f"{show(default)} (the schema's default)"
