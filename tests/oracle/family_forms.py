"""Rows in forms that are read as others: subqueries in ON, joins within joins, neighbours in FROM."""

from __future__ import annotations

from dataclasses import replace

from oracle.family_rows import Maker, Rows
from oracle.statements import pick


def other_forms(make: Maker) -> Rows:
    """Return rows in one of the forms, now and then with a construct on top."""
    forms = (
        in_on,
        in_on,
        neighbour,
        neighbour,
        asof_using,
        listed,
        looked_up,
        within,
        unnamed,
        people,
    )
    rows = pick(make.r, forms)(make)
    if make.r.random() < 0.4:
        return rows
    rows = make.nested(rows)
    return pick(make.r, (
        lambda: make.nested(rows, tail=f" QUALIFY {make.over(rows, ranked=True)} <= 2"),
        lambda: Rows(f"{rows.text} JOIN {(b := make.owned()).text} ON {make._on(rows, b)}", rows.names),
        lambda: _counted(make, rows),
    ))()  # fmt: skip


def _counted(make: Maker, rows: Rows) -> Rows:
    uid, a = rows.names["uid"], make.alias()
    body = f"SELECT {uid} AS uid, COUNT(*) AS n, MAX({rows.names['x']}) AS x FROM {rows.text}"
    return Rows(f"({body} GROUP BY {uid}) AS {a}", {k: f"{a}.{k}" for k in ("uid", "x")})


def in_on(make: Maker) -> Rows:
    """Return an inner join with a subquery in its ON, of public rows or of the person's."""
    r, a, b, c = make.r, make.owned(1), make.owned(), make.owned()
    u, x = pick(r, (a, b)).names["uid"], pick(r, (a, b)).names["x"]
    v, y = c.names["uid"], c.names["x"]
    where = f"WHERE {v} = {u}" + (f" AND {c.where}" if c.where else "")
    test = pick(r, (
        f"{x} {pick(r, ('IN', 'NOT IN'))} (SELECT age FROM tiers)",
        f"{x} {pick(r, ('IN', 'NOT IN'))} (SELECT {y} FROM {c.text} {where})",
        f"EXISTS (SELECT 1 FROM {c.text} {where} AND {y} >= {x})",
        f"NOT EXISTS (SELECT 1 FROM {c.text} {where})",
        f"{x} > (SELECT AVG({y}) FROM {c.text} {where})",
        f"({x} > 1 OR {x} = (SELECT MAX({y}) FROM {c.text} {where}))",
        f"{x} > (SELECT AVG(w) FROM tiers)",
        f"{x} >= ALL (SELECT {y} FROM {c.text} {where})",
    ))  # fmt: skip
    on = f"{a.names['uid']} = {b.names['uid']} AND {test}"
    alone = u == b.names["uid"] and x == b.names["x"]
    kind = pick(r, ("JOIN", "LEFT JOIN")) if alone else "JOIN"
    text = f"{a.text} {kind} {b.text} ON {on}"
    if r.random() < 0.4:
        d = make.owned()
        text += f" {pick(r, ('JOIN', 'LEFT JOIN'))} {d.text} ON {make._on(a, d)}"
    return Rows(text, a.names | {"x": b.names["x"]})


def neighbour(make: Maker) -> Rows:
    """Return a subquery of FROM that reads an item before it, without the word LATERAL."""
    r, a, b = make.r, make.owned(1), make.table("visits", "orders", "persons")
    q = make.alias()
    v, x = b.names["uid"], b.names["x"]
    where = f"FROM {b.text} WHERE {v} = {a.names['uid']}"
    order = ", ".join(b.names.values()) if make.tame else x
    body = pick(r, (
        f"SELECT {x} AS x {where}",
        f"SELECT {x} AS x {where} ORDER BY {order} LIMIT {pick(r, ('1', '2'))}",
        f"SELECT CLAMP(SUM({x}), -3, 4) AS x {where}",
        f"SELECT CLAMP(COUNT(*), 0, 3) AS x {where} AND {x} > {a.names['x']}",
        f"SELECT {b.names['s']} AS s, CLAMP(COUNT(*), 0, 3) AS x {where} GROUP BY {b.names['s']}",
        f"SELECT DISTINCT {x} AS x {where}",
        "SELECT pop AS x FROM regions WHERE pop > 0 AND pop > " + a.names["x"],
    ))  # fmt: skip
    join = pick(
        r, ("{}, ({}) AS {}", "{} JOIN ({}) AS {} ON TRUE", "{} LEFT JOIN ({}) AS {} ON TRUE")
    )
    names = a.names | {"x": f"CLAMP({q}.x, -3, 6)"}
    return Rows(join.format(a.text, body, q), names, where=a.where)


def asof_using(make: Maker) -> Rows:
    """Return an ASOF join on common names, the last of which is the inequality."""
    a = make.nested(make.table("visits", "orders"))
    b = make.nested(make.table("persons" if make.tame else "visits", "persons"))
    kind = pick(make.r, ("ASOF JOIN", "ASOF LEFT JOIN"))
    names = a.names | {"uid": "uid", "d": "d", "x": pick(make.r, (a, b)).names["x"]}
    return Rows(f"{a.text} {kind} {b.text} USING (uid, d)", names)


def listed(make: Maker) -> Rows:
    """Return a join whose owners or values are compared by IN with a list of columns."""
    r, a, b = make.r, make.owned(1), make.owned()
    u, v, x, y = a.names["uid"], b.names["uid"], a.names["x"], b.names["x"]
    on = pick(r, (
        f"{u} IN ({v})", f"{u} = {v} AND {x} IN ({y}, 2)", f"{u} = {v} AND 1 NOT IN ({x}, {y}, NULL)",
        f"{u} = {v} AND {x} NOT IN ({y}, 1 + 1)",
    ))  # fmt: skip
    kind = pick(r, ("JOIN", "LEFT JOIN", "SEMI JOIN"))
    return Rows(f"{a.text} {kind} {b.text} ON {on}", a.names)


def looked_up(make: Maker) -> Rows:
    """Return rows with the one value that a unique key leads to."""
    r, rows = make.r, make.nested(make.owned(1))
    a = make.alias()
    more = pick(r, ("", f" AND {a}.age > 1", f" AND {a}.age <= {rows.names['x']}"))
    where = f"WHERE {a}.uid = {rows.names['uid']}{more}"
    made = make.nested(rows, {"v0": f"(SELECT {a}.age FROM persons AS {a} {where})"})
    return replace(made, names=made.names | {"x": made.names["v0"]})


def within(make: Maker) -> Rows:
    """Return a join within a join, without parentheses."""
    r, a, b, c = make.r, make.owned(1), make.owned(), make.owned()
    one, two = (pick(r, ("JOIN", "LEFT JOIN")) for _ in range(2))
    inner, outer = make._on(b, c), make._on(a, b)
    return Rows(f"{a.text} {one} {b.text} {two} {c.text} ON {inner} ON {outer}",
                a.names | {"x": pick(r, (b, c)).names["x"]})  # fmt: skip


def unnamed(make: Maker) -> Rows:
    """Return rows with a subquery over one without a name, whose columns are written bare."""
    r, rows, b = make.r, make.owned(), make.owned()
    q = make.alias()
    items = ", ".join(f"{v} AS {k}" for k, v in rows.names.items() if k in ("uid", "x", "s"))
    where = f" WHERE {rows.where}" if rows.where else ""
    other = f"(SELECT {b.names['uid']} AS who, {b.names['x']} AS y FROM {b.text})"
    x = pick(r, (f"{q}.x", "x"))
    test = pick(r, (
        f"{x} >= (SELECT MAX(y) FROM {other} WHERE who = uid)",
        f"EXISTS (SELECT 1 FROM {other} WHERE who = uid AND y < {x})",
        f"EXISTS (WITH z AS {other} SELECT 1 FROM z WHERE who = {q}.uid AND y < {x})",
        f"{x} > (SELECT AVG(x) FROM (SELECT pop AS x FROM regions))",
        f"{x} IN (SELECT y FROM {other} WHERE who = uid)",
    ))  # fmt: skip
    text = f"(SELECT {items} FROM {rows.text}{where}) AS {q}"
    return Rows(text, {k: f"{q}.{k}" for k in ("uid", "x", "s")}, where=test)


def people(make: Maker) -> Rows:
    """Return a join of two sub-aggregates a person each."""
    a, b = (make.nested(make.per_person(1)) for _ in range(2))
    kind = pick(make.r, ("JOIN", "LEFT JOIN", "FULL JOIN"))
    text = f"{a.text} {kind} {b.text} ON {a.names['uid']} = {b.names['uid']}"
    left, right = a.names["uid"], b.names["uid"]
    owner = f"COALESCE({left}, {right})" if kind == "FULL JOIN" else left
    return Rows(text, a.names | {"uid": owner, "x": b.names["x"]})
