"""The entry of the parser: a statement's text to a `Query`, or an error with a caret."""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

from dp_sql.parser import nearby
from dp_sql.parser.aggregates import is_interval
from dp_sql.parser.blocks import Blocks
from dp_sql.parser.empty import check_filled
from dp_sql.parser.growth import balance, check_levels
from dp_sql.parser.linear import form_of
from dp_sql.parser.lists import unfold
from dp_sql.parser.options import check_places
from dp_sql.parser.planar_calls import is_planar
from dp_sql.parser.release_block import RELEASED
from dp_sql.parser.render import is_word, render
from dp_sql.parser.scope import Describe, Environment, OpenBlock, Statement
from dp_sql.parser.text import parse_text
from dp_sql.plan.release import GROUP_NUMBER, ItemForm, Query, Release, Residual
from dp_sql.schema.catalog import Catalog

_BARE = frozenset({"expressions", "from_", "order"})  # of a SELECT that only shows columns


def parse(text: str, catalog: Catalog, describe: Describe | None = None) -> Query:
    """Return the plan of the one query in `text`.

    describe: binds text above releases, for statements whose private rows read its results.

    Raises QueryError (UnsupportedSQLError, NotPrivateError) for text that can't be answered. Names
    are resolved against `catalog` alone; no data are read.
    """
    parsed = parse_text(text)
    tree = parsed.tree
    named = isinstance(tree, exp.Select) and all(isinstance(i, exp.Alias) for i in tree.expressions)
    ends = _ends(tree)
    balance(tree)
    check_levels(text, tree)
    statement = Statement(text, catalog, describe)
    check_filled(statement, tree)
    unfold(tree, catalog)
    check_places(statement, parsed.tree)
    bound = Blocks(statement).query(parsed.tree, Environment({}), top=True)
    statement.growth.check()
    if not isinstance(bound, OpenBlock):
        raise statement.not_private(
            f"the rows of a protected table can't be returned{bound.personal and ': '}{bound.personal}.",
            parsed.tree,
            hint="aggregate them: SELECT COUNT(*) FROM …",
            tries=nearby.aggregated(parsed.tree),
        )
    rendered, items, shown, forms = _aligned(bound.tree, statement.releases)
    sql = render(rendered)
    order = sql.rpartition(f'"{RELEASED}"."{statement.releases[0].name}"')[2] if shown else ""
    public = tuple(sorted(statement.public_tables))
    return Query(
        tuple(statement.releases),
        Residual(sql, text, parsed.plain, public, items, named, shown, order, forms, ends),
        tuple(statement.stages),
        tuple(statement.notes),
    )


def _ends(tree: exp.Expr) -> tuple[int, ...]:
    """Return the places of a select list that hold an end of an interval without a name."""
    items = tree.expressions if isinstance(tree, exp.Select) else []
    return tuple(i for i, item in enumerate(items) if is_interval(item))


_Aligned: TypeAlias = tuple[
    exp.Expr, tuple[str | None, ...], tuple[tuple[str, str], ...], tuple[ItemForm, ...]
]


def _aligned(tree: exp.Expr, releases: list[Release]) -> _Aligned:
    """Return the tree with the group's number as last column, its items, `Residual.shown`, the forms.

    The tree stays as it is, and all are empty, where rows aren't groups.
    """
    if not isinstance(tree, exp.Select):
        return tree, (), (), ()
    source = tree.args.get("from_")
    if (
        source is None
        or len(releases) != 1
        or tree.args.get("distinct") is not None
        or tree.args.get("with_") is not None
        or tree.args.get("joins")
        or not isinstance(source.this, exp.Table)
        or source.this.db != RELEASED
    ):
        return tree, (), (), ()
    shown = _shown(tree, source.this.name)
    items = tuple(None if _reads_more(item) else _item(item.unalias()) for item in tree.expressions)
    names = [a.name for a in releases[0].aggregates]
    forms = tuple(form_of(item, names) for item in tree.expressions)
    number = exp.column(GROUP_NUMBER, table=source.this.name, quoted=True)
    return tree.select(number, copy=False), items, shown, forms


def _reads_more(item: exp.Expr) -> bool:
    """Return whether an item reads other rows than its own, or draws anew whenever it is computed."""
    if item.find(exp.Window, exp.Query, exp.Subquery) is not None:
        return True
    return any(is_planar(node) for node in item.find_all(exp.Anonymous))


def _shown(tree: exp.Select, table: str) -> tuple[tuple[str, str], ...]:
    """Return each item of a query over a released table as (column, name), if all are columns.

    Empty where there is a condition, a limit or an order by anything but columns, and where DuckDB
    might refuse a name.
    """
    if any(value for key, value in tree.args.items() if key not in _BARE):
        return ()
    order = tree.args.get("order")
    for place in () if order is None else order.expressions:
        known = isinstance(place, exp.Ordered) and place.args.get("with_fill") is None
        column = _column(place.this) if known else None
        if column is None or column[0] != table:
            return ()
    shown = []
    for item in tree.expressions:
        column = _column(item.unalias())
        if column is None or column[0] != table or not item.alias or not item.alias.isprintable():
            return ()
        shown.append((column[1], item.alias))
    return tuple(shown)


def _item(tree: exp.Expr) -> str:
    """Return the text of an item of a select list, which stays in its tree."""
    column = _column(tree)
    return render(tree.copy()) if column is None else f'"{column[0]}"."{column[1]}"'


def _column(tree: exp.Expr) -> tuple[str, str] | None:
    """Return table and name of a column where both are plain words, None for everything else."""
    match tree.args if isinstance(tree, exp.Column) else None:
        case {"this": exp.Identifier(name=name), "table": exp.Identifier(name=table), **rest}:
            if not any(rest.values()) and is_word(name) and is_word(table):
                return table, name
    return None
