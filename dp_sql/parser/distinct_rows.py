"""DISTINCT over the rows of several persons: below a count it is COUNT(DISTINCT …) of its columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.errors import InternalError
from dp_sql.parser import aggregates
from dp_sql.parser.joins import Step
from dp_sql.parser.own_names import Names, sources
from dp_sql.parser.scope import Environment
from dp_sql.plan.expression import Column
from dp_sql.plan.rows import GroupRows, Rows
from dp_sql.schema.catalog import Catalog, ascii_lower
from dp_sql.sensitivity.ownership import all_scans

_OF_VALUES = (
    "MIN",
    "MAX",
    "APPROX_DISTINCT",
    "APPROX_COUNT_DISTINCT",
)  # repeats change none of them
_NO_KEYS = (exp.Literal, exp.GroupingSets, exp.Rollup, exp.Cube, exp.Tuple, exp.Paren)


@dataclass(frozen=True, slots=True)
class Values:
    """The columns whose combinations are the rows that a block stands for, each combination once.

    The block's relation has the rows that these are taken of, with their owner.
    refused: the error for what reads them and isn't answered. scans: how many tables the rows are of.
    """

    columns: tuple[Column, ...]
    refused: Callable[[], Exception]
    scans: int

    def require_alone(self, rows: Rows) -> None:
        """Raise the error where another protected table's rows tell rows of one combination apart."""
        if _scans(rows) != self.scans:
            raise self.refused()


def opened(steps: Sequence[Step]) -> tuple[list[Step], Values | None]:
    """Return the steps of a FROM with the rows below a DISTINCT of several persons, and its columns.

    Claim:   a relation that is bound over them has no group of several persons' rows.
    Why:     where such a DISTINCT is the only item of its FROM, the group on top of it is taken off;
             `joins.join` refuses every other.
    Assumes: nothing that a block says of its rows depends on how often a combination occurs:
             `PrivateBlock` and `AggregateCalls` see to it, `sensitivity.locality` to the rest.
    Source:  COUNT(*) over SELECT DISTINCT a, b is COUNT(DISTINCT (a, b)), NULLs counted.
    """
    first, *rest = steps
    if rest or first.rows.mixed is None:
        return [first, *rest], None
    grouped = first.rows.relation
    if not isinstance(grouped, GroupRows):
        raise InternalError("distinct rows of several persons are groups")
    rows = replace(first.rows, relation=grouped.source, mixed=None)
    values = Values(grouped.keys, first.rows.mixed, _scans(grouped.source))
    return [replace(first, rows=rows)], values


def _scans(rows: Rows) -> int:
    return sum(not scan.public for scan in all_scans(rows))


def is_of_values(call: aggregates.Call) -> bool:
    """Return whether an aggregate is the same however often each value occurs."""
    return call.name in _OF_VALUES or (call.name == "COUNT" and call.distinct)


def groups_to_distinct(node: exp.Select, env: Environment, catalog: Catalog) -> None:
    """Write each GROUP BY without an aggregate that a block counts the rows of as DISTINCT.

    It is the block's only item of FROM, in parentheses or by the name of a CTE of the block's own
    that nothing else reads.
    """
    clause = node.args.get("from_")
    if clause is None or node.args.get("joins") or not _only_counts(node):
        return
    item = clause.this
    inner = item.this if isinstance(item, exp.Subquery) else _cte(node, item)
    added = _keys_to_add(inner, node, env, catalog) if isinstance(inner, exp.Select) else None
    if isinstance(inner, exp.Select) and added is not None:
        for place, key in enumerate(added):
            name = exp.to_identifier(f"key {place} of the group", quoted=True)
            inner.append("expressions", exp.Alias(this=key.copy(), alias=name))
        inner.set("group", None)
        inner.set("distinct", exp.Distinct())


def _cte(node: exp.Select, item: exp.Expr) -> exp.Expr | None:
    """Return the query of a CTE that is read once, as a block's only item of FROM."""
    clause = node.args.get("with_")
    if clause is None or not isinstance(item, exp.Table) or item.db:
        return None
    name = ascii_lower(item.name)
    found = [cte.this for cte in clause.expressions if ascii_lower(cte.alias) == name]
    uses = sum(ascii_lower(table.name) == name for table in node.find_all(exp.Table))
    return found[0] if len(found) == 1 and uses == 1 else None


def _only_counts(node: exp.Select) -> bool:
    """Return whether a block has aggregates, all of them COUNT, and no window."""
    parts = [*node.expressions, *(node.args[k] for k in ("having", "order") if node.args.get(k))]
    walked = [n for part in parts for n in part.walk(prune=lambda n: isinstance(n, exp.Query))]
    if any(isinstance(n, exp.Window) for n in walked):
        return False
    found = [n for n in walked if aggregates.aggregate_name(n) is not None]
    return bool(found) and all(isinstance(n, exp.Count | exp.Filter) for n in found)


def _keys_to_add(
    inner: exp.Select, node: exp.Select, env: Environment, catalog: Catalog
) -> list[exp.Expr] | None:
    """Return the keys that a select list lacks to have one row for each combination of its values.

    None for a block that is more than a GROUP BY without aggregates of its keys. An alias stands for
    a key only where no source of the block has a column of that name.
    """
    group = inner.args.get("group")
    others = ("having", "qualify", "limit", "offset", "windows")
    if group is None or any(inner.args.get(key) for key in others):
        return None
    if any(value for key, value in group.args.items() if key not in ("expressions", "all")):
        return None
    items = inner.expressions
    parts = [*items, *([inner.args["order"]] if inner.args.get("order") else [])]
    if any(aggregates.has_aggregate(part) or part.find(exp.Window, exp.Star) for part in parts):
        return None
    keys = group.expressions
    names = Names(node, env, catalog)
    known = [names.columns(source) for source in sources(inner)]
    hidden = frozenset[str]().union(*(found for found in known if found is not None))
    aliases = {ascii_lower(i.alias): i.this for i in items if isinstance(i, exp.Alias)}
    aliases = {name: value for name, value in aliases.items() if name not in hidden}
    if keys and not _are_of(items, [*keys, *_meant(keys, items, aliases)], aliases):
        return None
    distinct = inner.args.get("distinct")
    if distinct is not None:
        return [] if distinct.args.get("on") is None else None
    sure = aliases if None not in known else {}
    shown = [item.unalias() for item in items]
    lacking = [key for key in keys if key not in shown and not _meant([key], items, sure)]
    if any(isinstance(key, _NO_KEYS) or key.find(exp.Query) for key in lacking):
        return None
    return lacking


def _meant(
    keys: Sequence[exp.Expr], items: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr]
) -> list[exp.Expr]:
    """Return the items that positions and aliases among the keys stand for."""
    found: list[exp.Expr] = []
    for key in keys:
        if isinstance(key, exp.Literal) and key.is_int:
            found += (
                [items[int(key.name) - 1].unalias()] if 1 <= int(key.name) <= len(items) else []
            )
        elif isinstance(key, exp.Column) and not key.table and ascii_lower(key.name) in aliases:
            found.append(aliases[ascii_lower(key.name)])
    return found


def _are_of(
    items: Sequence[exp.Expr], keys: Sequence[exp.Expr], aliases: Mapping[str, exp.Expr]
) -> bool:
    """Return whether items read no columns but in the keys and, by their aliases, in one another."""
    whole, bare = ({_plain(key, tables=tables) for key in keys} for tables in (True, False))
    unnamed = {_plain(key, tables=True) for key in keys} & bare

    def reads_keys(node: exp.Expr) -> bool:
        own, short = (_plain(node, tables=tables) for tables in (True, False))
        if own in whole or short in (bare if own == short else unnamed):
            return True
        if isinstance(node, exp.Column):
            return not node.table and ascii_lower(node.name) in aliases
        return all(reads_keys(child) for child in node.iter_expressions())

    return all(reads_keys(item.unalias()) for item in items)


def _plain(node: exp.Expr, *, tables: bool) -> exp.Expr:
    """Return an expression with names of columns in lower case; tables: with their tables."""
    copy = exp.Paren(this=node.copy())
    for column in list(copy.find_all(exp.Column)):
        table = exp.to_identifier(ascii_lower(column.table)) if tables and column.table else None
        named = exp.Column(this=exp.to_identifier(ascii_lower(column.name)), table=table)
        column.replace(named)
    return copy
