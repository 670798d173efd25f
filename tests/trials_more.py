"""Trials of the functions that analysts use: texts, patterns, dates, bits, real numbers, JSON, lists."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from trials import (
    DATED,
    FAR,
    FAR_SECOND,
    FAR_THIRD,
    INTEGERS,
    NUMBERS,
    TINYINT,
    UBIGINT,
    UTINYINT,
    Trial,
)

from dp_sql.plan.expression import IntervalValue
from dp_sql.schema import sqltype

TEXT = sqltype.VARCHAR
LONG = "(coalesce(strlen({0}), 0) > 1000 OR coalesce(strlen({1}), 0) > 1000)"
UNITS = (
    "microsecond millisecond second minute hour day week month quarter year decade century".split()
)


def more_texts() -> Iterator[Trial]:
    one = "ascii unicode strlen bit_length reverse md5 sha1 sha256 nfc_normalize strip_accents"
    for name in one.split():
        yield Trial(name, (TEXT,), f"{name}({{0}})")
    yield Trial("strpos", (TEXT, TEXT), "strpos({0}, {1})")
    for part in ("", "a", "👍", "-", None):
        yield Trial("strpos", (TEXT, part), "strpos({0}, {1})")
    for name, size, filled in itertools.product(("lpad", "rpad"), (0, 3, 1000), ("x", "É👍🏽")):
        yield Trial(name, (TEXT, size, filled), f"{name}({{0}}, {{1}}, {{2}})")
    for copies in (0, 1, 3, 1000):
        lost = f"strlen({{0}}) > {10_000 // max(1, copies)}"
        yield Trial("repeat", (TEXT, copies), "repeat({0}, {1})", lost)
    for separator, place in itertools.product(("-", "", "É", "x"), (0, 1, 2, -1, 2**31 - 1)):
        yield Trial("split_part", (TEXT, separator, place), "split_part({0}, {1}, {2})")
    for old, new in (("", ""), ("ax", "é"), ("É👍", "e"), ("a", "bc"), ("xx", "yz")):
        yield Trial("translate", (TEXT, old, new), "translate({0}, {1}, {2})")
    long = "coalesce(strlen({1}), 0) + coalesce(strlen({2}), 0) > 9000"
    for between in ("", "-", "É" * 40):
        yield Trial("concat_ws", (between, TEXT, TEXT), "concat_ws({0}, {1}, {2})", long)
        yield Trial("concat_ws", (between, sqltype.DATE), "concat_ws({0}, {1})")
    for type_ in INTEGERS:
        yield Trial("chr", (type_,), "chr(CAST({0} AS INTEGER))")


PATTERNS = (
    "", "a", "^[a-z]+$", "É|👍", "(a)(b)?", "\\d{4}-\\d{2}", "(?i)É", "x{3,5}?", "[[:alpha:]_-]", ".*",
    "\\bx", "(?:a|)*", "^$", "(x)*$", "\\.", " ",
)  # fmt: skip


def patterns() -> Iterator[Trial]:
    for pattern in PATTERNS:
        for name in ("regexp_matches", "regexp_full_match"):
            yield Trial(name, (TEXT, pattern), f"{name}({{0}}, {{1}})")
            yield Trial(name, (TEXT, pattern, "is"), f"{name}({{0}}, {{1}}, {{2}})")
        yield Trial("regexp_extract", (TEXT, pattern), "regexp_extract({0}, {1})")
        group = int("(a" in pattern or "(x" in pattern)
        yield Trial("regexp_extract", (TEXT, pattern, group), "regexp_extract({0}, {1}, {2})")
        yield Trial("regexp_extract", (TEXT, pattern, 0, "m"), "regexp_extract({0}, {1}, {2}, {3})")
        for new in ("", "é", "\\0\\0", "<\\\\>", "a longer text"):
            call = "regexp_replace({0}, {1}, {2})"
            yield Trial("regexp_replace", (TEXT, pattern, new), call, "strlen({0}) > 3000")
            call = "regexp_replace({0}, {1}, {2}, {3})"
            yield Trial("regexp_replace", (TEXT, pattern, new, "g"), call, "strlen({0}) > 700")
    for pattern in ("", "*", "a*", "[!a]*", "[a", "[", "\\*", "?", "É?", "[]", "[a-", "[^]"):
        yield Trial("glob", (TEXT, pattern), "({0} GLOB {1})")
    for name, pattern in itertools.product(("like", "ilike"), ("", "a!%", "!!", "%!_%", "É!!%")):
        word = name.upper()
        escaped = f"({{0}} {word} {{1}} ESCAPE {{2}})"
        yield Trial(f"{name}_escape", (TEXT, pattern, "!"), escaped)


def distances() -> Iterator[Trial]:
    for name in (
        "levenshtein damerau_levenshtein hamming jaccard jaro_similarity jaro_winkler_similarity"
    ).split():
        yield Trial(name, (TEXT, TEXT), f"{name}({{0}}, {{1}})", LONG)
        yield Trial(name, (TEXT, "É1"), f"{name}({{0}}, {{1}})", LONG)


def reals() -> Iterator[Trial]:
    names = (
        "sin cos tan cot asin acos atan sinh cosh tanh asinh acosh atanh cbrt degrees radians gamma "
        "lgamma even isfinite isinf"
    ).split()
    for type_ in NUMBERS:
        for name in names:
            yield Trial(name, (type_,), f"{name}({{0}}::DOUBLE)")
        for name in ("atan2", "fmod"):
            yield Trial(name, (type_, sqltype.DOUBLE), f"{name}({{0}}::DOUBLE, {{1}})")
            yield Trial(name, (sqltype.DOUBLE, type_), f"{name}({{0}}, {{1}}::DOUBLE)")
        for base in (2, 3, 0.5):
            yield Trial("log", (base, type_), "log({0}::DOUBLE, {1}::DOUBLE)")
        for places in (0, 1, 2, 11, 300, -1, -2, -38, -39, -300):
            yield Trial("trunc", (type_, places), "trunc({0}, {1})")
    yield Trial("pi", (), "pi()")


def bits() -> Iterator[Trial]:
    for first, second in itertools.product(INTEGERS, INTEGERS):
        for name in ("&", "|", "<<", ">>"):
            yield Trial(name, (first, second), f"({{0}} {name} {{1}})")
        yield Trial("xor", (first, second), "xor({0}, {1})")
        far = "abs({0}::DOUBLE) > 1e18 OR abs({1}::DOUBLE) > 1e18"
        yield Trial("gcd", (first, second), "gcd({0}, {1})", far)
        yield Trial("lcm", (first, second), "lcm({0}, {1})", far)
    for type_ in INTEGERS:
        yield Trial("~", (type_,), "(~{0})")
        yield Trial("bit_count", (type_,), "bit_count({0})")
        yield Trial("factorial", (type_,), "factorial(CAST({0} AS INTEGER))")
        for amount in (0, 1, 7, -1, 200):
            yield Trial("<<", (type_, amount), "({0} << {1})")
            yield Trial(">>", (type_, amount), "({0} >> {1})")


WIDTHS = (IntervalValue(months=1), IntervalValue(months=37), IntervalValue(days=7))
WIDTHS += (IntervalValue(microseconds=3_600_000_000), IntervalValue(1_000_000))
WIDTHS += (IntervalValue(days=1_000_000),)
FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S.%f", "%d/%m/%y", "%j %b %a %p %I", "%-d%-m%-y%%", "x")
OF_INTERVALS = (
    "day month quarter year decade century millennium hour minute second millisecond microsecond"
).split()


def instants() -> Iterator[Trial]:
    for type_ in DATED:
        for name in ("epoch_ms", "epoch_us", "days_in_month"):
            yield Trial(name, (type_,), f"{name}({{0}})", FAR)
        for width in WIDTHS:
            yield Trial("time_bucket", (width, type_), "time_bucket({0}, {1})", FAR_SECOND)
            origin = ("2001-02-03",)
            yield Trial(
                "time_bucket",
                (width, type_, *origin),
                f"time_bucket({{0}}, {{1}}, {type_} {{2}})",
                FAR_SECOND,
            )
        for other, unit in itertools.product(DATED, UNITS):
            lost = f"({FAR_SECOND}) OR ({FAR_THIRD})"
            yield Trial("date_sub", (unit, type_, other), "date_sub({0}, {1}, {2})", lost)
        for other in DATED:
            yield Trial("age", (type_, other), "age({0}, {1})", f"({FAR}) OR ({FAR_SECOND})")
    for integer in INTEGERS:
        beyond = "abs({0}::DOUBLE) > 2e14"
        yield Trial("epoch_ms", (integer,), "epoch_ms(CAST({0} AS BIGINT))", beyond)
        number = "make_timestamp(CAST({0} AS BIGINT))"
        yield Trial("make_timestamp", (integer,), number, "abs({0}::DOUBLE) > 6e16")
        far = "{0} NOT BETWEEN 1 AND 9999"
        yield Trial(
            "make_date", (integer, 2, 29), "make_date({0}::BIGINT, {1}::BIGINT, {2}::BIGINT)", far
        )
        yield Trial(
            "make_date", (2023, integer, 31), "make_date({0}::BIGINT, {1}::BIGINT, {2}::BIGINT)"
        )
        yield Trial(
            "make_date", (2023, 2, integer), "make_date({0}::BIGINT, {1}::BIGINT, {2}::BIGINT)"
        )
        whole = "make_timestamp({0}::BIGINT, {1}, {2}, {3}::BIGINT, {4}::BIGINT, {5})"
        yield Trial("make_timestamp", (integer, 1, 1, 0, 0, 0.5), whole, far)
        yield Trial("make_timestamp", (2024, 1, 1, integer, 0, 0), whole, "{3} = 24")
        yield Trial("make_timestamp", (2024, 2, 29, 23, integer, 59.999), whole)
    yield Trial(
        "make_timestamp",
        (2024, 12, 31, 23, 59, sqltype.DOUBLE),
        "make_timestamp({0}, {1}, {2}, {3}, {4}, {5})",
        "{5} >= 60",
    )
    for pattern in FORMATS:
        for name in ("strptime", "try_strptime"):
            yield Trial(name, (TEXT, pattern), f"{name}({{0}}, {{1}})")
    for part in OF_INTERVALS:
        yield Trial(part, (sqltype.INTERVAL,), f"{part}({{0}})")
        yield Trial("date_part", (part, sqltype.INTERVAL), "date_part({0}, {1})")


PATHS = ("a", "$", "$.a", "$.b[0]", '$."a b"', "$[#-1]", "/a/0", 0, -1, "É 1")


def json_texts() -> Iterator[Trial]:
    yield Trial("json_valid", (TEXT,), "json_valid({0})")
    for name in ("json_type", "json_array_length"):
        yield Trial(name, (TEXT,), f"{name}({{0}})")
    for path in PATHS:
        others = ("json_type", "json_array_length", "json_exists") if isinstance(path, str) else ()
        for name in ("json_extract_string", *others):
            yield Trial(name, (TEXT, path), f"{name}({{0}}, {{1}})")
        yield Trial("json_extract", (TEXT, path), "CAST(json_extract({0}, {1}) AS VARCHAR)")


def lists() -> Iterator[Trial]:
    for name in ("list_contains", "list_position"):
        for type_ in NUMBERS:
            yield Trial(name, (type_, 0, None, 5), f"{name}([{{1}}, {{2}}, {{3}}], {{0}})")
        for type_ in DATED:
            yield Trial(
                name,
                (type_, "2020-02-29", "1970-01-01"),
                f"{name}([{type_} {{1}}, {type_} {{2}}], {{0}})",
            )
        yield Trial(name, (TEXT, "", "É%_\\"), f"{name}([{{1}}, {{2}}], {{0}})")
        yield Trial(name, (sqltype.BOOLEAN, True), f"{name}([{{1}}], {{0}})")
    for type_ in (TINYINT, UTINYINT, sqltype.INTEGER, sqltype.BIGINT):
        yield Trial("list_extract", (type_, "a", None, "É"), "list_extract([{1}, {2}, {3}], {0})")
        yield Trial("list_extract", (type_, 3, 0.5), "list_extract([{1}::DOUBLE, {2}], {0})")
    for type_ in (UBIGINT, sqltype.HUGEINT):
        plain = "list_extract([{1}, {2}], TRY_CAST({0} AS BIGINT))"
        yield Trial("list_extract", (type_, "a", "b"), plain)


GROUPS = (more_texts, patterns, distances, reals, bits, instants, json_texts, lists)
