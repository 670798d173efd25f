"""UNION, EXCEPT and INTERSECT of private rows: the owner stands at the same place on both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.parser.correlated import pair
from dp_sql.parser.links import resolved
from dp_sql.parser.scope import Named, PrivateRows, Statement
from dp_sql.plan import functions
from dp_sql.plan.conversion import common_type
from dp_sql.plan.expression import Column, Expression, Literal, Ref
from dp_sql.plan.relation import output
from dp_sql.plan.rows import Project, Rows, SetKind, SetRows
from dp_sql.plan.signature import TypeProblem
from dp_sql.privacy.unit import Level
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import SqlType
from dp_sql.sensitivity.ownership import is_protected, owner_of, owner_places, owners_of

_KINDS: dict[tuple[type[exp.Expr], bool], SetKind] = {
    (exp.Union, True): SetKind.UNION,
    (exp.Union, False): SetKind.UNION_ALL,
    (exp.Except, True): SetKind.EXCEPT,
    (exp.Except, False): SetKind.EXCEPT_ALL,
    (exp.Intersect, True): SetKind.INTERSECT,
    (exp.Intersect, False): SetKind.INTERSECT_ALL,
}
_PARTS = ("this", "expression", "distinct", "with_", "by_name")


def set_rows(
    statement: Statement, node: exp.SetOperation, left: PrivateRows, right: PrivateRows
) -> PrivateRows:
    """Return the combined rows of two blocks of which at least one is protected.

    Raises QueryError where rows of several owners would meet, or belong to nobody.
    """
    for key, value in node.args.items():
        if key not in _PARTS and value not in (None, False, []):
            raise statement.unsupported(
                f"{key.strip('_').upper()} on a {type(node).__name__.upper()} of protected rows "
                "isn't answered.",
                node,
                hint="aggregate first",
            )
    kind = _KINDS[type(node), bool(node.args.get("distinct"))]
    if node.args.get("by_name"):
        left, right = _by_name(statement, node, left, right)
    if len(left.columns) != len(right.columns):
        raise statement.wrong(
            f"one side has {len(left.columns)} columns, the other {len(right.columns)}.", node
        )
    if left.correlated or right.correlated:
        return _for_each(statement, node, left, right)
    sides = _aligned(statement, node, left, right, kind)
    columns = tuple(
        statement.column(n.name, c.type)
        for n, c in zip(left.columns, sides[0].columns, strict=False)
    )
    extra = sides[0].columns[len(columns) :]
    columns += tuple(statement.column(c.name, c.type, nullable=False) for c in extra)
    rows = SetRows(kind, sides[0], sides[1], columns)
    _check(statement, node, rows)
    named = tuple(Named(n.name, c) for n, c in zip(left.columns, columns, strict=False))
    return PrivateRows(rows, named)


def _for_each(
    statement: Statement, node: exp.SetOperation, left: PrivateRows, right: PrivateRows
) -> PrivateRows:
    """Return the combined rows of two sides that read the row around a subquery, for every such row.

    Claim:   for an outer row, the rows whose keys equal its values are what the set operation gives
             of the rows that it sees of both sides.
    Why:     both sides compare keys with the same values by equality, so a side's rows that the outer
             row sees are those with one value of its keys. With the keys as further columns, rows of
             one value only meet rows of that value.
    Assumes: `_check` and `sensitivity.locality`, as of any set operation: an owner is at one place on
             both sides, a key's or a column's.
    """
    pairs = [[pair(part, side.relation) for part in side.correlated] for side in (left, right)]
    found = [{outer: inner for inner, outer in filter(None, side)} for side in pairs]
    wanted = list(found[0])
    one_to_one = all(len(f) == len(p) for f, p in zip(found, pairs, strict=True))
    if not one_to_one or set(found[0]) != set(found[1]):
        raise statement.unsupported(
            "both sides of this set operation have to compare the same columns of the block around "
            "the subquery, by equality.",
            node,
            hint="the same conditions on both sides, such as owner = outer.owner; or one condition "
            "for each side: EXISTS (…) AND EXISTS (…), or x IN (…) AND NOT x IN (…)",
        )
    bare = node.copy()
    bare.set("by_name", None)
    sides = [
        _with_keys(statement, side, [keys[outer] for outer in wanted])
        for side, keys in zip((left, right), found, strict=True)
    ]
    made = set_rows(statement, bare, sides[0], sides[1])
    columns, keys = made.columns[: len(left.columns)], made.columns[len(left.columns) :]
    equal = [
        functions.call("=", (Ref(k.column), outer)) for k, outer in zip(keys, wanted, strict=True)
    ]
    return replace(made, columns=columns, correlated=tuple(equal))


def _with_keys(statement: Statement, side: PrivateRows, keys: Sequence[Expression]) -> PrivateRows:
    source = resolved(statement, side.relation)
    made = tuple(statement.column("key", key.type) for key in keys)
    kept = output(source)
    relation = Project(source, (*kept, *made), (*(Ref(c) for c in kept), *keys))
    named = (*side.columns, *(Named("key", column) for column in made))
    return replace(side, relation=relation, columns=named, correlated=())


def _by_name(
    statement: Statement, node: exp.Expr, left: PrivateRows, right: PrivateRows
) -> tuple[PrivateRows, PrivateRows]:
    """Return both sides with the columns of either: the left's in order, then the right's others.

    A column that a side doesn't have is NULL there, as in DuckDB; so it is no owner's.
    """
    names = {ascii_lower(n.name): n.name for n in (*reversed(right.columns), *left.columns)}
    for side in (left, right):
        found = [ascii_lower(n.name) for n in side.columns]
        twice = next((n for n in found if found.count(n) > 1), None)
        if twice is not None:
            raise statement.wrong(
                f"BY NAME with two columns called {twice!r} on one side.",
                node,
                hint=f"{twice} AS another",
            )
    mine = [ascii_lower(n.name) for n in left.columns]
    order = [*mine, *(k for n in right.columns if (k := ascii_lower(n.name)) not in mine)]
    return _with_all(statement, left, order, names), _with_all(statement, right, order, names)


def _with_all(
    statement: Statement, side: PrivateRows, order: Sequence[str], names: Mapping[str, str]
) -> PrivateRows:
    known = {ascii_lower(n.name): n for n in side.columns}
    added = {k: statement.column(names[k], sqltype.NULL) for k in order if k not in known}
    columns = tuple(known.get(k) or Named(names[k], added[k]) for k in order)
    if not added:
        return replace(side, columns=columns)
    source = resolved(statement, side.relation)
    kept = output(source)
    null = Literal(None, sqltype.NULL)
    made = Project(
        source,
        (*kept, *added.values()),
        (*(Ref(c) for c in kept), *(null for _ in added)),
    )
    return replace(side, relation=made, columns=columns)


def _aligned(
    statement: Statement, node: exp.Expr, left: PrivateRows, right: PrivateRows, kind: SetKind
) -> tuple[Project, Project]:
    """Return both sides with equal types; under UNION ALL the owners as a last, hidden column."""
    sources = [resolved(statement, side.relation) for side in (left, right)]
    types = [
        _common(statement, node, a.name, [a.column.type, b.column.type])
        for a, b in zip(left.columns, right.columns, strict=True)
    ]
    hidden = [owner for source in sources if (owner := owner_of(source)) is not None]
    owned: SqlType | None = None
    if kind is SetKind.UNION_ALL and len(hidden) == len(sources):
        owned = _common(statement, node, hidden[0].name, [owner.type for owner in hidden])
    made = []
    for place, (source, side) in enumerate(zip(sources, (left, right), strict=True)):
        columns: list[Column] = []
        expressions: list[Expression] = []
        for named, type_ in zip(side.columns, types, strict=True):
            ref: Expression = Ref(named.column)
            if named.column.type != type_:
                ref = functions.cast(ref, type_)
            columns.append(statement.column(named.name, type_))
            expressions.append(ref)
        if owned is not None:
            own = Ref(hidden[place])
            columns.append(statement.column(own.column.name, owned, nullable=False))
            expressions.append(own if own.type == owned else functions.cast(own, owned))
        made.append(Project(source, tuple(columns), tuple(expressions)))
    return made[0], made[1]


def _common(statement: Statement, node: exp.Expr, name: str, types: Sequence[SqlType]) -> SqlType:
    """Return the type that both sides' values of a column become."""
    try:
        return common_type(types[0], types[1])
    except TypeProblem as problem:
        raise statement.wrong(f"{name}: {problem}.", node) from None


def _check(statement: Statement, node: exp.Expr, rows: SetRows) -> None:
    word = rows.kind.value
    left, right = is_protected(rows.left), is_protected(rows.right)
    union = rows.kind in (SetKind.UNION, SetKind.UNION_ALL)
    if not left and not right:
        other = "NOT x IN (…)" if rows.kind in (SetKind.EXCEPT, SetKind.EXCEPT_ALL) else "x IN (…)"
        raise statement.unsupported(
            f"{word} of public rows that read a row of the block around them isn't answered.",
            node,
            hint=f"a condition for each side: x IN (…) AND {other}",
        )
    if not left or (union and not right):
        raise statement.not_private(
            f"{word} of protected and public rows has rows that belong to nobody.",
            node,
            hint="aggregate the protected rows first",
        )
    if rows.kind is SetKind.UNION_ALL and statement.catalog.unit.level is Level.EVENT:
        return
    places = owner_places(rows)
    if places and (union or not right or _owner_at(rows.right, places)):
        return
    owner = owner_of(rows.left)
    raise statement.not_private(
        f"{word} compares rows, so the owner has to be among their columns on both sides.",
        node,
        hint="the owner's column on both sides, or UNION ALL"
        if owner is None
        else f"SELECT {owner.name}, … on both sides, or UNION ALL",
    )


def _owner_at(side: Rows, places: list[tuple[Column, int]]) -> bool:
    owners, columns = owners_of(side), output(side)
    return any(columns[position].number in owners for _, position in places)
