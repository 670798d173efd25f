"""Lists of one person's values that a subquery collects and the block above it takes apart.

`len(t)` and `t[2]` over a subquery's item `LIST(x ORDER BY y) AS t` become items of the subquery: what
is taken of a list moves to where the list is made, and no list is ever a column.
"""

from __future__ import annotations

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.parser.dialect import unnamed
from dp_sql.parser.list_calls import LENGTHS, takes
from dp_sql.schema.catalog import Catalog, ascii_lower

ELEMENT_CALLS = frozenset({"list_extract", "list_element", "array_extract"})
"""What else t[2] is written as."""


@dataclass(frozen=True, slots=True)
class _Made:
    """Where an item of a subquery is made: its block, its place there, and its names from outside.

    names: the identifiers of an alias list that names the columns, None where there is none.
    """

    block: exp.Select
    place: int
    names: list[exp.Expr] | None

    @property
    def item(self) -> exp.Expr:
        """The item of the select list, with its name."""
        made: exp.Expr = self.block.expressions[self.place]
        return made


def unfold(tree: exp.Expr, catalog: Catalog) -> None:
    """Move what blocks take of their subqueries' lists into these subqueries, in place.

    Blocks go from the outermost inwards, so a list may pass through several. A list that is used as
    a whole anywhere stays where it is.
    """
    if tree.find(exp.ArrayAgg) is None:
        return
    blocks = [_Block(block, catalog) for block in tree.find_all(exp.Select, bfs=True)]
    for block in reversed(blocks):
        block.name_columns()
    for block in blocks:
        block.unfold_own()
    for block in blocks:
        block.unfold()


class _Block:
    """One block and what it reads in FROM, joins in parentheses left out."""

    def __init__(self, block: exp.Select, catalog: Catalog) -> None:
        first = block.args.get("from_")
        read = [*([] if first is None else [first]), *(block.args.get("joins") or [])]
        self._block = block
        self._catalog = catalog
        self._sources = [s.this for s in read if isinstance(s.this, exp.Subquery | exp.Table)]
        self._whole = len(self._sources) == len(read)

    def name_columns(self) -> None:
        """Write the columns that * stands for where it is those of one subquery that has lists."""
        items, sources = self._block.expressions, self._sources
        star = (
            len(items) == 1 and isinstance(items[0], exp.Star) and not any(items[0].args.values())
        )
        if star and len(sources) == 1 and self._whole:
            names = _names(sources[0])
            if any(self._list_of(sources[0], name) for name in names):
                named = [exp.column(exp.to_identifier(n, quoted=True)) for n in names]
                self._block.set("expressions", named)

    def unfold_own(self) -> None:
        """Put the block's own lists in the place of their names where it takes them apart itself."""
        for item in self._block.expressions:
            lacking = self._whole and all(self._lacks(s, item.alias) for s in self._sources)
            if isinstance(item, exp.Alias) and _is_list(item.this) and lacking:
                for use in [c for c in _columns(self._block, item.alias) if not c.table]:
                    if _taken(use, self._block) is not None:
                        use.replace(item.this.copy())

    def unfold(self) -> None:
        """Move what the block takes of its sources' lists into them."""
        if any(item.is_star for item in self._block.expressions):
            return
        for source in self._sources:
            for name in [n for n in _names(source) if n]:
                made = self._list_of(source, name)
                if made is not None:
                    self._move_uses(source, name, made)

    def _move_uses(self, source: exp.Expr, name: str, made: _Made) -> None:
        others = [s for s in self._sources if s is not source]
        alone = self._whole and all(self._lacks(other, name) for other in others)
        uses = [
            c
            for c in _columns(self._block, name)
            if (_called(source, c.table) if c.table else alone)
        ]
        taken = [(use, _taken(use, self._block)) for use in uses]
        wholes = [(use, whole) for use, whole in taken if whole is not None]
        if not uses and not _read_inside(made):
            made.item.unalias().replace(exp.ArraySize(this=made.item.unalias().copy()))
        if not wholes or len(wholes) != len(taken):
            return
        _name_items(self._block, [whole for _, whole in wholes])
        for use, whole in wholes:
            _move(use, whole, made)
        if not _read_inside(made):
            _drop(made)

    def _list_of(self, source: exp.Expr, name: str) -> _Made | None:
        """Return where a column of a source is made if it is a list; None for other columns."""
        found, known = _block_of(source), [ascii_lower(n) for n in _names(source)]
        if found is None or known.count(ascii_lower(name)) != 1:
            return None
        made = _Made(found[0], known.index(ascii_lower(name)), found[1])
        value = made.item.unalias()
        if not isinstance(value, exp.Column):
            return made if _is_list(value) else None
        inner = _Block(made.block, self._catalog)
        below = [s for s in inner._sources if not value.table or _called(s, value.table)]
        holding = [s for s in below if not inner._lacks(s, value.name)]
        passed = len(holding) == 1 and inner._list_of(holding[0], value.name) is not None
        return made if passed else None

    def _lacks(self, source: exp.Expr, name: str) -> bool:
        """Return whether a source surely has no column of that name."""
        known = _names(source)
        if isinstance(source, exp.Table) and _cte(source) is None:
            table = self._catalog.table(source.name)
            known = [] if table is None else [column.name for column in table.columns.values()]
        return bool(known) and ascii_lower(name) not in map(ascii_lower, known)


def _is_list(node: exp.Expr) -> bool:
    return isinstance(node.this if isinstance(node, exp.Filter) else node, exp.ArrayAgg)


def _block_of(source: exp.Expr) -> tuple[exp.Select, list[exp.Expr] | None] | None:
    """Return the block that a source stands for and the names that its columns get there."""
    alias = source.args.get("alias")
    names = (alias.args.get("columns") or None) if isinstance(alias, exp.TableAlias) else None
    inner: exp.Expr | None = source
    if isinstance(source, exp.Table):
        cte = _cte(source)
        inner = None if cte is None or names else cte.this
        names = None if cte is None else cte.args["alias"].args.get("columns") or None
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    plain = isinstance(inner, exp.Select) and not inner.args.get("distinct")
    return (inner, names) if plain and isinstance(inner, exp.Select) else None


def _cte(table: exp.Table) -> exp.CTE | None:
    """Return the CTE that a table names, if nothing else names it."""
    if table.args.get("db") is not None:
        return None
    node: exp.Expr | None = table
    while node is not None:
        clause = node.args.get("with_")
        for cte in [] if clause is None or clause.args.get("recursive") else clause.expressions:
            if ascii_lower(cte.alias) == ascii_lower(table.name):
                tables = node.find_all(exp.Table)
                alike = [t for t in tables if ascii_lower(t.name) == ascii_lower(table.name)]
                inside = any(t is table for t in cte.this.find_all(exp.Table))
                found: exp.CTE = cte
                return None if inside or len(alike) != 1 else found
        node = node.parent
    return None


def _names(source: exp.Expr) -> list[str]:
    """Return the names of the columns of a source that is a block; none of other sources."""
    found = _block_of(source)
    if found is None or any(item.is_star for item in found[0].expressions):
        return []
    block, names = found
    own = [item.output_name for item in block.expressions]
    given = [name.name for name in names or []][: len(own)]
    return given + own[len(given) :]


def _called(source: exp.Expr, name: str) -> bool:
    return ascii_lower(source.alias_or_name) == ascii_lower(name)


def _columns(block: exp.Select, name: str) -> list[exp.Column]:
    """Return the columns of that name in a block, those of its FROM and its WITH left out."""
    joins = [join.this for join in block.args.get("joins") or []]
    clauses = [block.args.get("from_"), block.args.get("with_"), *joins]
    within = {id(c) for clause in clauses if clause for c in clause.find_all(exp.Column)}
    return [
        column
        for column in block.find_all(exp.Column)
        if ascii_lower(column.name) == ascii_lower(name) and id(column) not in within
    ]


def _taken(use: exp.Column, block: exp.Select) -> exp.Expr | None:
    """Return the expression that takes a value of a list, None for any other use.

    A use inside of a subquery of the block is another one: the name may be the subquery's own.
    """
    if use.find_ancestor(exp.Select) is not block:
        return None
    outer = use.parent
    taken = takes(outer, use)
    if taken is not None:
        return taken
    if isinstance(outer, exp.Anonymous) and outer.name.lower() in ELEMENT_CALLS:
        return outer if outer.expressions[0] is use else None
    if isinstance(outer, exp.ArraySort) and outer.this is use:
        return outer.parent if isinstance(outer.parent, exp.Bracket) else None
    return outer if isinstance(outer, (*LENGTHS, exp.Bracket)) and outer.this is use else None


def _name_items(block: exp.Select, wholes: list[exp.Expr]) -> None:
    """Give items without a name that hold one of `wholes` the name that they have without one."""
    moved = {id(whole) for whole in wholes}
    items = []
    for item in block.expressions:
        unchanged = isinstance(item, exp.Alias) or all(id(n) not in moved for n in item.walk())
        items.append(
            item if unchanged else exp.alias_(item, unnamed(item), quoted=True, copy=False)
        )
    block.set("expressions", items)


def _move(use: exp.Column, whole: exp.Expr, made: _Made) -> None:
    """Make `whole` an item of the block below, with the list itself in the place of its column."""
    name = exp.to_identifier(f"{use.name} {len(made.block.expressions) + 1}", quoted=True)
    name.meta.update(use.this.meta)
    table = use.args.get("table")
    whole.replace(exp.Column(this=name, table=table.copy() if table else None))
    use.replace(made.item.unalias().copy())
    made.block.append("expressions", exp.alias_(whole, name.copy(), copy=False))
    if made.names is not None:
        own = made.block.expressions[len(made.names) : -1]
        made.names.extend(exp.to_identifier(i.output_name, quoted=True) for i in own)
        made.names.append(name.copy())


def _read_inside(made: _Made) -> bool:
    """Return whether the block itself names the item elsewhere, as a whole."""
    value, name = made.item.unalias(), made.item.output_name
    if isinstance(value, exp.Column) and ascii_lower(value.name) == ascii_lower(name):
        return False  # the name is that of a column of its sources
    return any(not column.table for column in _columns(made.block, name) if column is not value)


def _drop(made: _Made) -> None:
    """Remove the item that nothing reads any more."""
    items = made.block.expressions
    made.block.set("expressions", items[: made.place] + items[made.place + 1 :])
    if made.names is not None and made.place < len(made.names):
        del made.names[made.place]


def bracketed(node: exp.Expr) -> exp.Expr:
    """Return `list_extract(t, 2)` as `t[2]`, and every other node as it is."""
    if not isinstance(node, exp.Anonymous) or node.name.lower() not in ELEMENT_CALLS:
        return node
    listed, place = (*node.expressions, None, None)[:2]
    number = place.this if isinstance(place, exp.Neg) else place
    if len(node.expressions) != 2 or not isinstance(number, exp.Literal) or not number.is_int:
        return node
    written = int(number.name) * (-1 if isinstance(place, exp.Neg) else 1)
    return exp.Bracket(this=listed.copy(), expressions=[exp.Literal.number(written)])
