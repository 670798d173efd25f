"""What random statements read: rows made by joins, sub-aggregates, windows, set operations and CTEs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count
from random import Random

from oracle.statements import Writer, pick

NAMES: dict[str, dict[str, str]] = {
    "visits": dict(
        zip("uid z x n f b s t d".split(), "uid i x n f b s city d".split(), strict=True)
    ),
    "persons": {"uid": "uid", "x": "age", "s": "sex", "d": "since"},
    "orders": {"uid": "uid", "z": "ok", "x": "total", "s": "st", "d": "day"},
    "lines": {"z": "ok", "x": "qty", "m": "price", "t": "shade"},
    "marks": {"z": "lk", "x": "mark", "s": "tag"},
}
"""Columns by what they are: x n p f m bounded numbers, z any integer, s few texts, t any text, d a day."""

KEYED = ("visits", "persons", "orders")


@dataclass(frozen=True)
class Rows:
    """A FROM clause. names: how what is in NAMES is written; where: what WHERE must hold besides."""

    text: str
    names: dict[str, str]
    where: str = ""
    before: str = ""


class Maker:
    """Writes rows that keep their owner. tame: orders are total, so that DuckDB's answer is one."""

    def __init__(self, r: Random, *, tame: bool = False) -> None:
        self.r = r
        self.tame = tame
        self._aliases: Iterator[int] = count(1)

    def alias(self) -> str:
        return f"q{next(self._aliases)}"

    def table(self, *options: str) -> Rows:
        table = pick(self.r, options or (*KEYED, "visits"))
        a = self.alias()
        names = {k: f"{a}.{v}" for k, v in NAMES[table].items()}
        if self.tame and table != "visits":
            names.pop("z", None)  # it tells twins apart
        return Rows(f"{table} AS {a}", names)

    def owned(self, depth: int = 0) -> Rows:
        """Return rows with the owner among their columns."""
        if depth <= 0 or self.r.random() < 0.4:
            if self.r.random() < 0.75:
                return self.table()
            rows = self.table()
            return self.nested(replace(rows, where=self.condition(rows)))
        kinds = (
            self.inner, self.outer, self.per_person, self.window, self.distinct, self.set_operation,
            self.orders_and_lines, self.with_public, self.semi,
        )  # fmt: skip
        return self.nested(pick(self.r, kinds)(depth - 1))

    def nested(self, rows: Rows, more: dict[str, str] | None = None, tail: str = "") -> Rows:
        """Return rows as a subquery of FROM, with further columns; `tail` stands after its WHERE."""
        a = self.alias()
        columns = rows.names | (more or {})
        items = ", ".join(f"{text} AS {k}" for k, text in columns.items())
        body = f"SELECT {items} FROM {rows.text}{_where(rows.where)}{tail}"
        return Rows(f"({body}) AS {a}", {k: f"{a}.{k}" for k in columns})

    def number(self, rows: Rows) -> str:
        return Writer(self.r, rows.names).number(1)

    def condition(self, rows: Rows) -> str:
        return Writer(self.r, rows.names).condition(1)

    def _mixed(self, a: Rows, b: Rows, owner: str) -> dict[str, str]:
        names = dict(a.names)
        for key, text in b.names.items():
            if key not in names or self.r.random() < 0.5:
                names[key] = text
        return names | {"uid": owner}

    def _on(self, a: Rows, b: Rows) -> str:
        """Return owner = owner, and more now and then."""
        r = self.r
        same = [f"{a.names['uid']} = {b.names['uid']}", f"{b.names['uid']} = {a.names['uid']}"]
        more = [
            "", "", f"{a.names['x']} > {b.names['x']}", f"{a.names['x']} = {b.names['x']}",
            f"({b.names['x']} > 1 OR {a.names['x']} IS NULL)", self.condition(a), self.condition(b),
            f"{a.names['x']} IS NOT DISTINCT FROM {b.names['x']}",
        ]  # fmt: skip
        if "z" in a.names and "z" in b.names:
            more.append(f"{a.names['z']} = {b.names['z']}")
        if "d" in a.names and "d" in b.names:
            more.append(f"{a.names['d']} >= {b.names['d']}")
        parts = [p for p in (pick(r, same), pick(r, more)) if p]
        r.shuffle(parts)
        return " AND ".join(parts)

    def inner(self, depth: int = 0) -> Rows:
        a, b = self.owned(depth), self.owned()
        on, names = self._on(a, b), self._mixed(a, b, pick(self.r, (a, b)).names["uid"])
        form = self.r.randrange(8)
        if form == 0:
            return Rows(f"{a.text}, {b.text}", names, where=on)
        if form == 4:  # both owners equal a public value
            t = self.alias()
            u, v, key = a.names["uid"], b.names["uid"], f"{t}.age"
            kind = pick(self.r, ("JOIN", "LEFT JOIN", "SEMI JOIN"))
            text = f"{a.text} JOIN tiers AS {t} ON {u} = {key} {kind} {b.text} ON {v} = {key}"
            return Rows(text, a.names if kind == "SEMI JOIN" else names | {"uid": u})
        if form == 1:
            return Rows(f"{a.text} CROSS JOIN {b.text}", names, where=on)
        if form == 3:
            c = self.owned()
            text = f"{a.text} JOIN ({b.text} JOIN {c.text} ON {self._on(b, c)}) ON {on}"
            return Rows(text, self._mixed(Rows("", names), c, names["uid"]))
        if form == 2:
            c = self.owned()
            text = f"{a.text} JOIN {b.text} ON {on} JOIN {c.text} ON {self._on(b, c)}"
            return Rows(text, self._mixed(Rows("", names), c, names["uid"]))
        return Rows(f"{a.text} {pick(self.r, ('JOIN', 'INNER JOIN'))} {b.text} ON {on}", names)

    def outer(self, depth: int = 0) -> Rows:
        a, b = self.owned(depth), self.owned()
        kind, on = pick(self.r, ("LEFT", "LEFT", "LEFT OUTER", "RIGHT", "FULL")), self._on(a, b)
        left, right = a.names["uid"], b.names["uid"]
        picked = pick(self.r, (
            f"COALESCE({left}, {right})", f"COALESCE({right}, {left})",
            f"CASE WHEN {left} IS NULL THEN {right} ELSE {left} END",
            f"CASE WHEN {right} IS NOT NULL THEN {right} ELSE {left} END",
            f"IF({left} IS NULL, {right}, {left})",
        ))  # fmt: skip
        owner = {"RIGHT": right, "FULL": picked}.get(kind, left)
        if kind.startswith("LEFT") and self.r.random() < 0.25:
            mine = f"FROM persons AS p8 WHERE p8.uid = {left}"
            on += " AND " + pick(self.r, (
                f"EXISTS (SELECT 1 {mine} AND p8.age > 1)", f"{b.names['x']} <> (SELECT MAX(p8.age) {mine})",
                f"{a.names['x']} NOT IN (SELECT age {mine})", f"{a.names['x']} IN (SELECT pop FROM regions)",
            ))  # fmt: skip
        text = f"{a.text} {kind} JOIN {b.text} ON {on}"
        if self.r.random() < 0.2:
            c = self.owned()
            word = pick(self.r, ("JOIN", "LEFT JOIN", "SEMI JOIN"))
            meet = "USING (uid)" if self.r.random() < 0.4 else f"ON {self._on(b, c)}"
            text = f"{a.text} {kind} JOIN ({b.text} {word} {c.text} {meet}) ON {on}"
        elif self.r.random() < 0.1:
            c, tier = self.owned(), self.alias()
            on_tier = f"{tier}.age = {c.names['x']}"
            text = f"{c.text} JOIN tiers AS {tier} ON {on_tier}, {text}"
            return Rows(text, self._mixed(a, b, owner), where=f"{c.names['uid']} = {owner}")
        padded = {"RIGHT": left}.get(kind, right)
        where = f"{padded} IS NULL" if self.r.random() < 0.15 else ""
        if not where and kind != "FULL" and self.r.random() < 0.15:
            where = f"EXISTS (SELECT 1 FROM persons AS p7 WHERE p7.uid = {padded} AND p7.age > 1)"
        return Rows(text, self._mixed(a, b, owner), where=where)

    def semi(self, depth: int = 0) -> Rows:
        a, b = self.owned(depth), self.owned()
        kind = pick(self.r, ("SEMI", "ANTI"))
        return Rows(f"{a.text} {kind} JOIN {b.text} ON {self._on(a, b)}", a.names)

    def asof(self, depth: int = 0) -> Rows:
        a, b = self.owned(depth), self.table("persons" if self.tame else pick(self.r, KEYED))
        if "d" not in a.names:
            a = self.table()
        order = pick(self.r, (">=", ">", "<=", "<"))
        kind = pick(self.r, ("ASOF JOIN", "ASOF LEFT JOIN"))
        on = f"{a.names['uid']} = {b.names['uid']} AND {a.names['d']} {order} {b.names['d']}"
        return Rows(f"{a.text} {kind} {b.text} ON {on}", self._mixed(a, b, a.names["uid"]))

    def self_join(self, _: int = 0) -> Rows:
        table = pick(self.r, KEYED)
        a, b = self.table(table), self.table(table)
        kind = pick(self.r, ("JOIN", "JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN"))
        text = f"{a.text} {kind} {b.text} ON {self._on(a, b)}"
        one = kind in ("SEMI JOIN", "ANTI JOIN")
        return Rows(text, a.names if one else self._mixed(a, b, a.names["uid"]))

    def using(self, _: int = 0) -> Rows:
        """Return a join by common names; the merged column is written without a table."""
        first, second = self.r.sample(KEYED, 2)
        a, b = self.table(first), self.table(second)
        kind = pick(self.r, ("JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"))
        if self.r.random() < 0.4:
            return Rows(f"{a.text} NATURAL {kind} {b.text}", self._mixed(a, b, "uid"))
        if self.r.random() < 0.2:
            kind = pick(self.r, ("SEMI JOIN", "ANTI JOIN"))
            return Rows(f"{a.text} {kind} {b.text} USING (uid)", a.names)
        return Rows(f"{a.text} {kind} {b.text} USING (uid)", self._mixed(a, b, "uid"))

    def with_public(self, depth: int = 0) -> Rows:
        a = self.owned(depth)
        g = self.alias()
        kind = pick(self.r, ("JOIN", "LEFT JOIN", "SEMI JOIN", "ANTI JOIN", "JOIN"))
        if "t" in a.names and self.r.random() < 0.6:
            on, names = f"{a.names['t']} = {g}.city", {"area": f"{g}.area", "pop": f"{g}.pop"}
            text = f"{a.text} {kind} regions AS {g} ON {on}"
        else:
            on, names = f"{a.names['x']} = {g}.age", {"area": f"{g}.tier", "w": f"{g}.w"}
            text = f"{a.text} {kind} tiers AS {g} ON {on}"
        return Rows(text, a.names if kind[:4] in ("SEMI", "ANTI") else a.names | names)

    def orders_and_lines(self, _: int = 0) -> Rows:
        """Return a join along the key, with the order's owner."""
        o, e = self.table("orders"), self.table("lines")
        on = " = ".join(f"{t.text.split(' AS ')[1]}.ok" for t in (o, e))
        if self.r.random() < 0.3:
            on += f" AND {pick(self.r, (self.condition(o), self.condition(e)))}"
        form = self.r.randrange(6)
        if form == 0:
            text = f"{e.text} JOIN {o.text} ON {on}"
        elif form == 1:
            return Rows(f"{o.text}, {e.text}", self._mixed(o, e, o.names["uid"]), where=on)
        elif form == 2:
            p = self.table("persons", "visits")
            text = f"{o.text} JOIN {e.text} ON {on} JOIN {p.text} ON {self._on(o, p)}"
        elif form == 3:
            text = f"{o.text} LEFT JOIN {e.text} ON {on}"
        else:
            text = f"{o.text} JOIN {e.text} ON {on}"
        return Rows(text, self._mixed(o, e, o.names["uid"]))

    def through(self, _: int = 0) -> Rows:
        """Return rows that are owned through keys, one or two steps."""
        r = self.r
        e, k, o = self.table("lines"), self.table("marks"), self.table("orders")
        la, ka, oa = (x.text.split(" AS ")[1] for x in (e, k, o))
        both = f"{la}.ok = {ka}.ok AND {la}.lk = {ka}.lk"
        forms = {
            e.text: e,
            k.text: k,
            f"{e.text} JOIN {k.text} ON {both}": e,
            f"{e.text} LEFT JOIN {k.text} ON {both}": e,
            f"{e.text} JOIN {k.text} USING (ok, lk)": k,
            f"{k.text} NATURAL JOIN {e.text}": k,
            f"{e.text} JOIN {o.text} ON {la}.ok = {oa}.ok JOIN {k.text} ON {both}": k,
            f"{o.text} NATURAL JOIN {e.text}": e,
            f"{e.text} SEMI JOIN {k.text} ON {both}": e,
            f"{e.text} ANTI JOIN {k.text} ON {both}": e,
            f"{k.text} SEMI JOIN {e.text} ON {both} AND {la}.qty > 1": k,
        }
        text = pick(r, tuple(forms))
        names = dict(forms[text].names)
        if "USING" in text or "NATURAL" in text:
            names.pop("z", None)
        if f" {o.text}" in text and "NATURAL" not in text:
            names |= {"uid": o.names["uid"], "d": o.names["d"]}
        return Rows(text, names)

    def per_person(self, depth: int = 0, *, hide: bool = False) -> Rows:
        """Return one row per person, or per person and key. hide: without a column for the owner."""
        r, rows = self.r, self.owned(depth)
        if r.random() < 0.2:
            rows = self.orders_and_lines()
        write = Writer(r, rows.names)
        keys = {"uid": rows.names["uid"]}
        for name in r.sample(("s", "b", "d", "z"), pick(r, (0, 0, 1, 2))):
            if name in rows.names:
                keys[name] = rows.names[name]
        made = {f"a{i}": self.sub_aggregate(write) for i in range(pick(r, (1, 1, 2, 3)))}
        where = " AND ".join(p for p in (rows.where, self.condition(rows)) if p)
        where = where if r.random() < 0.3 else rows.where
        if r.random() < 0.25:  # a window over the groups
            function = pick(
                r, ("RANK()", "ROW_NUMBER()", "COUNT(*)", "SUM(COUNT(*))", "LAG(COUNT(*))")
            )
            order = ", ".join([made["a0"], *(keys.values() if self.tame else ())])
            made["w"] = f"{function} OVER (PARTITION BY {keys['uid']} ORDER BY {order})"
        having = f" HAVING {self.having(write)}" if r.random() < 0.3 else ""
        a, shown = self.alias(), dict(keys)
        if hide:
            del shown["uid"]
        items = ", ".join(f"{text} AS {k}" for k, text in (shown | made).items())
        group = ", ".join(keys.values())
        body = f"SELECT {items} FROM {rows.text}{_where(where)} GROUP BY {group}{having}"
        names = {k: f"{a}.{k}" for k in shown}
        values = [f"{a}.{k}" for k, text in made.items() if not text.startswith("BOOL")][::-1]
        bounded = [v if r.random() < 0.2 else f"CLAMP({v}, -2, 7)" for v in values]
        bounded = bounded or [f"CAST({a}.a0 AS INTEGER)"]
        names["x"] = bounded[0]
        names |= dict(zip(("n", "f"), bounded[1:], strict=False))
        return Rows(f"({body}) AS {a}", names)

    def sub_aggregate(self, write: Writer) -> str:
        r = self.r
        number = write.number(1)
        real = f"CAST({number} AS DOUBLE)"  # of decimals DuckDB rounds a quantile to a decimal
        by = write.number(0)
        free = (  # DuckDB's own answer has no order, or is NaN
            f"ARG_MIN({number}, {by})", f"ARG_MAX({number}, {by})", f"MODE({number})",
            f"ANY_VALUE({number})", f"LEN(LIST({number}))", f"FIRST({number} ORDER BY {by} DESC)",
            f"LIST({number} ORDER BY {by} NULLS FIRST)[-1]", f"CORR({number}, {by})",
            f"{pick(r, ('REGR_SLOPE', 'REGR_R2', 'REGR_INTERCEPT'))}({number}, {by})",
            f"LIST_{pick(r, ('SUM', 'COUNT', 'UNIQUE', 'MAX'))}(LIST({number}))",
            f"CAST(LIST_HAS_{pick(r, ('ANY', 'ALL'))}(LIST({number}), [0, 2]) AS INTEGER)",
        )  # fmt: skip
        call = pick(r, (
            "COUNT(*)", f"COUNT({number})", f"SUM({number})", f"AVG({number})", f"MIN({number})",
            f"MAX({number})", f"COUNT(DISTINCT {number})", f"MEDIAN({real})",
            f"{pick(r, ('VAR_POP', 'STDDEV_SAMP', 'VARIANCE', 'STDDEV_POP'))}({number})",
            f"BOOL_OR({write.condition(0)})", f"QUANTILE_DISC({number}, 0.25)",
            f"QUANTILE_CONT({real}, 0.75)", *(() if self.tame else free),
            f"{pick(r, ('COVAR_POP', 'COVAR_SAMP', 'REGR_SXY', 'REGR_AVGX'))}({number}, {by})",
            f"COUNT_IF({write.condition(0)})", f"SUM(DISTINCT {number})",
        ))  # fmt: skip
        filtered = r.random() < 0.2 and not call.startswith(("LEN", "FIRST", "LIST", "CAST"))
        return f"{call} FILTER (WHERE {write.condition(0)})" if filtered else call

    def having(self, write: Writer) -> str:
        return pick(self.r, (
            "COUNT(*) > 1", f"SUM({write.number(0)}) >= 2", f"MAX({write.number(0)}) IS NOT NULL",
            f"COUNT(DISTINCT {write.number(0)}) < 3 AND AVG({write.number(0)}) > 0",
        ))  # fmt: skip

    def over(self, rows: Rows, *, ranked: bool = False) -> str:
        """Return a window function over the rows of a person."""
        r, names = self.r, rows.names
        part = names["uid"]
        for name in ("s", "b", "z"):
            if name in names and r.random() < 0.15:
                part = f"{names[name]}, {part}"
        order = names[pick(r, tuple(k for k in ("d", "x", "z", "s", "f") if k in names))]
        falling = pick(r, ("", "", " DESC", " NULLS FIRST", " DESC NULLS LAST"))
        order += falling
        key = pick(r, tuple(k for k in ("d", "x", "f") if k in names))
        if self.tame:
            order = ", ".join([order, *names.values()])
        window = f"PARTITION BY {part} ORDER BY {order}"
        if ranked:
            return f"{pick(r, ('ROW_NUMBER', 'RANK', 'DENSE_RANK'))}() OVER ({window})"
        x = names["x"]
        rank = (
            "ROW_NUMBER()",
            "RANK()",
            "DENSE_RANK()",
            "PERCENT_RANK()",
            "CUME_DIST()",
            "NTILE(2)",
        )
        shift = (f"LAG({x})", f"LEAD({x}, 1, 0)", f"LAG({x}, 2)", f"LEAD({x}) ")
        place = (f"FIRST_VALUE({x})", f"LAST_VALUE({x})", f"NTH_VALUE({x}, 2)")
        total = (f"SUM({x})", f"AVG({x})", f"MIN({x})", f"MAX({x})", f"COUNT({x})", "COUNT(*)",
                 f"COUNT(DISTINCT {x})", f"MEDIAN(CAST({x} AS DOUBLE))", f"QUANTILE_DISC({x}, 0.3)",
                 f"SUM({x}) FILTER (WHERE {x} > 0)", f"COUNT(*) FILTER (WHERE {x} <> 2)")  # fmt: skip
        form = r.randrange(4)
        if form < 2:
            return f"{pick(r, rank + shift)} OVER ({window})"
        if form == 2 and r.random() < 0.3:
            return f"{pick(r, total)} OVER (PARTITION BY {part})"
        frames = ["", " ROWS BETWEEN 1 PRECEDING AND CURRENT ROW", " ROWS UNBOUNDED PRECEDING",
                  " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING", " GROUPS 1 PRECEDING",
                  " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW"]  # fmt: skip
        if r.random() < 0.2:
            distance = pick(r, {
                "d": ("INTERVAL 1 DAY PRECEDING AND CURRENT ROW",
                      "CURRENT ROW AND INTERVAL 2 DAYS FOLLOWING"),
                "f": ("0.5 PRECEDING AND 0.25 FOLLOWING", "UNBOUNDED PRECEDING AND 1 PRECEDING"),
            }.get(key, ("1 PRECEDING AND 1 FOLLOWING", "2 PRECEDING AND 1 PRECEDING")))  # fmt: skip
            return (
                f"{pick(r, total)} OVER (PARTITION BY {part} ORDER BY {names[key]}{falling} "
                f"RANGE BETWEEN {distance})"
            )
        return f"{pick(r, total + place)} OVER ({window}{pick(r, frames)})"

    def window(self, depth: int = 0) -> Rows:
        rows = self.nested(self.owned(depth))
        made = self.nested(rows, {"w0": self.over(rows)})
        low, high = pick(self.r, (("0", "3"), ("-1", "4")))
        number = f"CLAMP({made.names['w0']}, {low}, {high})"
        return replace(made, names=made.names | {pick(self.r, ("x", "n", "p")): number})

    def qualify(self, depth: int = 0) -> Rows:
        rows = self.nested(self.owned(depth))
        if self.r.random() < 0.7:
            test = f"{self.over(rows, ranked=True)} <= {pick(self.r, ('1', '2'))}"
        else:
            test = f"{self.over(rows)} {pick(self.r, ('> 1', 'IS NOT NULL', '= 0'))}"
        return self.nested(rows, tail=f" QUALIFY {test}")

    def first_rows(self) -> Rows:
        """Return a join of two sides with at most k rows a person each, of which none may match."""
        tables = (("visits",), ("visits",), ("orders", "visits"))  # they have most rows a person
        a, b = (
            self._first(self.table(*pick(self.r, tables)), pick(self.r, ("1", "3", "3", "3", "2")))
            for _ in range(2)
        )
        kind = pick(self.r, ("FULL", "FULL", "FULL", "FULL", "LEFT", "RIGHT", "INNER"))
        left, right = a.names["uid"], b.names["uid"]
        on = f"{left} = {right}" if self.r.random() < 0.85 else self._on(a, b)
        owner = {"RIGHT": right, "FULL": f"COALESCE({left}, {right})"}.get(kind, left)
        texts = (f"CAST({s.names.get('z', s.names['x'])} AS VARCHAR)" for s in (a, b))
        both = " || '/' || ".join(texts)  # a key that tells the pairs of one person apart
        names = {"uid": owner, "x": b.names["x"]} | dict.fromkeys(("s", "t", "area"), f"({both})")
        return Rows(f"{a.text} {kind} JOIN {b.text} ON {on}", names)

    def _first(self, rows: Rows, most: str) -> Rows:
        order = ", ".join(rows.names.values()) if self.tame else rows.names["x"]
        number = f"ROW_NUMBER() OVER (PARTITION BY {rows.names['uid']} ORDER BY {order})"
        return self.nested(rows, tail=f" QUALIFY {number} <= {most}")

    def distinct(self, depth: int = 0) -> Rows:
        r, rows = self.r, self.owned(depth)
        kept = {k: v for k, v in rows.names.items() if k in ("uid", "x") or r.random() < 0.5}
        items = ", ".join(f"{text} AS {k}" for k, text in kept.items())
        a = self.alias()
        if r.random() < 0.5:
            body = f"SELECT DISTINCT {items} FROM {rows.text}{_where(rows.where)}"
        else:
            on = ["uid", *(k for k in kept if k not in ("uid", "x") and r.random() < 0.3)]
            r.shuffle(on)
            named = ", ".join(rows.names[k] for k in on)
            by = [pick(r, tuple(kept.values())), *(kept.values() if self.tame else ())]
            order = f" ORDER BY {', '.join([named, *by])}" if self.tame or r.random() < 0.7 else ""
            body = (
                f"SELECT DISTINCT ON ({named}) {items} FROM {rows.text}{_where(rows.where)}{order}"
            )
        return Rows(f"({body}) AS {a}", {k: f"{a}.{k}" for k in kept})

    def set_operation(self, depth: int = 0) -> Rows:
        r = self.r
        parts = [self.owned(depth), *(self.owned() for _ in range(pick(r, (1, 1, 2))))]
        shared = [k for k in ("uid", "x", "s", "d", "z") if all(k in p.names for p in parts)]
        kept = [k for k in shared if k in ("uid", "x") or r.random() < 0.6]
        r.shuffle(kept)
        words = (
            "UNION ALL",
            "UNION ALL",
            "UNION",
            "INTERSECT",
            "EXCEPT",
            "EXCEPT ALL",
            "INTERSECT ALL",
        )
        body = ""
        for index, part in enumerate(parts):
            items = ", ".join(f"{part.names[k]} AS {k}" for k in kept)
            where = " AND ".join(p for p in (part.where, self.condition(part)) if p)
            text = f"SELECT {items} FROM {part.text}{_where(where)}"
            body = f"{body} {pick(r, words)} {text}" if index else text
        a = self.alias()
        return Rows(f"({body}) AS {a}", {k: f"{a}.{k}" for k in kept})

    def hidden_union(self, _: int = 0) -> Rows:
        """Return a UNION ALL that doesn't show the owner."""
        parts = [pick(self.r, (self.table, self.through))() for _ in range(2)]
        shared = [k for k in ("x", "s", "t") if all(k in p.names for p in parts)]
        body = " UNION ALL ".join(
            f"SELECT {', '.join(f'{p.names[k]} AS {k}' for k in shared)} FROM {p.text}"
            for p in parts
        )
        a = self.alias()
        return Rows(f"({body}) AS {a}", {k: f"{a}.{k}" for k in shared})


def _where(condition: str) -> str:
    return f" WHERE {condition}" if condition else ""
