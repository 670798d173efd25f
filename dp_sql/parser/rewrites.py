"""Calls that aren't answered, in the words that are: other databases' names, and DuckDB's own.

Each is a hint; the statement with it instead is shown where it is answered (`parser.advice`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

_Args = tuple[str, ...]
_Rule = str | Callable[[_Args], str | None]

_NOW = "TIMESTAMP '2024-01-31 12:00:00'"
_TODAY = "DATE '2024-01-31'"
_WORD = re.compile(r"'?([A-Za-z]+)'?")
_TEXT = re.compile(r"'([^']*)'")
_FORMATS = {  # of Oracle and PostgreSQL -> of strftime; longer ones first
    "YYYY": "%Y", "MONTH": "%B", "HH24": "%H", "HH12": "%I", "MON": "%b", "DAY": "%A", "DDD": "%j",
    "YY": "%y", "MM": "%m", "DD": "%d", "HH": "%I", "MI": "%M", "SS": "%S", "DY": "%a", "AM": "%p",
}  # fmt: skip
_FORMAT = re.compile("|".join(_FORMATS), re.IGNORECASE)


def _unit(text: str) -> str | None:
    found = _WORD.fullmatch(text)
    return None if found is None else found[1].lower()


def _format(text: str) -> str | None:
    """Return a format for strftime as a constant, from one such as 'YYYY-MM'."""
    found = _TEXT.fullmatch(text)
    if found is None:
        return None
    return f"'{found[1] if '%' in found[1] else _FORMAT.sub(_strftime, found[1])}'"


def _strftime(found: re.Match[str]) -> str:
    return _FORMATS[found[0].upper()]


def _interval(count: str, unit: str) -> str:
    return f"INTERVAL {count if count.isdecimal() else f'({count})'} {unit}"


def _moved(args: _Args) -> str | None:
    """Return DATEADD(unit, n, x) or DATE_ADD(x, n) as a sum."""
    match args:
        case (unit, count, value) if _unit(unit) is not None:
            return f"({value} + {_interval(count, (_unit(unit) or '').upper())})"
        case (value, count):
            return f"({value} + {_interval(count, 'DAY')})"
        case _:
            return None


def _apart(args: _Args) -> str | None:
    """Return TIMESTAMPDIFF(unit, a, b), or GoogleSQL's TIMESTAMP_DIFF(b, a, unit), as DATE_DIFF."""
    if len(args) != 3:
        return None
    if _unit(args[0]) is not None and not args[0].islower():
        return f"date_diff('{_unit(args[0])}', {args[1]}, {args[2]})"
    return f"date_diff('{_unit(args[2])}', {args[1]}, {args[0]})" if _unit(args[2]) else None


def _written(args: _Args) -> str | None:
    if len(args) == 1:
        return f"CAST({args[0]} AS VARCHAR)"
    found = _format(args[1]) if len(args) == 2 else None
    return None if found is None else f"strftime({args[0]}, {found})"


def _read(value: int, pattern: int, type_: str) -> _Rule:
    def rule(args: _Args) -> str | None:
        if len(args) == 1:
            return f"TRY_CAST({args[0]} AS {type_})"
        found = _format(args[pattern]) if len(args) == 2 else None
        return None if found is None else f"CAST(strptime({args[value]}, {found}) AS {type_})"

    return rule


def _quantile(args: _Args) -> str | None:
    if len(args) != 2:
        return None
    places = re.fullmatch(r"[0-9]{1,3}", args[1])
    share = f"{int(args[1]) / 100:g}" if places and int(args[1]) > 1 else args[1]
    return f"quantile_cont({args[0]}, {share})"


def _is_null(args: _Args) -> str | None:
    return f"({args[0]}) IS NULL" if len(args) == 1 else f"coalesce({', '.join(args)})"


def _decoded(args: _Args) -> str | None:
    if len(args) < 3:
        return None
    pairs = list(zip(args[1::2], args[2::2], strict=False))
    other = f" ELSE {args[-1]}" if len(args) % 2 == 0 else ""
    return f"CASE {args[0]}{''.join(f' WHEN {a} THEN {b}' for a, b in pairs)}{other} END"


def _named(args: _Args) -> str | None:
    name = {"month": "monthname", "weekday": "dayname", "dw": "dayname"}.get(
        _unit(args[0]) or "" if len(args) == 2 else ""
    )
    return None if name is None else f"{name}({args[1]})"


_FUNCTIONS: Mapping[str, _Rule] = {
    **dict.fromkeys("now getdate sysdate current_timestamp localtimestamp sysdatetime".split(), _NOW),
    **dict.fromkeys("getutcdate transaction_timestamp get_current_timestamp".split(), _NOW),
    **dict.fromkeys(("current_date", "today", "curdate"), _TODAY),
    **dict.fromkeys("dateadd date_add adddate timestampadd timestamp_add".split(), _moved),
    **dict.fromkeys(("timestampdiff", "timestamp_diff"), _apart),
    "add_months": "({0} + INTERVAL ({1}) MONTH)",
    "months_between": "date_diff('month', {1}, {0})",
    "eomonth": "last_day({0})",
    "datename": _named,
    "to_char": _written,
    "date_format": "strftime({0}, {1})",
    "to_date": _read(0, 1, "DATE"),
    "str_to_date": _read(0, 1, "DATE"),
    "parse_date": _read(1, 0, "DATE"),
    "parse_timestamp": _read(1, 0, "TIMESTAMP"),
    **dict.fromkeys(("to_timestamp", "from_unixtime"), "epoch_ms(1000 * CAST({0} AS BIGINT))"),
    **dict.fromkeys(("unix_timestamp", "to_unixtime"), "epoch({0})"),
    "epoch_ns": "(epoch_us({0}) * 1000)",
    "nanosecond": "(microsecond({0}) * 1000)",
    "make_timestamp_ms": "epoch_ms({0})",
    "nvl2": "CASE WHEN {0} IS NOT NULL THEN {1} ELSE {2} END",
    "iff": "if({0}, {1}, {2})",
    "isnull": _is_null,
    "isnan": "({0}) IS NULL",
    "zeroifnull": "coalesce({0}, 0)",
    "nullifzero": "nullif({0}, 0)",
    "nanvl": "coalesce({0}, {1})",
    "decode": _decoded,
    "initcap": "upper(left({0}, 1)) || lower(substring({0}, 2))",
    "substring_index": "split_part({0}, {1}, {2})",
    "stuff": "overlay({0}, {3}, {1}, {2})",
    "replicate": "repeat({0}, {1})",
    "space": "repeat(' ', {0})",
    **dict.fromkeys(("btrim", "strip"), "trim({0})"),
    "mid": "substring({0}, {1}, {2})",
    "regexp_substr": "regexp_extract({0}, {1})",
    "regexp_contains": "regexp_matches({0}, {1})",
    "regexp_count": "len(regexp_extract_all({0}, {1}))",
    **dict.fromkeys(("sgn", "signum"), "sign({0})"),
    "square": "power({0}, 2)",
    "log1p": "ln(1 + {0})",
    "expm1": "(exp({0}) - 1)",
    "signbit": "({0}) < 0",
    "width_bucket": "(floor(({0} - {1}) / ({2} - {1}) * {3}) + 1)",
    **dict.fromkeys("hash md5_number checksum crc32 farm_fingerprint".split(),
                    "md5_number_lower(CAST({0} AS VARCHAR))"),
    **dict.fromkeys(("sha2", "sha512"), "sha256({0})"),
    **dict.fromkeys("json_value json_extract_scalar get_json_object".split(),
                    "json_extract_string({0}, {1})"),
    "url_decode": "replace({0}, '%20', ' ')",
    **dict.fromkeys(("to_base64", "base64", "encode"), "hex({0})"),
    "to_base": "hex({0})",
    "octet_length": "strlen({0})",
    "parse_path": "parse_filename({0})",
    **dict.fromkeys(("mean", "average"), "avg({0})"),
    "stdev": "stddev({0})",
    "stdevp": "stddev_pop({0})",
    "var": "var_samp({0})",
    "varp": "var_pop({0})",
    "correl": "corr({0}, {1})",
    **dict.fromkeys("percentile percentile_approx approx_percentile".split(), _quantile),
    **dict.fromkeys(("count_distinct", "countdistinct", "uniq"), "count(DISTINCT {0})"),
    "every": "bool_and({0})",
    "some": "bool_or({0})",
    "sumif": "sum({0}) FILTER (WHERE {1})",
    "avgif": "avg({0}) FILTER (WHERE {1})",
}  # fmt: skip

_AGGREGATES: Mapping[str, _Rule] = {
    **dict.fromkeys(
        "list array_agg string_agg group_concat listagg".split(), "count(DISTINCT {0})"
    ),
    **dict.fromkeys("first last any_value arbitrary".split(), "mode({0})"),
    **dict.fromkeys("fsum kahan_sum sumkahan sum_no_overflow".split(), "sum({0})"),
    "favg": "avg({0})",
    "product": "exp(sum(clamp(ln({0}), 0, 10)))",
    **dict.fromkeys(("geomean", "geometric_mean"), "exp(avg(clamp(ln({0}), 0, 10)))"),
    **{
        name: f"sample_and_aggregate('{name}', {{0}}, -5, 20, 25)"
        for name in ("kurtosis", "kurtosis_pop", "skewness")
    },
    "mad": "sample_and_aggregate('mad', {0}, 0, 100, 25)",
    "sem": "(stddev({0}) / sqrt(count({0})))",
    **dict.fromkeys(("reservoir_quantile", "approx_quantile"), _quantile),
    "entropy": "count(DISTINCT {0})",
    "approx_top_k": "top_k({0}, {1})",
}


def function(name: str, args: _Args) -> str | None:
    """Return what to write instead of a call of a function, None where nothing is known."""
    return _applied(_FUNCTIONS.get(name.lower()), args)


def moment(name: str) -> str | None:
    """Return a constant in the place of a word for the time of asking, None for every other word."""
    found = _FUNCTIONS.get(name.lower())
    return found if found in (_NOW, _TODAY) and isinstance(found, str) else None


def aggregate(name: str, args: _Args) -> str | None:
    """Return what to write instead of an aggregate, None where nothing is known."""
    return _applied(_AGGREGATES.get(name.lower()), args)


def _applied(rule: _Rule | None, args: _Args) -> str | None:
    if rule is None:
        return None
    try:
        return rule.format(*args) if isinstance(rule, str) else rule(args)
    except IndexError:
        return None
