"""LATERAL subqueries that give one row for each row before them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sqlglot import exp

from dp_sql.parser.aggregates import has_aggregate
from dp_sql.parser.correlated import outer_columns, pair, reads_outer
from dp_sql.parser.each_row import EachRow, read_by_aggregates, require_few
from dp_sql.parser.expressions import Expressions
from dp_sql.parser.joins import Step, Way
from dp_sql.parser.person import PersonGroups
from dp_sql.parser.scope import Environment, PrivateRows, Scope, Statement
from dp_sql.parser.select_list import listed
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Ref
from dp_sql.sensitivity.ownership import is_protected, owner_of

if TYPE_CHECKING:
    from dp_sql.parser.blocks import Blocks

Made = list[tuple[str, Expression]]  # the columns that a subquery gives: (name, value)
_PARTS = {"expressions", "from_", "joins", "where", "having"}


def lateral_of(node: exp.Expr, env: Environment, before: Scope) -> exp.Select | None:
    """Return the SELECT of a LATERAL that is one row for each row before it; None for all others.

    It has no FROM and reads columns, so those before it; or it reads columns before it and has
    aggregates alone and no groups.
    """
    inner = node.this if isinstance(node, exp.Lateral) else None
    while isinstance(inner, exp.Subquery):
        inner = inner.this
    if not isinstance(inner, exp.Select):
        return None
    if inner.args.get("from_") is None:
        return inner if any(c.parent_select is inner for c in inner.find_all(exp.Column)) else None
    parts = {k for k, v in inner.args.items() if v not in (None, False, [])}
    alone = parts <= _PARTS and all(has_aggregate(e) for e in inner.expressions)
    return inner if alone and reads_outer(inner, env, before) else None


def expressions_of(
    statement: Statement, node: exp.Expr, select: exp.Select, before: Scope
) -> tuple[Made, list[Expression]]:
    """Return the columns and conditions of a LATERAL without FROM, over the row before it.

    Raises UnsupportedSQLError for one that does more than that.
    """
    parts = {k for k, v in select.args.items() if v not in (None, False, [])}
    if not parts <= {"expressions", "where"}:
        raise statement.unsupported(
            "a LATERAL subquery without FROM gives expressions of the row before it alone.",
            node,
            hint="the expressions in the select list of a subquery of FROM",
        )
    binder = Expressions(before)
    made = [named for part in select.expressions for named in listed(part, before, binder)]
    where = select.args.get("where")
    return made, [] if where is None else [binder.bind_condition(where.this)]


def aggregates_of(
    statement: Statement,
    blocks: Blocks,
    env: Environment,
    select: exp.Select,
    item: tuple[exp.Expr, Sequence[Step]],
) -> tuple[Made, Step, list[Expression]]:
    """Return aggregates over the rows that belong to each row before them, how they are joined, and tests.

    The rows are grouped by what the subquery compares with the row before it, and joined to it on
    that; a row without a group has the aggregates of no rows. item: the LATERAL, and what stands
    before it. The tests are those of HAVING.
    """
    node, before = item
    relation, scope, correlated = blocks.rows_of(select, env)
    pairs = [pair(part, relation) for part in correlated]
    equal = [found for found in pairs if found is not None]
    having = select.args.get("having")
    items = [*select.expressions, *([] if having is None else [having])]
    outside = [] if env.outer is None else outer_columns(select, env, env.outer)
    read = read_by_aggregates(items, outside)
    apart = len(equal) < len(pairs) or not equal or bool(read)
    if apart:
        around = [step.rows.relation for step in before]
        require_few(statement, node, 1 + sum(step.way is Way.EACH for step in before))
        each = EachRow(statement, node, (relation, scope, correlated), around, read)
        groups, scope = each.groups, each.scope
        step = Step(before[0].rows, Way.EACH, (), node, node.alias, each=each)
    else:
        owner = owner_of(relation)
        keys = [inner for inner, _ in equal]
        by = keys if owner is None else [*keys, Ref(owner)]
        groups = PersonGroups(statement, scope, relation, by, padded=True)
    binder = Expressions(scope, {}, (groups.meaning,))
    made = [named for part in select.expressions for named in listed(part, scope, binder)]
    tests = [] if having is None else [binder.bind_condition(having.this)]
    if not apart:
        matched = tuple(
            functions.call("=", (Ref(groups.column_of(inner)), outer)) for inner, outer in equal
        )
        rows = PrivateRows(groups.relation(), (), is_protected(relation))
        step = Step(rows, Way.LEFT, matched, node, node.alias)
    return made, step, tests
