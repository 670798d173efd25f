"""Which columns of a stage tell its rows apart, and how many rows its text gives at most."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from dp_sql.parser.group_keys import grouping
from dp_sql.parser.own_names import Names
from dp_sql.parser.release_block import RELEASED
from dp_sql.parser.scope import Environment, OpenName, Statement
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import Kind, SqlType

_MAKES_ROWS = (exp.Unnest, exp.Explode, exp.Posexplode, exp.Columns, exp.Anonymous)
_MOST = 100_000  # numbers of a range


def telling(
    statement: Statement, env: Environment, tree: exp.Expr, types: list[SqlType]
) -> tuple[int, ...]:
    """Return the positions of columns whose values together only one row of an open query has.

    They are the keys of a GROUP BY or of the one release that the query reads, all columns of a
    DISTINCT or a set operation, or one column of a list of constants. None where a key
    isn't among the columns or is a float, or where nothing says so. (The engine keeps one row of
    each: that groups are told apart by their keys is meaning, not privacy.)
    """
    tree = _opened(env, tree)
    listed = _listed(tree)
    if listed is not None:
        return _different(listed, types)
    source = _source(tree)
    if isinstance(source, exp.Table) and isinstance(source.this, exp.GenerateSeries):
        return () if types[0].is_float else (0,)
    if _is_distinct(tree):
        return () if any(type_.is_float for type_ in types) else tuple(range(len(types)))
    if not isinstance(tree, exp.Select) or len(tree.expressions) != len(types):
        return ()
    if tree.is_star or any(item.find(*_MAKES_ROWS) for item in tree.expressions):
        return ()
    keys = _grouped(statement, env, tree) if tree.args.get("group") else _released(statement, tree)
    items = [item.unalias() for item in tree.expressions]
    places = [items.index(key) for key in keys if key in items]
    told = len(places) == len(keys) and not any(types[place].is_float for place in places)
    return tuple(places) if told else ()


def most_rows(env: Environment, tree: exp.Expr) -> int | None:
    """Return how many rows an open query gives at most, as its text says; None where it doesn't."""
    tree = _opened(env, tree)
    listed = _listed(tree)
    if listed is not None:
        return len(listed)
    limit = tree.args.get("limit")
    count = None if limit is None else limit.expression
    plain = isinstance(limit, exp.Limit) and not limit.args.get("limit_options")
    if plain and isinstance(count, exp.Literal) and count.is_int:
        return int(count.name)
    return None


def _listed(tree: exp.Expr) -> Sequence[Sequence[exp.Expr]] | None:
    """Return the rows of a query that is a list of constants, a range of numbers or VALUES."""
    source = _source(tree)
    series = source.this if isinstance(source, exp.Table) else None
    match source:
        case exp.Values():
            rows = [row.expressions for row in source.expressions if isinstance(row, exp.Tuple)]
            return rows if len(rows) == len(source.expressions) else None
        case exp.Unnest(expressions=[exp.Array(expressions=values)]) if not source.args["offset"]:
            return [[value] for value in values]
        case exp.Table() if isinstance(series, exp.GenerateSeries):
            return _numbers(series)
        case _:
            return None


def _source(tree: exp.Expr) -> exp.Expr | None:
    """Return what alone a `SELECT * FROM …` reads, or a query that is none; None for others."""
    source: exp.Expr | None = tree
    if isinstance(tree, exp.Select):
        if tree.expressions != [exp.Star()] or tree.args.get("joins") or not tree.args.get("from_"):
            return None
        source = tree.args["from_"].this
    while isinstance(source, exp.Subquery) and not source.args.get("joins") and not _pivots(source):
        source = source.this
    return None if source is None or _pivots(source) else source


def _pivots(node: exp.Expr) -> bool:
    """Return whether a PIVOT or UNPIVOT makes other rows of an item of FROM."""
    return bool(node.args.get("pivots"))


def _numbers(series: exp.GenerateSeries) -> list[list[exp.Expr]] | None:
    """Return the numbers of range(…) or generate_series(…) between constants, if they are few."""
    parts = [series.args.get(k) for k in ("start", "end", "step")]
    found = [1 if part is None else _whole(part) for part in parts]
    first, last, step = found
    if first is None or last is None or not step or abs(last - first) // abs(step) > _MOST:
        return None
    end = last if series.args.get("is_end_exclusive") else last + (1 if step > 0 else -1)
    return [[exp.Literal.number(number)] for number in range(first, end, step)]


def _whole(node: exp.Expr) -> int | None:
    """Return the whole number that is written, None for all else."""
    sign, inner = (-1, node.this) if isinstance(node, exp.Neg) else (1, node)
    return sign * int(inner.name) if isinstance(inner, exp.Literal) and inner.is_int else None


def _different(rows: Sequence[Sequence[exp.Expr]], types: list[SqlType]) -> tuple[int, ...]:
    """Return the position of a column of constants that are different in all rows, if there is one."""
    for place, type_ in enumerate(types):
        column = [row[place] if place < len(row) else exp.Null() for row in rows]
        texts = [v.name for v in column if isinstance(v, exp.Literal) and v.is_string]
        wholes = [w for v in column if (w := _whole(v)) is not None]
        kinds = (texts, type_.kind is Kind.VARCHAR), (wholes, type_.is_integer)
        if any(fits and len(set(v)) == len(rows) == len(v) for v, fits in kinds):
            return (place,)
    return ()


def _is_distinct(tree: exp.Expr) -> bool:
    """Return whether the rows of a query are all different."""
    distinct = tree.args.get("distinct")
    if isinstance(tree, exp.SetOperation):
        return bool(distinct)
    return isinstance(distinct, exp.Distinct) and distinct.args.get("on") is None


def _opened(env: Environment, tree: exp.Expr) -> exp.Expr:
    """Return the query that a tree stands for: without parentheses, of a CTE what it is defined as."""
    while isinstance(tree, exp.Subquery):
        tree = tree.this
    if isinstance(tree, exp.Select) and {k for k, v in tree.args.items() if v} == {
        "expressions",
        "from_",
    }:
        table = tree.args["from_"].this
        named = env.ctes.get(ascii_lower(table.name)) if isinstance(table, exp.Table) else None
        plain = isinstance(named, OpenName) and not named.recursive and not table.db
        if tree.expressions == [exp.Star()] and plain and isinstance(named, OpenName):
            return _opened(env, named.cte.this)
    return tree


def _grouped(statement: Statement, env: Environment, tree: exp.Select) -> list[exp.Expr]:
    """Return the one set of keys that a query groups by, an alias as what it stands for."""
    keys, sets = grouping(statement, tree)
    if len(sets) > 1:
        return []
    known = Names(tree, env, statement.catalog)
    aliases = {ascii_lower(i.alias): i.this for i in tree.expressions if isinstance(i, exp.Alias)}
    return [
        aliases.get(ascii_lower(key.name), key)
        if isinstance(key, exp.Column) and not key.table and not known.knows(key)
        else key
        for key in keys
    ]


def _released(statement: Statement, tree: exp.Select) -> list[exp.Expr]:
    """Return the keys of the one release that a query reads, as it names them."""
    clause = tree.args.get("from_")
    table = clause.this if isinstance(clause, exp.From) else None
    if not isinstance(table, exp.Table) or table.db != RELEASED or tree.args.get("joins"):
        return []
    release = next(r for r in statement.releases if r.name == table.name)
    if len(release.sets) > 1:
        return []
    alias = exp.to_identifier(table.alias_or_name, quoted=True)
    return [exp.column(exp.to_identifier(k.name, quoted=True), alias) for k in release.keys]
