"""The names of column types -> SqlType."""

from __future__ import annotations

import re

from dp_sql.schema.document import Problem, nearest, shorten
from dp_sql.schema.sqltype import Kind, SqlType

# Names as DuckDB reads them. FLOAT is four bytes wide there, INT8 eight.
_ALIASES: dict[Kind, tuple[str, ...]] = {
    Kind.BOOLEAN: ("boolean", "bool", "logical"),
    Kind.TINYINT: ("tinyint", "int1"),
    Kind.SMALLINT: ("smallint", "int2", "int16", "short"),
    Kind.INTEGER: ("integer", "int", "int4", "int32", "signed"),
    Kind.BIGINT: ("bigint", "int8", "int64", "long"),
    Kind.HUGEINT: ("hugeint", "int128"),
    Kind.UTINYINT: ("utinyint", "uint8"),
    Kind.USMALLINT: ("usmallint", "uint16"),
    Kind.UINTEGER: ("uinteger", "uint32"),
    Kind.UBIGINT: ("ubigint", "uint64"),
    Kind.FLOAT: ("float", "float4", "real"),
    Kind.DOUBLE: ("double", "float8", "double precision"),
    Kind.VARCHAR: ("varchar", "text", "string", "char", "bpchar"),
    Kind.DATE: ("date",),
    Kind.TIMESTAMP: ("timestamp", "datetime", "timestamp without time zone"),
    Kind.TIME: ("time", "time without time zone"),
    Kind.UUID: ("uuid",),
}
ALIASES = {name: kind for kind, names in _ALIASES.items() for name in names}
DECIMAL_NAMES = ("decimal", "numeric", "dec")
SUPPORTED = ", ".join(
    (*(names[0] for names in _ALIASES.values()), "decimal(p,s)")
)  # as messages list them

_CALL = re.compile(
    r"(?P<name>[a-z_]+) ?\( ?(?P<first>[0-9]{1,9}) ?(, ?(?P<second>[0-9]{1,9}) ?)?\)"
)
_ZONED = ("timestamptz", "timestamp with time zone", "timetz", "time with time zone")


def parse_type(text: str) -> SqlType:
    """Return the type that `text` names, without regard to case; raise Problem for any other.

    DECIMAL without arguments is DECIMAL(18,3), with one DECIMAL(p,0), as in DuckDB.
    """
    name = " ".join(text.lower().split())
    if name in ALIASES:
        return SqlType(ALIASES[name])
    if name in DECIMAL_NAMES:
        return SqlType(Kind.DECIMAL, 18, 3)
    if call := _CALL.fullmatch(name):
        if call["name"] in DECIMAL_NAMES:
            return _decimal(int(call["first"]), int(call["second"] or 0))
        if ALIASES.get(call["name"]) is Kind.VARCHAR and call["second"] is None:
            raise Problem(
                f"{shorten(text)} has a length; a length is a key of its own.",
                hint=f"{{type: varchar, max_length: {call['first']}}}",
            )
    if name in _ZONED:
        raise Problem(
            f"the type {shorten(text)} has a time zone, which is not supported yet.",
            hint="store the column in UTC as timestamp, or declare a date",
        )
    near = nearest(name.partition("(")[0], (*ALIASES, *DECIMAL_NAMES))
    raise Problem(
        f"{shorten(text)} is not a supported type. "
        f"{f'Did you mean `{near}`? ' if near else ''}Supported: {SUPPORTED}.",
        hint="leave the column out of the schema if no query needs it",
    )


def _decimal(precision: int, scale: int) -> SqlType:
    """Return DECIMAL(precision, scale), or raise Problem."""
    if not (1 <= precision <= 38 and 0 <= scale <= precision):
        raise Problem(
            f"decimal({precision},{scale}) is out of range: the precision is 1 to 38, the scale 0 "
            "to the precision.",
            hint='"decimal(12,2)"',
        )
    return SqlType(Kind.DECIMAL, precision, scale)


KEY_TYPES = "integers, varchar, uuid, date and decimals without digits after the point"


def can_own(type_: SqlType) -> bool:
    """Return whether values of the type can be a privacy key or a foreign key to one.

    Claim:   equal keys are the same bits, so a unit's rows are found whatever computed the key.
    Why:     integers, text, UUIDs, dates and whole decimals have one representation a value;
             floats have two zeros and many NaNs, and are rounded on the way.
    Assumes: both sides of a foreign key are declared with types of one family (`key_family`).
    Source:  [IEEE754]
    """
    return key_family(type_) is not None


def key_family(type_: SqlType) -> str | None:
    """Return which other key types a key of this type may be compared with, or None for no key."""
    if type_.is_integer or (type_.kind is Kind.DECIMAL and type_.scale == 0):
        return "whole numbers"
    names = {Kind.VARCHAR: "text", Kind.UUID: "UUIDs", Kind.DATE: "dates"}
    return names.get(type_.kind)
