"""A subquery over all persons' rows with the outer row's key, as a join with a release by that key."""

from __future__ import annotations

from collections.abc import Container, Iterator

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.dialect import Reading
from dp_sql.schema.catalog import ascii_lower


@dataclass(frozen=True, slots=True)
class _Split:
    """The WHERE of a subquery. keys: (inner, outer) of its equalities; rest: its own conditions."""

    keys: list[tuple[exp.Expr, exp.Column]]
    rest: list[exp.Expr]


def joined_by_key(query: exp.Select, outer: list[exp.Column]) -> Iterator[str]:
    """Yield a whole statement in which the value that a subquery has for a row comes from a join.

    query: an aggregate whose WHERE compares its rows with the outer row by equality alone. outer: its
    columns that are the outer row's. The aggregate becomes a release by what it compares; where no row
    is like the outer one, the value is NULL as the subquery's, and a count is 0.
    """
    block, whole = query.parent_select, query.find_ancestor(exp.Select)
    while whole is not None and whole.parent_select is not None:
        whole = whole.parent_select
    found = _split(query, {id(column) for column in outer})
    if block is None or block is not whole or block.parent is not None or found is None:
        return
    place = next(i for i, node in enumerate(block.walk()) if node is query)
    tree = block.copy()
    inside = next(node for i, node in enumerate(tree.walk()) if i == place)
    used = {ascii_lower(n.name) for n in block.find_all(exp.Identifier)}
    name = next(n for n in ("r", "by_key", *(f"r{i}" for i in range(2, 99))) if n not in used)
    value = next(n for n in ("m", "value", *(f"m{i}" for i in range(2, 99))) if n not in used)
    keys = [
        inner.name if isinstance(inner, exp.Column) else f"k{i}"
        for i, (inner, _) in enumerate(found.keys)
    ]
    released = exp.Select(
        expressions=[
            *(
                exp.alias_(inner.copy(), key)
                for (inner, _), key in zip(found.keys, keys, strict=True)
            ),
            exp.alias_(query.expressions[0].unalias().copy(), value),
        ]
    )
    for part in released.expressions[: len(keys)]:
        if part.unalias().name == part.alias:
            part.replace(part.unalias())
    released.set("from_", query.args["from_"].copy())
    released.set("joins", [join.copy() for join in query.args.get("joins") or []])
    if found.rest:
        released.set("where", exp.Where(this=exp.and_(*(part.copy() for part in found.rest))))
    released.set("group", exp.Group(expressions=[inner.copy() for inner, _ in found.keys]))
    column: exp.Expr = exp.column(value, table=name)
    if isinstance(query.expressions[0].unalias(), exp.Count):
        column = exp.Coalesce(this=column, expressions=[exp.Literal.number(0)])
    wrapped = inside.parent if isinstance(inside.parent, exp.Subquery) else inside
    wrapped.replace(column)
    _qualify(tree, {*map(ascii_lower, keys), value}, name)
    equal = [
        exp.EQ(this=_of(tree, theirs.copy()), expression=exp.column(key, table=name))
        for (_, theirs), key in zip(found.keys, keys, strict=True)
    ]
    join = exp.Join(this=exp.to_table(name), side="LEFT", on=exp.and_(*equal))
    tree.append("joins", join)
    tree.with_(name, as_=released, copy=False)
    yield tree.sql(dialect=Reading)


def _split(query: exp.Select, outer: Container[int]) -> _Split | None:
    """Return the WHERE of a subquery in parts, None where it is compared otherwise or has other clauses."""
    if any(v for k, v in query.args.items() if k not in ("expressions", "from_", "joins", "where")):
        return None
    where = query.args.get("where")
    if len(query.expressions) != 1 or where is None or not has_aggregate(query.expressions[0]):
        return None
    found = _Split([], [])
    for part in where.this.flatten() if isinstance(where.this, exp.And) else [where.this]:
        if not any(id(column) in outer for column in part.find_all(exp.Column)):
            found.rest.append(part)
            continue
        if not isinstance(part, exp.EQ):
            return None
        for inner, theirs in ((part.this, part.expression), (part.expression, part.this)):
            own = not any(id(column) in outer for column in inner.find_all(exp.Column))
            if own and isinstance(theirs, exp.Column):
                found.keys.append((inner, theirs))
                break
        else:
            return None
    inside = (*(inner for inner, _ in found.keys), *found.rest, query.expressions[0])
    read = [c for part in inside for c in part.find_all(exp.Column)]
    return found if found.keys and not any(id(column) in outer for column in read) else None


def _qualify(tree: exp.Select, names: Container[str], release: str) -> None:
    """Name the table of the block's columns that the release has too, where it reads one table."""
    for column in tree.find_all(exp.Column):
        if (
            column.parent_select is tree
            and ascii_lower(column.name) in names
            and column.table != release
        ):
            column.replace(_of(tree, column.copy()))


def _of(tree: exp.Select, column: exp.Column) -> exp.Column:
    source = tree.args.get("from_")
    if not column.table and source is not None and not tree.args.get("joins"):
        column.set("table", exp.to_identifier(source.this.alias_or_name))
    return column
