"""The entry of the parser: a statement's text to a `Query`, or an error with a caret."""

from __future__ import annotations

from typing import TypeAlias

from sqlglot import exp

from dp_sql.parser import nearby
from dp_sql.parser.aggregates import is_interval
from dp_sql.parser.bare_items import bare_items
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
from dp_sql.plan.release import GROUP_NUMBER, ItemForm, Query, Release, Residual, ShownOrder
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
    bare = None if named else bare_items(tree, parsed.plain, parsed.tokens, ends)
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
    rendered, items, (shown, order), forms = _aligned(bound.tree, statement.releases)
    sql = render(rendered)
    public = tuple(sorted(statement.public_tables))
    return Query(
        tuple(statement.releases),
        Residual(sql, text, parsed.plain, public, items, named, shown, order, forms, ends, bare),
        tuple(statement.stages),
        tuple(statement.notes),
    )


def _ends(tree: exp.Expr) -> tuple[int, ...]:
    """Return the places of a select list that hold an end of an interval without a name."""
    items = tree.expressions if isinstance(tree, exp.Select) else []
    return tuple(i for i, item in enumerate(items) if is_interval(item))


_Shown: TypeAlias = tuple[tuple[tuple[str, str], ...], tuple[ShownOrder, ...]]
_Aligned: TypeAlias = tuple[exp.Expr, tuple[str | None, ...], _Shown, tuple[ItemForm, ...]]
_NOTHING: _Shown = ((), ())


def _aligned(tree: exp.Expr, releases: list[Release]) -> _Aligned:
    """Return the tree with the group's number as last column, its items, what is shown, the forms.

    The tree stays as it is, and all are empty, where rows aren't groups.
    """
    if not isinstance(tree, exp.Select):
        return tree, (), _NOTHING, ()
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
        return tree, (), _NOTHING, ()
    shown = _shown(tree, source.this.name)
    items = tuple(_item(item) for item in tree.expressions)
    names = [a.name for a in releases[0].aggregates]
    forms = tuple(form_of(item, names) for item in tree.expressions)
    number = exp.column(GROUP_NUMBER, table=source.this.name, quoted=True)
    return tree.select(number, copy=False), items, shown, forms


def _reads_more(item: exp.Expr) -> bool:
    """Return whether an item reads other rows than its own, or draws anew whenever it is computed."""
    if item.find(exp.Window, exp.Query, exp.Subquery) is not None:
        return True
    return any(is_planar(node) for node in item.find_all(exp.Anonymous))


def _shown(tree: exp.Select, table: str) -> _Shown:
    """Return `shown` and `order` of a residual, of a query over a released table.

    Empty where there is a condition, a limit or an order by anything but columns, and where DuckDB
    might refuse a name.
    """
    if any(value for key, value in tree.args.items() if key not in _BARE):
        return _NOTHING
    shown = []
    for item in tree.expressions:
        column = _column(item.unalias())
        if column is None or column[0] != table or not item.alias or not item.alias.isprintable():
            return _NOTHING
        shown.append((column[1], item.alias))
    written = tree.args.get("order")
    order = []
    for place in () if written is None else written.expressions:
        known = isinstance(place, exp.Ordered) and place.args.get("with_fill") is None
        column = _column(_numbered(place.this, tree.expressions)) if known else None
        if column is None or column[0] != table:
            return _NOTHING
        ends = bool(place.args.get("desc")), bool(place.args.get("nulls_first"))
        order.append(ShownOrder(column[1], *ends))
    return tuple(shown), tuple(order)


def _numbered(place: exp.Expr, items: list[exp.Expr]) -> exp.Expr:
    """Return the item that a number in ORDER BY stands for, everything else as it is."""
    is_number = isinstance(place, exp.Literal) and not place.is_string and len(place.name) < 5
    number = int(place.name) if is_number and place.name.isdecimal() else 0
    return items[number - 1].unalias() if 1 <= number <= len(items) else place


def _item(item: exp.Expr) -> str | None:
    """Return the text of an item of a select list, which stays in its tree; None if it reads more."""
    tree = item.unalias()
    column = _column(tree)
    if column is not None:
        return f'"{column[0]}"."{column[1]}"'
    return None if _reads_more(item) else render(tree.copy())


def _column(tree: exp.Expr) -> tuple[str, str] | None:
    """Return table and name of a column where both are plain words, None for everything else."""
    match tree.args if isinstance(tree, exp.Column) else None:
        case {"this": exp.Identifier(name=name), "table": exp.Identifier(name=table), **rest}:
            if not any(rest.values()) and is_word(name) and is_word(table):
                return table, name
    return None
