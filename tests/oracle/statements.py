"""Random statements over the small schema: mostly answerable, every construct below the release."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import TypeVar

T = TypeVar("T")

NUMBERS = ("x", "n", "p", "f", "m")
"""Logical names of the bounded numeric columns."""

PAIRS = (
    "COVAR_POP", "COVAR_SAMP", "REGR_SXY", "REGR_SXX", "REGR_SYY", "REGR_AVGX", "REGR_AVGY", "REGR_COUNT",
    "CORR", "REGR_SLOPE", "REGR_INTERCEPT", "REGR_R2",
)  # fmt: skip
"""Aggregates of two arguments; DuckDB's last four are NULL or NaN, or rounding errors, over constants."""


@dataclass(frozen=True)
class Source:
    """A FROM clause: text before SELECT, text after FROM, and how a logical column is written.

    narrowed: the number of columns that only this source has, such as those of a public table.
    """

    before: str
    text: str
    names: dict[str, str]


SAMPLED = (
    "avg", "bool_or", "count", "kurtosis", "mad", "max", "median", "min", "mode", "skewness", "stddev_samp",
    "sum", "var_pop",
)  # fmt: skip
"""Aggregates over blocks."""


def statement(r: Random, *, user: bool, sampled: bool = False) -> str:
    """Return one aggregate statement. sampled: the first aggregate is over random blocks."""
    source = _source(r, user=user)
    write = Writer(r, source.names)
    keys = [write.key() for _ in range(_few(r, (0, 1, 1, 1, 2, 2, 3)))]
    aggregates = [write.aggregate(user=user) for _ in range(_few(r, (1, 1, 1, 2, 2, 3)))]
    if sampled:
        aggregates = [write.sampled(), *aggregates[1:2]]
    items = [f"{k} AS k{i}" for i, k in enumerate(keys)]
    items += [f"{a} AS a{i}" for i, a in enumerate(aggregates)]
    where = f" WHERE {write.condition(2)}" if r.random() < 0.4 else ""
    if not keys:
        group = ""
    elif r.random() < 0.3:
        group = " GROUP BY ALL"
    elif r.random() < 0.5:
        group = " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys)))
    elif r.random() < 0.6:
        group = " GROUP BY " + ", ".join(keys)
    else:
        several = pick(r, ("ROLLUP ({})", "CUBE ({})", "GROUPING SETS ({}, ())"))
        group = " GROUP BY " + several.format(", ".join(keys))
    return f"{source.before}SELECT {', '.join(items)} FROM {source.text}{where}{group}"


def vector_statement(r: Random, *, user: bool) -> str:
    """Return one statement with a sum of vectors."""
    source = _source(r, user=user)
    write = Writer(r, source.names)
    keys = [write.key() for _ in range(_few(r, (0, 0, 1, 1, 2)))]
    entries = [write.entry() for _ in range(_few(r, (1, 2, 2, 3, 5)))]
    norm = pick(r, ("0.3", "1", "2.5", "7", "1e9"))
    call = f"VECTOR_SUM([{', '.join(entries)}], {norm})"
    call += f" FILTER (WHERE {write.condition(1)})" if r.random() < 0.2 else ""
    more = f", {write.aggregate(user=user)} AS a1" if r.random() < 0.3 else ""
    items = "".join(f"{k} AS k{i}, " for i, k in enumerate(keys))
    where = f" WHERE {write.condition(2)}" if r.random() < 0.3 else ""
    group = f" GROUP BY {', '.join(keys)}" if keys else ""
    return f"{source.before}SELECT {items}{call} AS a0{more} FROM {source.text}{where}{group}"


def _few(r: Random, options: Sequence[int]) -> int:
    return pick(r, options)


def pick(r: Random, options: Sequence[T]) -> T:
    """Return one option; by index, so that a shrinking generator prefers the first."""
    return options[r.randrange(len(options))]


def _source(r: Random, *, user: bool) -> Source:
    names = {c: c for c in ("uid", "x", "n", "p", "f", "m", "z", "b", "s", "t", "d")}
    qualified = {k: f"v.{v}" for k, v in names.items()}
    joined = qualified | {"area": "g.area", "pop": "g.pop"}
    paired = qualified | {"area": "h.half", "w": "h.w"}
    inner = ", ".join(names)
    form = r.randrange(14)
    if form == 0:
        return Source("", "main.visits v", qualified)
    if form == 1:  # two columns change their names with each other
        swapped = names | {"x": "f", "f": "x"}
        body = inner.replace("x,", "x AS f,", 1).replace(" f,", " f AS x,", 1)
        return Source("", f"(SELECT {body} FROM visits) AS q", swapped)
    if form == 2:  # a column that looks like the owner
        body = inner.replace("uid,", "uid, n AS owner_, ", 1)
        return Source("", f"(SELECT {body} FROM visits WHERE x < 4 OR x IS NULL) AS q", names)
    if form == 3:
        before = f"WITH w AS (SELECT {inner} FROM visits), w2 AS (SELECT * FROM w WHERE NOT b) "
        return Source(before, "w2", names)
    if form == 4:
        body = inner.replace("x,", "x * 2 - p AS x,", 1)
        return Source(f"WITH visits2 AS (SELECT {body} FROM visits) ", "visits2", names)
    if form == 5:
        before = "WITH w(a, b0, c0) AS (SELECT f, x, s FROM visits) "
        return Source(before, "w", {"x": "b0", "f": "a", "n": "b0", "p": "b0", "m": "a", "s": "c0"})
    if form == 6:
        kind = pick(r, ("JOIN", "LEFT JOIN", "INNER JOIN"))
        return Source("", f"visits v {kind} regions g ON v.t = g.t", joined)
    if form == 7:
        return Source("", "regions AS g RIGHT JOIN visits v ON g.t = v.t AND g.pop > 0", joined)
    if form == 8:
        return Source("", "regions g, visits v", joined) if user else Source("", "visits", names)
    if form == 9 and user:
        kind = pick(r, ("JOIN", "LEFT JOIN"))
        return Source("", f"visits v {kind} pairs h ON v.n = h.n", paired)
    if form == 10 and user:
        merged = {k: v for k, v in paired.items() if k != "n"} | {"n": "n"}
        return Source("", "visits v JOIN pairs h USING (n)", merged)
    if form == 11:  # groups of public rows have each key once
        kind = pick(r, ("JOIN", "LEFT JOIN"))
        grouped = "(SELECT n, COUNT(*) AS k, MAX(half) AS half FROM pairs GROUP BY n)"
        return Source("", f"visits v {kind} {grouped} h ON v.n = h.n", qualified)
    if form == 12:
        return Source(
            "",
            "visits v, LATERAL (SELECT MAX(half), COUNT(*) FROM pairs h WHERE h.n = v.n) t(h, k)",
            qualified,
        )
    if form == 13:
        distinct = "(SELECT DISTINCT n FROM pairs)"
        return Source(
            "",
            f"visits v JOIN {distinct} h USING (n)",
            {k: t for k, t in qualified.items() if k != "n"} | {"n": "n"},
        )
    return Source("", "visits", names)


class Writer:
    """Writes random expressions over the columns of a source."""

    def __init__(self, r: Random, names: dict[str, str]) -> None:
        self._r = r
        self._names = names

    def _column(self, *options: str) -> str:
        known = [self._names[o] for o in options if o in self._names]
        return pick(self._r, known) if known else self._names["x"]

    def _text(self, *options: str) -> str:
        known = [self._names[o] for o in options if o in self._names]
        return pick(self._r, known) if known else f"CAST({self._names['x']} AS VARCHAR)"

    def number(self, depth: int) -> str:
        """Return a numeric expression that has bounds, most times."""
        r = self._r
        leaf = depth <= 0 or r.random() < 0.35
        if leaf:
            form = r.randrange(12)
            if form == 0:
                return pick(r, ("1", "2", "-3", "0.5", "2e0", "-1.25"))
            if form == 1 and "z" in self._names:
                return f"CLAMP({self._names['z']}, -5, 3)"
            if form == 2 and "d" in self._names:
                return f"EXTRACT(day FROM {self._names['d']})"
            if form == 3 and "pop" in self._names:
                return self._names["pop"]
            if form == 4 and "w" in self._names:
                return self._names["w"]
            return self._column(*NUMBERS)
        a = self.number(depth - 1)
        form = r.randrange(16)
        if form <= 3:
            return f"({a} {pick(r, ('+', '-', '*', '+'))} {self.number(depth - 1)})"
        match form:
            case 4:
                return f"-{a}" if a[0] not in "-(" else f"-({a})"
            case 5:
                return f"ABS({a})"
            case 6:
                return f"{pick(r, ('LEAST', 'GREATEST'))}({a}, {self.number(depth - 1)})"
            case 7:
                return f"CASE WHEN {self.condition(depth - 1)} THEN {a} ELSE {self.number(0)} END"
            case 8:
                return f"CASE WHEN {self.condition(depth - 1)} THEN {a} END"
            case 9:
                return f"COALESCE({a}, {self.number(0)})"
            case 10:
                return f"NULLIF({a}, {self.number(0)})"
            case 11:
                return f"{pick(r, ('ROUND', 'FLOOR', 'CEIL'))}({a})"
            case 12:
                kind = pick(r, ("INTEGER", "DOUBLE", "DECIMAL(9,1)", "BIGINT", "TINYINT"))
                return f"{pick(r, ('CAST', 'TRY_CAST'))}({a} AS {kind})"
            case 13:
                return f"CLAMP({a} / {self.number(0)}, -2, 4)"
            case 14:
                return f"CLAMP({a}, {pick(r, ('-2, 3', '1, 4', '-4, -1', '0, 0', '2, 2'))})"
            case _:
                return f"({a} {pick(r, ('%', '//'))} {pick(r, ('2', '3', '-2'))})"

    def entry(self) -> str:
        """Return an entry of a vector: a numeric expression that needs no bounds."""
        free = [self._names[c] for c in ("z", "b") if c in self._names]
        return pick(self._r, free) if free and self._r.random() < 0.2 else self.number(1)

    def condition(self, depth: int) -> str:
        """Return a condition, NULL now and then."""
        r = self._r
        if depth > 0 and r.random() < 0.3:
            a, b = self.condition(depth - 1), self.condition(depth - 1)
            return f"({a} {pick(r, ('AND', 'OR'))} {b})"
        match r.randrange(11):
            case 0 | 1:
                operator = pick(r, ("<", "<=", ">", ">=", "=", "<>"))
                return f"{self.number(0)} {operator} {self.number(max(0, depth - 1))}"
            case 2:
                return f"{self._column('x', 'n')} IN (0, 2, 5)"
            case 3:
                return f"{self._column('f', 'x')} BETWEEN {self.number(0)} AND 2"
            case 4:
                null = pick(r, ("IS NULL", "IS NOT NULL"))
                return f"{self._column('t', 's', 'x', 'b')} {null}"
            case 5:
                return f"{self._text('t', 's')} LIKE 'k%'"
            case 6:
                return f"NOT ({self.condition(depth - 1)})"
            case 7:
                return f"{self._text('s')} = 'a'"
            case 8:
                return self._names.get("b", "TRUE")
            case 9 if "d" in self._names:
                return f"{self._names['d']} >= DATE '2024-02-01'"
            case _:
                return f"{self._text('s')} IS DISTINCT FROM {self._text('t')}"

    def key(self) -> str:
        """Return a GROUP BY expression: public, computed or private."""
        r = self._r
        match r.randrange(18):
            case 0 | 1 | 2:
                return self._column("s", "b", "n")
            case 3 | 4:
                return self._column("x", "d", "p")
            case 5:
                return self._column("t")
            case 6:
                return self._column("z", "f", "m")
            case 7:
                return (
                    f"CASE WHEN {self.condition(1)} THEN 'p' WHEN {self.condition(0)} THEN 'q' END"
                )
            case 8:
                return f"({self.condition(1)})"
            case 9:
                return f"({self._column('x', 'n')} % 2)"
            case 10:
                return f"({self._column('x', 'n')} // 2)"
            case 11 if "d" in self._names:
                return f"EXTRACT(month FROM {self._names['d']})"
            case 12 if "d" in self._names:
                return f"DATE_TRUNC('month', {self._names['d']})"
            case 13:
                return f"({self._text('s')} || {self._text('t')})"
            case 14:
                return f"ROUND({self._column('f', 'm')})"
            case 15:
                return self._column("area", "s")
            case 16:
                return f"LOWER({self._text('t')})"
            case _:
                return self._column("area", "half", "b", "s")

    def aggregate(self, *, user: bool, plain: bool = False) -> str:
        """Return an aggregate, with a FILTER now and then. plain: as DuckDB reads it, without bounds."""
        r = self._r
        match r.randrange(14):
            case 0 | 1:
                call = "COUNT(*)"
            case 2:
                call = f"COUNT({self.number(1)})"
            case 3:
                call = f"COUNT({self._column('t', 's', 'b')})"
            case 4 if user and "uid" in self._names:
                call = f"COUNT(DISTINCT {self._names['uid']})"
            case 5 | 6 | 7 | 8:
                call = f"SUM({self.number(2)})"
            case 9:
                call = f"AVG({self.number(2)})"
            case 11:
                call = self._ranked()
            case 12:
                columns = self._column("t", "n", "b", "f", "m")
                call = pick(r, (f"COUNT(DISTINCT {columns})", f"COUNT(DISTINCT ({columns}, 1))"))
            case 10:
                of_two = PAIRS[:8] if plain else PAIRS
                name = pick(r, ("VAR_POP", "VAR_SAMP", "VARIANCE", *of_two))
                second = f", {self.number(0)}" if name in PAIRS else ""
                call = f"{name}({self.number(1)}{second})"
            case _:
                call = f"{pick(r, ('STDDEV', 'STDDEV_POP', 'AVG'))}({self.number(1)})"
        if not plain and r.random() < 0.15:
            call = self._bounded(call)
        return f"{call} FILTER (WHERE {self.condition(1)})" if r.random() < 0.2 else call

    def sampled(self) -> str:
        """Return an aggregate over random blocks, with a FILTER now and then."""
        r = self._r
        name = pick(r, SAMPLED)
        argument = self.condition(1) if name == "bool_or" else self.number(1)
        ends = pick(r, ("0, 0.1", "-1, 2", "0.1, 0.2", "-0.1, 0"))
        blocks = pick(r, (1, 1, 2, 7))
        call = f"SAMPLE_AND_AGGREGATE('{name}', {argument}, {ends}, {blocks})"
        return f"{call} FILTER (WHERE {self.condition(1)})" if r.random() < 0.2 else call

    def _ranked(self) -> str:
        """Return an aggregate that chooses a value by its rank."""
        x = self.number(1)
        return pick(self._r, (
            f"MEDIAN({x})", f"MIN({x})", f"MAX({x})", f"QUANTILE_DISC({x}, 0.75)",
            f"QUANTILE_CONT({x}, 0.9)", f"PERCENTILE_CONT(0.25) WITHIN GROUP (ORDER BY {x} DESC)",
        ))  # fmt: skip

    def _bounded(self, call: str) -> str:
        """Return the aggregate with a contribution bound, of its unit where it can have one."""
        r = self._r
        if "DISTINCT" in call or "WITHIN" in call or call.startswith(PAIRS):
            return call
        if call.startswith("COUNT"):
            ends, by = pick(r, ("(0, 2)", "(1, 3)", "(-1, 1)")), "group"
        else:
            ends = pick(r, ("(0, 2)", "(-2, 3)", "(1, 4.5)", "(-3, -1)"))
            by = pick(r, ("group", "row")) if call.startswith(("SUM", "AVG")) else "row"
        return f"{call[:-1]}, contribution_bounds_per_{by} => {ends})"
