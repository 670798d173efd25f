"""DP_INTERVAL_LOW and DP_INTERVAL_HIGH: columns of a released table that hold the ends of intervals."""

from __future__ import annotations

from collections.abc import Collection
from fractions import Fraction

from sqlglot import exp

from dp_sql.errors import ParameterError
from dp_sql.parser.aggregates import INTERVAL_ENDS, is_interval
from dp_sql.parser.dialect import Reading
from dp_sql.parser.options import number_text
from dp_sql.parser.planar_calls import is_planar
from dp_sql.parser.render import render
from dp_sql.parser.scope import Statement
from dp_sql.plan.release import IntervalColumn
from dp_sql.privacy.amount import exact

_LEVEL = Fraction(95, 100)
_EXAMPLE = "DP_INTERVAL_LOW(n, 0.95), where the select list has COUNT(*) AS n"


class IntervalCalls:
    """The ends of intervals that one block asks for: equal ones are one column of its release."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self.found: list[IntervalColumn] = []

    def argument(self, node: exp.Anonymous) -> exp.Expr:
        """Return what a call wants the interval of. Raises QueryError where it isn't written so."""
        if not 1 <= len(node.expressions) <= 2 or isinstance(node.expressions[0], exp.Star):
            raise self._statement.wrong(
                f"{node.name.upper()} takes a column of the select list, and a level.",
                node,
                hint=_EXAMPLE,
            )
        argument: exp.Expr = node.expressions[0]
        return argument

    def column(self, node: exp.Anonymous, meant: exp.Expr, aggregates: Collection[str]) -> str:
        """Return the released column of a call. meant: its argument, over the released table.

        aggregates: the names of the released columns that have noise.
        """
        if meant.find(exp.Window, exp.Query, exp.Subquery) is not None:
            raise self._statement.unsupported(
                "an interval is known for what one group's aggregates give, not across groups.",
                node,
                hint=_EXAMPLE,
            )
        if any(is_planar(call) for call in meant.find_all(exp.Anonymous)):
            raise self._statement.unsupported(
                "a point that is moved at random has no interval.", node, hint=_EXAMPLE
            )
        read = {column.name for column in meant.find_all(exp.Column)}
        if any(known.name in read for known in self.found):
            raise self._statement.wrong(
                "the end of an interval has no interval itself.", node, hint=_EXAMPLE
            )
        if not read & set(aggregates):
            raise self._statement.wrong(
                "this has no noise, so it has no interval.", node.expressions[0], hint=_EXAMPLE
            )
        high = INTERVAL_ENDS[node.name.lower()]
        made = IntervalColumn("", _item(meant), self._level(node), high)
        for known in self.found:
            if (known.item, known.level, known.high) == (made.item, made.level, made.high):
                return known.name
        name = f"i{len(self.found)}"
        self.found.append(IntervalColumn(name, made.item, made.level, made.high))
        return name

    def _level(self, node: exp.Anonymous) -> Fraction:
        if len(node.expressions) < 2:
            return _LEVEL
        place = node.expressions[1]
        text = number_text(place)
        try:
            level = None if text is None else exact(text, name="level")
        except ParameterError:
            level = None
        if level is None or not 0 < level < 1:
            raise self._statement.out_of_range(
                "the level of an interval is a number above 0 and below 1.",
                place,
                hint=f"{node.name}(…, 0.95)",
            )
        return level


def written(item: exp.Expr) -> str | None:
    """Return what an item of a select list is called if it is such a call without a name, else None."""
    if not is_interval(item):
        return None
    return item.sql(dialect=Reading, normalize_functions=False)


def _item(tree: exp.Expr) -> str:
    """Return the text over the released table, as `Residual.row_items` has it."""
    if isinstance(tree, exp.Paren):
        return _item(tree.this)
    if isinstance(tree, exp.Column):
        return f'"{tree.table}"."{tree.name}"'
    return render(tree.copy())
