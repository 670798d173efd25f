"""Statements that try to fail on extreme values below the release: per person, in windows, in joins."""

from __future__ import annotations

from random import Random

from oracle.hostile import wild
from oracle.statements import pick

_AGGREGATES = (
    "SUM", "SUM", "AVG", "MIN", "MAX", "COUNT", "COUNT(DISTINCT", "SUM(DISTINCT", "MEDIAN", "VAR_POP",
    "STDDEV_SAMP", "STDDEV", "QUANTILE_CONT", "QUANTILE_DISC", "ARG_MIN", "ANY_VALUE",
)  # fmt: skip
_RANKS = ("ROW_NUMBER()", "RANK()", "DENSE_RANK()", "PERCENT_RANK()", "CUME_DIST()", "NTILE(3)")
_FRAMES = (
    "", "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING", "ROWS UNBOUNDED PRECEDING", "GROUPS 1 PRECEDING",
    "RANGE UNBOUNDED PRECEDING", "RANGE BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    "RANGE BETWEEN INTERVAL 3 DAY PRECEDING AND CURRENT ROW",
)  # fmt: skip


def aggregate(r: Random, number: str) -> str:
    """Return an aggregate over a person's rows."""
    word = pick(r, _AGGREGATES)
    if word.startswith("QUANTILE"):
        return f"{word}({number}, {pick(r, ('0.5', '0.25', '0', '1'))})"
    if word == "ARG_MIN":
        return f"ARG_MIN({number}, {pick(r, ('db', 'fl', 'hi', 'vc', 'da', 'dh'))})"
    return f"{word} {number})" if "(" in word else f"{word}({number})"


def window(r: Random, number: str, order: str) -> str:
    over = f"PARTITION BY uid ORDER BY {order}{pick(r, ('', ' DESC', ' NULLS FIRST'))}"
    match r.randrange(4):
        case 0:
            return f"{pick(r, _RANKS)} OVER ({over})"
        case 1:
            return f"{pick(r, ('LAG', 'LEAD'))}({number}, {pick(r, ('1', '2'))}) OVER ({over})"
        case 2:
            word = pick(r, ("FIRST_VALUE", "LAST_VALUE"))
            return f"{word}({number}) OVER ({over} {pick(r, _FRAMES)})"
        case _:
            word = pick(r, ("SUM", "AVG", "MIN", "MAX", "COUNT"))
            return f"{word}({number}) OVER ({over} {pick(r, _FRAMES)})"


def person_attack(r: Random) -> str:
    """Return a statement around wild expressions in sub-aggregates, windows, joins and subqueries."""
    depth = pick(r, (0, 1, 1, 2))
    number, other, truth = (wild(r, kind, depth) for kind in ("number", "number", "truth"))
    kind = pick(r, ("number", "text", "day"))
    key, order = wild(r, kind, depth), wild(r, pick(r, ("number", "text", "day")), depth)
    shown = "SELECT COUNT(*) AS n, SUM(CLAMP(a, -2, 3)) AS s FROM"
    match r.randrange(11):
        case 0:
            having = f"HAVING {aggregate(r, other)} > 0" if r.random() < 0.5 else ""
            return f"{shown} (SELECT uid, {aggregate(r, number)} AS a FROM t GROUP BY uid {having})"
        case 1:
            inner = f"SELECT uid, {key} AS y, {aggregate(r, number)} AS a FROM t GROUP BY ALL"
            return f"{shown} (SELECT uid, {aggregate(r, 'a')} AS a FROM ({inner}) GROUP BY uid)"
        case 2:
            filtered = f"{aggregate(r, number)} FILTER (WHERE {truth})"
            return f"{shown} (SELECT uid, {filtered} AS a FROM t GROUP BY uid, {key})"
        case 3 | 4:
            return f"{shown} (SELECT uid, {window(r, number, order)} AS a FROM t WHERE {truth})"
        case 5:
            return (
                f"{shown} (SELECT uid, {number} AS a FROM t QUALIFY {window(r, other, order)} > 1)"
            )
        case 6:
            sides = (
                f"(SELECT uid, {number} AS a, {key} AS y FROM t) AS v "
                f"{pick(r, ('JOIN', 'LEFT JOIN', 'SEMI JOIN', 'ANTI JOIN'))} "
                f"(SELECT uid AS u, {other} AS b, {key} AS z FROM t) AS w"
            )
            return f"{shown} {sides} ON v.uid = w.u AND {pick(r, ('v.y = w.z', 'v.a > w.b'))}"
        case 7:
            test = f"EXISTS (SELECT 1 FROM t AS w WHERE w.uid = v.uid AND w.bi > v.a AND {truth})"
            return f"{shown} (SELECT uid, {number} AS a FROM t) AS v WHERE {test}"
        case 8:
            value = f"(SELECT {aggregate(r, other)} FROM t AS w WHERE w.uid = v.uid)"
            return f"{shown} (SELECT uid, {number} AS a FROM t) AS v WHERE v.a >= {value}"
        case 9:
            word = pick(r, ("UNION", "UNION ALL", "EXCEPT", "INTERSECT ALL"))
            return (
                f"{shown} (SELECT uid, {number} AS a FROM t {word} "
                f"SELECT uid, {other} FROM t WHERE {truth})"
            )
        case _:
            distinct = pick(r, ("DISTINCT", "DISTINCT ON (uid)", f"DISTINCT ON (uid, {key})"))
            return f"{shown} (SELECT {distinct} uid, {number} AS a FROM t)"
