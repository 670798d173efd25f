"""Extreme values of every type, for tests that look for expressions that raise."""

from __future__ import annotations

from dp_sql.plan.conversion import decimal_of_steps
from dp_sql.schema.sqltype import INTEGER_BITS, Kind, SqlType

LONG = "x" * 12_000


def extreme_values(type_: SqlType) -> list[str]:
    """Return extreme values of a type, as texts that DuckDB casts to it."""
    kind = type_.kind
    if kind in INTEGER_BITS:
        low, high = INTEGER_BITS[kind]
        near = [low, low + 1, high, high - 1, 0, 1, 2, 5, 15, 99, high // 2]
        return [str(v) for v in near] + (["-1", "-7"] if low < 0 else [])
    if kind is Kind.DECIMAL:
        most = 10**type_.precision - 1
        near = [most, -most, most - 1, 0, 1, -1, 5 * 10**type_.scale // 10, 25, 10**type_.scale]
        return [f"{decimal_of_steps(n, type_.scale):f}" for n in near]
    return {
        Kind.BOOLEAN: ["true", "false"],
        Kind.FLOAT: "nan inf -inf -0.0 0.0 3.4e38 -3.4e38 1e-45 -1e-45 0.1 -2.5 16777217".split(),
        Kind.DOUBLE: (
            "nan inf -inf -0.0 0.0 1.7e308 -1.7e308 5e-324 -5e-324 0.1 0.5 1.5 2.5 -2.5 1 -1 2 "
            "9007199254740993 1e18 9.3e18 -1e39 710"
        ).split(),
        Kind.VARCHAR: [
            *(
                "",
                "a",
                "É%_\\",
                "İ ß",
                "👍🏽",
                " a\tb ",
                "-1",
                "1e400",
                "nan",
                "-0.0",
                "1.5",
                " 5 ",
            ),
            *("2020-02-30", "2020-02-29", "2020-02-29 12:34:56.789", "99999999999", "true", LONG),
            *(
                '{"a":{"b":1,"a b":"\\ud83d\\ude00"},"b":[true,null]}',
                "[1,[2],-0.0,1e300]",
                '{"a":',
            ),
            *('"\\ud800"', "99999999999999999999999999", "[" * 3000, "null", "a\nb\r"),
            *("\0", "\ufeff", "\U0010ffff", "e\u0301\u0301", "\u202e\u0000\ufffe", "ﬃ\u00ad"),
            *("infinity", "12:00:00", "0x1F", "1e-320", "00000000-0000-0000-0000-000000000001"),
        ],
        Kind.DATE: [
            *("1970-01-01", "2020-02-29", "0001-01-01", "9999-12-31", "2024-12-30", "1969-12-31"),
            *("5881580-07-10", "5877642-06-25 (BC)", "10000-01-01", "0001-12-31 (BC)"),
            *("infinity", "-infinity"),
        ],
        Kind.TIMESTAMP: [
            *("1970-01-01 00:00:00", "1969-12-31 23:59:59.999999", "2020-02-29 13:14:15.161718"),
            *("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "294247-01-10 04:00:54.775806"),
            *("290309-12-22 (BC) 00:00:00", "infinity", "-infinity", "2024-12-30 00:00:00"),
        ],
        Kind.TIME: ["00:00:00", "23:59:59.999999", "24:00:00", "12:34:56.7"],
        Kind.INTERVAL: ["0 days", "1 month", "30 days", "-1 day", "24 hours", "178000000 years"],
        Kind.UUID: ["00000000-0000-0000-0000-000000000000", "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    }[kind]
