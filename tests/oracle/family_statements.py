"""Random statements over the schema of several tables, by family; and traps, each of which mixes people."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random

from oracle.family_forms import other_forms
from oracle.family_rows import Maker, Rows
from oracle.statements import Writer, pick


def and_(*parts: str) -> str:
    return " AND ".join(part for part in parts if part)


def narrowed(make: Maker, rows: Rows, condition: str) -> Rows:
    """Return rows with one condition more, now and then as a column's CASE or in a subquery."""
    if make.r.random() < 0.25:
        return make.nested(replace(rows, where=and_(rows.where, condition)))
    if make.r.random() < 0.15 and "EXISTS" not in condition:
        condition = f"NOT ({condition})"
    return replace(rows, where=and_(rows.where, condition))


def in_public(make: Maker) -> Rows:
    r, rows = make.r, make.owned(1)
    a, x = make.alias(), rows.names["x"]
    t = rows.names.get("t", "'k1'")
    word, sign = pick(r, ("IN", "NOT IN")), pick(r, (">", "<=", "=", "<>"))
    return narrowed(make, rows, pick(r, (
        f"{x} {word} (SELECT age FROM tiers)", f"{x} {word} (SELECT pop FROM regions WHERE pop > 0)",
        f"{x} {word} (SELECT age FROM tiers WHERE age IS NOT NULL)", f"{t} {word} (SELECT city FROM regions)",
        f"{x} {word} (SELECT age FROM tiers WHERE FALSE)", f"{x} {word} (VALUES (1), (NULL), (3))",
        f"({x}, {t}) {word} (SELECT pop, city FROM regions)",
        f"({x}, 'low') {word} (SELECT age, tier FROM tiers)",
        f"{x} {sign} {pick(r, ('ANY', 'ALL'))} (SELECT {pick(r, ('age FROM tiers', 'pop FROM regions'))})",
        f"({x}, {t}) {word} ((1, 'k1'), (NULL, 'k2'), (2, NULL))", f"({x}, {t}) = (2, 'k1')",
        f"({x}, {t}) {word} (VALUES (1, 'k1'), (NULL, 'k2'), (2, NULL))", f"{x} {sign} ANY ([1, NULL])",
        f"EXISTS (SELECT 1 FROM regions {a} WHERE {a}.city = {t})",
        f"NOT EXISTS (SELECT 1 FROM tiers AS {a} WHERE {a}.age = {x} AND {a}.w > 0)",
        f"EXISTS (SELECT 1 FROM tiers AS {a} WHERE {a}.age > {x})", "EXISTS (SELECT 1 FROM tiers)",
        f"{x} > (SELECT MIN(pop) FROM regions)", f"{x} <= (SELECT AVG(w) FROM tiers)",
        f"{x} = (SELECT MAX({a}.pop) FROM regions {a} WHERE {a}.city = {t})",
    )))  # fmt: skip


def matched(make: Maker) -> Rows:
    """Return rows narrowed by IN or EXISTS over protected rows of the same person."""
    r, rows, other = make.r, make.owned(1), make.owned()
    u, v = rows.names["uid"], other.names["uid"]
    same = f"{v} = {u}"
    word, sign = pick(r, ("IN", "NOT IN")), pick(r, (">", "<=", "=", "<>"))
    more = pick(r, ("", make.condition(other), f"{other.names['x']} > {rows.names['x']}"))
    inside = f"FROM {other.text} WHERE {and_(same, other.where, more)}"
    own = and_(other.where, make.condition(other))
    kept = f"FROM {other.text} WHERE {and_(same, own)}"
    kind = pick(r, ("EXCEPT", "INTERSECT", "EXCEPT ALL", "INTERSECT ALL"))
    both = (
        f"SELECT {other.names['x']} {kept} {kind} SELECT age FROM persons AS p9 WHERE p9.uid = {u}"
    )
    return narrowed(make, rows, pick(r, (
        f"EXISTS ({both})", f"{rows.names['x']} {word} ({both})",
        f"EXISTS (SELECT 1 {inside})", f"NOT EXISTS (SELECT * {inside})",
        f"{rows.names['x']} {word} (SELECT {other.names['x']} {inside})",
        f"{u} IN (SELECT {v} FROM {other.text} WHERE {own})",
        f"EXISTS (SELECT 1 {inside} UNION ALL SELECT 1 FROM persons AS p9 WHERE p9.uid = {u})",
        f"EXISTS (SELECT 1 FROM (SELECT 1 {inside}) AS q9)",
        (f"{rows.names['x']} {word} (SELECT {other.names['x']} {inside} UNION SELECT age FROM persons AS p9 "
        f"WHERE p9.uid = {u})"),
        f"{u} NOT IN (SELECT {v} FROM {other.text} WHERE {v} IS NOT NULL AND {own})",
        f"({u}, {rows.names['x']}) {word} (SELECT {v}, {other.names['x']} FROM {other.text})",
        f"({rows.names['x']}, {make.condition(rows)}) {word} (SELECT {other.names['x']}, "
        f"{make.condition(other)} {inside})" if not make.tame else "TRUE",
        f"{rows.names['x']} {sign} {pick(r, ('ANY', 'ALL'))} (SELECT {other.names['x']} {inside})",
    )))  # fmt: skip


def scalar(make: Maker) -> Rows:
    """Return rows with a scalar subquery on the same person's rows, compared or as a column."""
    r, rows, other = make.r, make.nested(make.owned(1)), make.owned()
    more = pick(r, ("", f"{other.names['x']} <= {rows.names['x']}", (f"{other.names['x']} <> 1 OR "
                    f"{rows.names['x']} IS NULL")))  # fmt: skip
    same = and_(f"{other.names['uid']} = {rows.names['uid']}", other.where, more and f"({more})")
    call = make.sub_aggregate(Writer(r, other.names))
    if r.random() < 0.2:
        a, b = rows.names["x"], other.names["x"]
        call = pick(r, (f"SUM({b} - {a})", f"MAX({b} * {a})", f"COUNT(*) FILTER (WHERE {b} < {a})"))
    value = f"(SELECT {call} FROM {other.text} WHERE {same})"
    if r.random() < 0.25:
        order = ", ".join(other.names.values()) if make.tame else other.names["x"]
        value = (
            f"(SELECT {other.names['x']} FROM {other.text} WHERE {same} ORDER BY {order} LIMIT 1)"
        )
    if call.startswith("BOOL"):
        return narrowed(make, rows, value)
    if r.random() < 0.6:
        return narrowed(make, rows, f"{rows.names['x']} {pick(r, ('>', '<=', '='))} {value}")
    made = make.nested(rows, {"v0": value})
    return replace(made, names=made.names | {"x": f"CLAMP({made.names['v0']}, -1, 4)"})


def top_of_person(make: Maker) -> Rows:
    """Return rows with a lateral subquery: some rows a person, a window or groups of them."""
    r, rows, other = make.r, make.table("persons", "visits"), make.table("visits", "orders")
    a = make.alias()
    shown = {k: v for k, v in other.names.items() if k != "uid"}
    order = ", ".join(other.names.values()) if make.tame else other.names["x"]
    order += pick(r, ("", "", " DESC", " NULLS FIRST"))
    limit = f" LIMIT {pick(r, ('1', '2'))}{pick(r, ('', '', ' OFFSET 1'))}"
    more = pick(r, ("", make.condition(other)))
    same = f"{other.names['uid']} = {rows.names['uid']}"
    body = f"FROM {other.text} WHERE {and_(same, more)}"
    form = r.randrange(8)
    join = pick(r, ("{}, LATERAL ({}) AS {}", "{} LEFT JOIN LATERAL ({}) AS {} ON TRUE",
                    "{} JOIN LATERAL ({}) AS {} ON TRUE"))  # fmt: skip
    if form == 7:  # one row of aggregates for every outer row
        items = f"SUM({other.names['x']}) AS x, COUNT(*) AS n"
        body += pick(r, ("", f" AND {other.names['x']} >= {rows.names['x']}"))
        body += pick(r, ("", " HAVING COUNT(*) > 1"))
        names = rows.names | {"x": f"CLAMP({a}.{pick(r, ('x', 'n'))}, -3, 4)"}
        return Rows(join.format(rows.text, f"SELECT {items} {body}", a), names)
    if form == 0:  # groups of what the outer row sees
        shown = {"s": other.names["s"], "x": f"CLAMP(SUM({other.names['x']}), -3, 4)"}
        limit = pick(r, (limit, "")) if not make.tame else ""
        limit = f" ORDER BY {shown['x']}{limit}" if limit else ""
        body += f" GROUP BY {shown['s']}{limit}"
    elif form == 1:
        shown["x"] = f"ROW_NUMBER() OVER (ORDER BY {order})"
    elif form == 2:
        body = f"DISTINCT {', '.join(f'{v} AS {k}' for k, v in shown.items())} {body}"
    elif form > 3:
        body += f" ORDER BY {order}{limit}"
    items = "" if form == 2 else ", ".join(f"{v} AS {k}" for k, v in shown.items())
    names = rows.names | {k: f"{a}.{k}" for k in shown}
    if form == 1:
        names["x"] = f"CLAMP({a}.x, 0, 3)"
    return Rows(join.format(rows.text, f"SELECT {items} {body}", a), names)


def cte(make: Maker) -> Rows:
    """Return rows of CTEs that are read twice, shadow tables, or have lists of columns."""
    r, inner = make.r, make.owned(1)
    form = r.randrange(5)
    items = ", ".join(f"{text} AS {k}" for k, text in inner.names.items())
    where = f" WHERE {inner.where}" if inner.where else ""
    body = f"SELECT {items} FROM {inner.text}{where}"
    if form == 0:  # read twice
        a, b = make.alias(), make.alias()
        on = f"{a}.uid = {b}.uid AND {a}.x >= {b}.x"
        names = {k: f"{pick(r, (a, b))}.{k}" for k in inner.names}
        return Rows(f"w AS {a} JOIN w AS {b} ON {on}", names, before=f"WITH w AS ({body}) ")
    if form == 1:  # shadows a table that its own body reads
        table = make.table("visits")
        kept = ", ".join(f"{v} AS {v.split('.')[1]}" for v in table.names.values())
        before = f"WITH visits AS (SELECT {kept} FROM {table.text} WHERE {make.condition(table)}) "
        return replace(make.inner(), before=before)
    if form == 2:  # a public name that holds private rows
        kept = ", ".join(inner.names)
        return Rows(
            "regions", {k: k for k in inner.names}, before=f"WITH regions({kept}) AS ({body}) "
        )
    if form == 3:
        second = "w2 AS (SELECT uid, SUM(x) AS y, COUNT(*) AS z FROM w GROUP BY uid)"
        names = {"uid": "w.uid", "x": "w.x", "n": "CLAMP(w2.y, 0, 5)", "z": "w2.z"}
        text = "w JOIN w2 ON w.uid = w2.uid"
        return Rows(text, names, before=f"WITH w AS ({body}), {second} ")
    return Rows("w", {k: k for k in inner.names}, before=f"WITH w AS MATERIALIZED ({body}) ")


def stage(make: Maker) -> Rows:
    """Return rows that are compared with what an earlier release gave."""
    r, rows = make.r, make.owned(1)
    other = make.owned()
    where = f" WHERE {other.where}" if other.where else ""
    x, y = rows.names["x"], other.names["x"]
    released = f"FROM {other.text}{where}"
    off = "+ 0.0137" if make.tame else ""  # what is released isn't exact: no ties
    word = pick(r, (">", "<=", "<"))
    if r.random() < 0.25:
        t, a = make.table("visits"), make.alias()
        text = (
            f"{t.text} JOIN (SELECT s, AVG(x) AS m FROM visits GROUP BY s) AS {a} "
            f"ON {t.names['s']} = {a}.s"
        )
        return Rows(text, t.names, where=f"{t.names['x']} {word} {a}.m {off}")
    if r.random() < 0.2:  # by the values of a public column
        t, g = make.table("visits"), make.alias()
        text = f"{t.text} JOIN regions AS {g} ON {t.names['t']} = {g}.city"
        call = pick(r, ("AVG(x)", "SUM(x) / 3", "COUNT(*)", "MAX(n)"))
        value = f"(SELECT {call} FROM visits AS v WHERE v.city = {g}.city) {off}"
        names = t.names | {"area": f"{g}.area", "pop": f"{g}.pop"}
        return Rows(text, names, where=f"{t.names['x']} {word} {value}")
    if r.random() < 0.2:
        before = f"WITH m AS (SELECT AVG({y}) AS y {released}) "
        return replace(
            rows, where=and_(rows.where, f"{x} {word} (SELECT y FROM m) {off}"), before=before
        )
    return narrowed(make, rows, pick(r, (
        f"{x} {word} (SELECT AVG({y}) {released}) {off}",
        f"{x} {word} (SELECT SUM({y}) / 9 {released}) {off}",
        f"{x} {word} 2 * (SELECT COUNT(*) {released}) - 3 {off}",
        f"{x} {off} BETWEEN (SELECT AVG({y}) - 1 {released}) AND (SELECT AVG({y}) + 1 {released})",
        f"(SELECT COUNT(DISTINCT {other.names['uid']}) {released}) > 2 {off}",
    )))  # fmt: skip


def traps(make: Maker) -> Rows:
    """Return rows that one person could change for others, if they were answered as they stand."""
    r = make.r
    a, b, o = make.table("visits"), make.table("persons", "visits"), make.table("orders")
    e, k = make.table("lines"), make.table("marks")
    u, v = a.names["uid"], b.names["uid"]
    la, ka, oa = (t.text.split(" AS ")[1] for t in (e, k, o))
    both = a.names | b.names | {"uid": u}
    q = make.alias()
    o2, e2 = make.table("orders"), make.table("lines")
    named = {n: f"{q}.{n}" for n in ("uid", "x", "s")}
    options = (
        Rows(f"{a.text}, {b.text}", both),
        Rows(f"{a.text} JOIN {b.text} ON {u} = {v} OR {a.names['x']} > 3", both),
        Rows(f"{a.text} JOIN {b.text} ON {u} = {v} + 0 AND {u} >= {v} - 1", both),
        Rows(f"{a.text} JOIN {b.text} ON {u} <= {v}", both),
        Rows(f"{a.text} JOIN {b.text} ON NOT ({u} <> {v})", both),
        Rows(f"{a.text} LEFT JOIN {b.text} ON {a.names['x']} = {b.names['x']}", both),
        Rows(f"{a.text} LEFT JOIN {b.text} ON TRUE", both, where=f"{u} = {v}"),
        Rows(f"{a.text}, tiers AS {q}, {b.text}", both, where=f"{u} = {q}.age AND {q}.age >= {v}"),
        Rows(f"{a.text}, tiers AS {q}, {b.text}", both, where=f"{u} = {q}.age AND {q}.w = {v}"),
        Rows(f"{a.text} JOIN {o.text} ON {a.names['z']} = {o.names['z']}", a.names),
        Rows(f"{a.text} JOIN {b.text} ON {a.names['z']} = {v}", both),
        Rows(f"{o.text} JOIN {o2.text} ON {o.names['z']} = {o2.names['z']}", o.names),
        Rows(f"{e.text} JOIN {e2.text} ON {e.names['z']} = {e2.names['z']}", e.names),
        Rows(f"{e.text} JOIN {k.text} ON {la}.lk = {ka}.lk", e.names),
        Rows(f"{e.text} JOIN {k.text} ON {la}.ok = {ka}.ok", k.names),
        Rows(f"{k.text} JOIN {o.text} ON {ka}.ok = {oa}.ok", k.names),
        Rows(f"{a.text} SEMI JOIN {b.text} ON {a.names['x']} = {b.names['x']}", a.names),
        Rows(f"{a.text} ANTI JOIN {b.text} ON {a.names['x']} < {b.names['x']}", a.names),
        Rows(f"{a.text} ASOF JOIN {o.text} ON {a.names['d']} >= {o.names['d']}", a.names),
        Rows(f"regions AS {q} LEFT JOIN {a.text} ON {q}.city = {a.names['t']}",
             a.names | {"area": f"{q}.area"}),
        Rows(f"{a.text} LEFT JOIN {b.text} ON {u} = {v} LEFT JOIN {o.text} ON {oa}.uid = {v}",
             both | {"uid": v}),
        Rows(a.text, a.names, where=f"{u} IN (SELECT z FROM (SELECT i AS z FROM visits))"),
        Rows(a.text, a.names, where=f"{a.names['x']} IN (SELECT total FROM orders)"),
        Rows(a.text, a.names, where=f"{a.names['x']} NOT IN (SELECT age FROM persons)"),
        Rows(a.text, a.names, where=f"{u} NOT IN (SELECT uid FROM persons)"),
        Rows(a.text, a.names, where="EXISTS (SELECT 1 FROM persons WHERE age > 2)"),
        Rows(a.text, a.names,
             where=f"EXISTS (SELECT 1 FROM orders AS w WHERE w.total = {a.names['x']})"),
        Rows(a.text, a.names,
             where=f"EXISTS (SELECT 1 FROM orders AS w WHERE w.uid = {u} OR w.total = {a.names['x']})"),
        Rows(a.text, a.names,
             where=f"{a.names['x']} > (SELECT MAX(w.total) FROM orders AS w WHERE w.ok = {a.names['z']})"),
        Rows(a.text, a.names, where=f"{a.names['x']} > (SELECT MAX(x) FROM visits)"),
        Rows(a.text, a.names, where=f"{a.names['x']} >= ALL (SELECT x FROM visits)"),
        Rows(a.text, a.names, where=f"{u} = (SELECT MIN(uid) FROM visits)"),
        Rows(f"(SELECT uid, x, s, ROW_NUMBER() OVER (ORDER BY x) AS w FROM visits) AS {q}",
             named, where=f"{q}.w <= 2"),
        Rows(f"(SELECT uid, x, s, COUNT(*) OVER (PARTITION BY s) AS w FROM visits) AS {q}",
             named, where=f"{q}.w > 2"),
        Rows(f"(SELECT uid, x, s, RANK() OVER (PARTITION BY uid % 2 ORDER BY d) AS w FROM visits) AS {q}",
             named, where=f"{q}.w = 1"),
        Rows(f"(SELECT i AS uid, uid AS x, s FROM visits) AS {q}", named | {"x": f"CLAMP({q}.x, 0, 3)"}),
        Rows(f"(SELECT i AS uid, SUM(x) AS x, 'a' AS s FROM visits GROUP BY i) AS {q}",
             named | {"x": f"CLAMP({q}.x, 0, 3)"}),
        Rows(f"(SELECT DISTINCT x, s FROM visits) AS {q}", {"x": f"{q}.x", "s": f"{q}.s"}),
        Rows(f"(SELECT DISTINCT ON (s) uid, x, s FROM visits ORDER BY s, x) AS {q}", named),
        Rows(f"(SELECT uid, x, s FROM visits ORDER BY x LIMIT 2) AS {q}", named),
        Rows(f"{b.text}, LATERAL (SELECT w.uid, w.x, w.s FROM visits AS w WHERE w.uid <= {v} "
             f"ORDER BY w.x LIMIT 1) AS {q}", named, where=f"{q}.uid = {v}"),
        Rows(f"{o.text}, LATERAL (SELECT w.uid, w.x, w.s FROM visits AS w WHERE w.i = {o.names['z']} "
             f"ORDER BY w.x LIMIT 1) AS {q}", named, where=f"{q}.uid = {o.names['uid']}"),
        Rows(f"{o.text}, LATERAL (SELECT w.uid, w.x, w.s, RANK() OVER (ORDER BY w.x) AS n FROM visits AS w "
             f"WHERE w.uid >= {o.names['uid']}) AS {q}", named,
             where=f"{q}.uid = {o.names['uid']} AND {q}.n = 1"),
        Rows(a.text, a.names, where=f"{a.names['x']} IN (SELECT total FROM orders ORDER BY day LIMIT 1)"),
        Rows(a.text, a.names, where=f"{a.names['x']} > (SELECT w.total FROM orders AS w "
             f"WHERE w.total = {a.names['n']} ORDER BY w.day LIMIT 1)"),
        Rows(f"(SELECT x, s FROM visits UNION SELECT age, sex FROM persons) AS {q}",
             {"x": f"{q}.x", "s": f"{q}.s"}),
        Rows(f"(SELECT uid, x, s FROM visits EXCEPT SELECT ok, total, st FROM orders) AS {q}", named),
        Rows("(SELECT 1 AS uid, pop AS x, area AS s FROM regions "
             f"EXCEPT SELECT uid, x, s FROM visits) AS {q}",
             named),
        Rows(f"(SELECT ANY_VALUE(uid) AS uid, MAX(x) AS x, s FROM visits GROUP BY s) AS {q}", named),
        Rows(f"(SELECT uid, FIRST(x) AS x, 'a' AS s FROM visits GROUP BY uid) AS {q}", named),
        Rows(f"(SELECT COALESCE(uid, 1) AS uid, x, s FROM visits) AS {q}", named),
        Rows(f"(SELECT uid, x, s FROM visits WHERE x > (SELECT age FROM persons LIMIT 1)) AS {q}", named),
        Rows(f"(SELECT * FROM visits USING SAMPLE 2 ROWS) AS {q}", named),
        Rows(f"(SELECT uid, x, s FROM visits WHERE rowid < 3) AS {q}", named),
        Rows(f"visits AS {q} POSITIONAL JOIN persons", named),
    )  # fmt: skip
    return pick(r, options)


def mixed(make: Maker) -> Rows:
    """Return rows of constructs over constructs."""
    return make.owned(3)


Family = Callable[[Maker], Rows]

FAMILIES: dict[str, Family] = {
    "inner join": lambda make: make.inner(1),
    "outer join": lambda make: make.outer(1),
    "semi join": lambda make: make.semi(1),
    "asof join": lambda make: make.asof(1),
    "self join": lambda make: make.self_join(),
    "using": lambda make: make.using(),
    "with public": lambda make: make.with_public(2),
    "orders and lines": lambda make: make.orders_and_lines(),
    "through keys": lambda make: make.through(),
    "per person": lambda make: make.per_person(1, hide=make.r.random() < 0.2),
    "window": lambda make: make.window(1),
    "qualify": lambda make: make.qualify(1),
    "first rows": lambda make: make.first_rows(),
    "distinct": lambda make: make.distinct(1),
    "in public": in_public,
    "matched": matched,
    "scalar": scalar,
    "top of person": top_of_person,
    "set operation": lambda make: make.set_operation(1),
    "hidden union": lambda make: make.hidden_union(),
    "cte": cte,
    "stage": stage,
    "grouping sets": lambda make: make.owned(1),
    "other forms": other_forms,
    "mixed": mixed,
    "traps": traps,
}
"""By name: what makes the rows that a statement aggregates."""


@dataclass(frozen=True)
class Written:
    """A statement: its text, its keys (columns k0, k1, …) and its aggregates (a0, a1, …)."""

    sql: str
    keys: tuple[str, ...]
    calls: tuple[str, ...]


def statement(r: Random, family: str, *, tame: bool = False) -> Written:
    """Return one aggregate statement. tame: DuckDB gives one answer, without rows in an order."""
    make = Maker(r, tame=tame)
    rows = FAMILIES[family](make)
    write = Writer(r, rows.names)
    sets = family == "grouping sets"
    keys = [write.key() for _ in range(pick(r, (1, 2, 2, 3) if sets else (0, 0, 1, 1, 2)))]
    if family == "first rows" and r.random() < 0.6:
        keys = [rows.names["s"]]
    calls = [write.aggregate(user=True, plain=tame) for _ in range(pick(r, (1, 1, 1, 2, 3)))]
    items = [f"{k} AS k{i}" for i, k in enumerate(keys)]
    items += [f"{a} AS a{i}" for i, a in enumerate(calls)]
    where = and_(rows.where, write.condition(1) if r.random() < 0.2 else "")
    where = f" WHERE {where}" if where else ""
    group = _sets(r, keys) if sets else _group(r, keys)
    sql = f"{rows.before}SELECT {', '.join(items)} FROM {rows.text}{where}{group}"
    return Written(sql, tuple(keys), tuple(calls))


def _group(r: Random, keys: list[str]) -> str:
    if not keys:
        return ""
    if r.random() < 0.3:
        return " GROUP BY ALL"
    if r.random() < 0.5:
        return " GROUP BY " + ", ".join(str(i + 1) for i in range(len(keys)))
    return " GROUP BY " + ", ".join(keys)


def _sets(r: Random, keys: list[str]) -> str:
    listed = ", ".join(keys)
    some = ", ".join(f"({k})" for k in keys)
    return pick(r, (
        f" GROUP BY ROLLUP ({listed})", f" GROUP BY CUBE ({listed})",
        f" GROUP BY GROUPING SETS ({some}, ())", f" GROUP BY GROUPING SETS (({listed}), {some})",
        f" GROUP BY GROUPING SETS (({listed}), ({listed}))",
        f" GROUP BY {keys[0]}, ROLLUP ({', '.join(keys[1:] or keys)})",
    ))  # fmt: skip
