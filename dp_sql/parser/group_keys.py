"""What a GROUP BY names: keys, ALL, sets of keys; and the places that an ORDER BY names."""

from __future__ import annotations

from itertools import combinations

from sqlglot import exp

from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.scope import Statement

MOST_SETS = 64  # of keys in one GROUP BY


def key_nodes(statement: Statement, node: exp.Select) -> list[exp.Expr]:
    """Return the expressions that a block groups by; none where it has no GROUP BY.

    Raises QueryError for a position that isn't there and for several sets of keys.
    """
    keys, sets = grouping(statement, node)
    if len(sets) > 1:
        raise statement.unsupported(
            "groups by several sets of keys aren't answered here.",
            node.args["group"],
            hint="group by one set of keys",
        )
    return keys


def grouping(
    statement: Statement, node: exp.Select
) -> tuple[list[exp.Expr], list[tuple[int, ...]]]:
    """Return the expressions that a block groups by, and its sets of them, as places in that list.

    The items of a GROUP BY multiply: each of the sets of one goes with each of the others'.

    Raises QueryError for a position that isn't there and for more than MOST_SETS sets.
    """
    group = node.args.get("group")
    if group is None:
        return [], [()]
    for key, value in group.args.items():
        if key not in ("expressions", "all") and value not in (None, False, []):
            raise statement.unsupported(f"GROUP BY {key.upper()} isn't answered.", group)
    if group.args.get("all"):
        keys = [i.unalias() for i in node.expressions if not has_aggregate(i)]
        return keys, [tuple(range(len(keys)))]
    sets: list[_Set] = [()]
    for item in group.expressions:
        others = _sets(statement, item)
        _check_number(statement, len(sets) * len(others), item)
        sets = [(*one, *other) for one in sets for other in others]
    keys = []
    places = []
    for one in sets:
        meant = [_meant(statement, item, node) for item in one]
        keys += [item for item in meant if item not in keys]
        places.append(tuple(dict.fromkeys(keys.index(item) for item in meant)))
    return keys, places


_Set = tuple[exp.Expr, ...]


def _sets(statement: Statement, item: exp.Expr) -> list[_Set]:
    """Return the sets that one item of GROUP BY or GROUPING SETS stands for."""
    match item:
        case exp.GroupingSets():
            return [one for inner in item.expressions for one in _sets(statement, inner)]
        case exp.Rollup():
            parts = [_flat(part) for part in item.expressions]
            _check_number(statement, len(parts) + 1, item)
            return [sum(parts[:size], ()) for size in range(len(parts), -1, -1)]
        case exp.Cube():
            parts = [_flat(part) for part in item.expressions]
            _check_number(statement, 2 ** min(len(parts), MOST_SETS), item)
            return [
                sum(some, ())
                for size in range(len(parts), -1, -1)
                for some in combinations(parts, size)
            ]
        case _:
            return [_flat(item)]


def _flat(item: exp.Expr) -> _Set:
    """Return the expressions in parentheses, or the one expression that stands alone."""
    if isinstance(item, exp.Paren) and isinstance(item.this, exp.Tuple | exp.Paren):
        return _flat(item.this)
    if isinstance(item, exp.Tuple):
        return tuple(inner for part in item.expressions for inner in _flat(part))
    return (item,)


def _check_number(statement: Statement, sets: int, item: exp.Expr) -> None:
    if sets > MOST_SETS:
        raise statement.unsupported(
            f"these are more than {MOST_SETS} sets of keys, and each adds noise to all.",
            item,
            hint="GROUPING SETS with the sets that you need",
        )


def _meant(statement: Statement, item: exp.Expr, node: exp.Select) -> exp.Expr:
    """Return what an item of GROUP BY means: a position, an alias or an expression."""
    inner = item.unnest() if isinstance(item, exp.Paren) else item
    if isinstance(inner, exp.Literal) and not inner.is_string:
        index = int(inner.name) if inner.is_int else 0
        if not 1 <= index <= len(node.expressions):
            raise statement.wrong(
                f"GROUP BY {inner.name}: the select list has {len(node.expressions)}.", inner
            )
        chosen: exp.Expr = node.expressions[index - 1]
        return chosen.unalias()
    return item


def check_order(statement: Statement, node: exp.Select) -> None:
    """Raise QueryError for a number in ORDER BY that is no place of the select list."""
    order = node.args.get("order")
    for ordered in [] if order is None else order.expressions:
        place = ordered.this.unnest()
        whole = isinstance(place, exp.Literal) and place.is_int and not place.is_string
        if whole and not 1 <= int(place.name) <= len(node.expressions):
            raise statement.wrong(
                f"ORDER BY {place.name} is out of range: the select list has {len(node.expressions)}.",
                place,
                hint=f"a number from 1 to {len(node.expressions)}",
            )
