"""What names mean: the state of one statement, its CTEs, and the columns that a block can see."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from sqlglot import exp

from dp_sql.errors import NotPrivateError, ParameterError, QueryError, UnsupportedSQLError
from dp_sql.parser import rewrites
from dp_sql.parser.growth import Growth
from dp_sql.parser.nearby import beside_public
from dp_sql.parser.spans import Span, call_span, function_span, name_span, replaced
from dp_sql.parser.text import nearest, position_of
from dp_sql.parser.usual import usual
from dp_sql.plan.expression import Column, Expression
from dp_sql.plan.release import UNSAID, Options, Release, Stage
from dp_sql.plan.rows import Rows
from dp_sql.schema.catalog import Catalog, ascii_lower
from dp_sql.schema.sqltype import SqlType


@dataclass(frozen=True, slots=True)
class Named:
    """A column as a block shows it: the name is the block's, the column what it stands for."""

    name: str
    column: Column


@dataclass(frozen=True, slots=True)
class PrivateRows:
    """A block of private rows: a relation and the names under which its columns are visible.

    protected: False for rows of public tables and earlier stages, read by a private block.
    correlated: conditions on the block that read columns of the block around it as well.
    personal: why each row is one person's, for the message where such rows would be returned.
    mixed: for distinct values of several persons' rows, the error for what reads them and isn't their
        count (`parser.distinct_rows`); None for all other rows.
    """

    relation: Rows
    columns: tuple[Named, ...]
    protected: bool = True
    correlated: tuple[Expression, ...] = ()
    personal: str = ""
    mixed: Callable[[], Exception] | None = None


@dataclass(frozen=True, slots=True)
class OpenBlock:
    """A block over released results and public data alone, as a tree for the residual."""

    tree: exp.Expr


@dataclass(frozen=True, slots=True)
class OpenName:
    """A CTE over released results and public data, which the residual's WITH defines under its name."""

    cte: exp.CTE
    recursive: bool


Bound = PrivateRows | OpenBlock
Describe = Callable[[str, tuple[str, ...], Sequence[Release]], tuple[tuple[str, str], ...]]
"""From a text above releases, the public tables and releases that it reads, to (name, type) pairs."""


@dataclass(slots=True)
class Statement:
    """What is collected while one statement is bound."""

    text: str
    catalog: Catalog
    describe: Describe | None = None
    releases: list[Release] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    public_tables: set[str] = field(default_factory=set)
    notes: dict[str, None] = field(default_factory=dict)  # in order, each once
    clauses: int = 0  # privacy clauses that were read
    growth: Growth = field(init=False)
    _numbers: int = 0

    def __post_init__(self) -> None:
        """Begin to count."""
        self.growth = Growth(self.text)

    def column(self, name: str, kind: SqlType, *, nullable: bool = True) -> Column:
        """Return a column with a fresh number."""
        self._numbers += 1
        return Column(self._numbers, name, kind, nullable)

    def unsupported(
        self,
        message: str,
        node: exp.Expr | None,
        *,
        hint: str | None = None,
        tries: Iterable[str | None] = (),
    ) -> UnsupportedSQLError:
        """Return the error for a construct that isn't answered, with a caret under `node`.

        tries: statements that may be answered, the likeliest first; None where there is none.
        """
        return _trying(UnsupportedSQLError, self.text, message, node, hint, tries)

    def not_private(
        self,
        message: str,
        node: exp.Expr | None,
        *,
        hint: str | None = None,
        tries: Iterable[str | None] = (),
    ) -> NotPrivateError:
        """Return the error for an answer that no noise makes private. tries: as of `unsupported`."""
        return _trying(NotPrivateError, self.text, message, node, hint, tries)

    def wrong(
        self,
        message: str,
        node: exp.Expr | None,
        *,
        hint: str | None = None,
        tries: Iterable[str | None] = (),
    ) -> QueryError:
        """Return the error for SQL that has no meaning. tries: as of `unsupported`."""
        return _trying(QueryError, self.text, message, node, hint, tries)

    def word(self, node: exp.Expr) -> str | None:
        """Return the name of a function as it is written, None where its place isn't known."""
        found = function_span(self.text, node)
        return None if found is None else self.text[slice(*found)]

    def with_name(self, node: exp.Expr, new: str) -> str | None:
        """Return the text with another name in the place of a column's or table's."""
        span = name_span(node)
        return None if span is None else replaced(self.text, [(span, new)])

    def with_column(self, node: exp.Column, new: str) -> str | None:
        """Return the text with other words in the place of a column and its table."""
        last, first = name_span(node), node.args.get("table")
        start = last if first is None else name_span(first)
        if last is None or start is None:
            return None
        return replaced(self.text, [((start[0], last[1]), new)])

    def call(self, node: exp.Expr) -> tuple[Span, tuple[str, ...]] | None:
        """Return where a call stands, and its arguments as they are written."""
        return call_span(self.text, node)

    def with_call(self, node: exp.Expr, new: str | None) -> str | None:
        """Return the text with other words in the place of a call."""
        found = self.call(node)
        return None if found is None or new is None else replaced(self.text, [(found[0], new)])

    def with_arguments(self, node: exp.Expr, new: str) -> str | None:
        """Return the text with other arguments in a call. new: as of `str.format`, of the old ones."""
        found, name = self.call(node), self.word(node)
        if found is None or name is None or not found[1]:
            return None
        return replaced(self.text, [(found[0], f"{name}({new.format(*found[1])})")])

    def out_of_range(
        self, message: str, node: exp.Expr | None, *, hint: str | None = None
    ) -> ParameterError:
        """Return the error for a privacy option whose value can't be used."""
        return ParameterError(
            message, hint=hint, text=self.text, position=position_of(self.text, node)
        )


_UNITS = ("year", "quarter", "month", "week", "day", "hour", "minute", "second")
_Error = TypeVar("_Error", bound=QueryError)


def _trying(
    kind: type[_Error],
    text: str,
    message: str,
    node: exp.Expr | None,
    hint: str | None,
    tries: Iterable[str | None],
) -> _Error:
    message, hint = _as_written(text, node, message, hint)
    hint = usual(message) if hint is None else hint
    error = kind(message, hint=hint, text=text, position=position_of(text, node))
    error.tries = tuple(each for each in tries if each is not None)
    return error


def _as_written(
    text: str, node: exp.Expr | None, message: str, hint: str | None
) -> tuple[str, str | None]:
    """Return a message and a hint with names of functions as the text has them, not the library."""
    while isinstance(node, exp.Filter | exp.IgnoreNulls | exp.RespectNulls | exp.WithinGroup):
        node = node.this
    around = None if node is None else node.find_ancestor(exp.AggFunc)
    for named in (node, around):
        if not isinstance(named, exp.Func) or isinstance(named, exp.AnonymousAggFunc):
            continue
        span, known = function_span(text, named), named.sql_name()
        word = known if span is None else text[slice(*span)]
        if word.upper() != known:
            message = re.sub(rf"\b{known}\b", word, message)
            if hint is not None and hint.startswith(f"{known}("):
                hint = word + hint[len(known) :]
    return message, hint


@dataclass(frozen=True, slots=True)
class Environment:
    """What a block inherits from those around it.

    ctes: the CTEs that it can name, by lower-cased name. outer: the block around it, whose columns
    it can name. around: the tables of the blocks around it that hold no protected rows. options: what
    the privacy clauses around it say. unit_columns: the columns that they call the privacy unit's.
    """

    ctes: Mapping[str, Bound | OpenName]
    outer: Scope | None = None
    around: frozenset[str] = frozenset()
    options: Options = UNSAID
    unit_columns: tuple[exp.Column, ...] = ()

    def with_cte(self, name: str, bound: Bound | OpenName) -> Environment:
        """Return the environment in which `name` is that CTE, whatever it was before."""
        return replace(self, ctes={**self.ctes, ascii_lower(name): bound})

    def inside(self, outer: Scope | None) -> Environment:
        """Return the environment of a subquery that may name the columns of `outer`."""
        return replace(self, outer=outer)

    def open_names(self) -> list[OpenName]:
        """Return the open CTEs, in the order of their definition."""
        return [bound for bound in self.ctes.values() if isinstance(bound, OpenName)]


@dataclass(frozen=True, slots=True)
class Source:
    """One item of a FROM clause that holds rows: its alias and its visible columns.

    hidden: the numbers of those that * doesn't show. by_alias: none of them is named without the alias.
    """

    alias: str
    columns: tuple[Named, ...]
    hidden: frozenset[int] = frozenset()
    by_alias: bool = False


@dataclass(frozen=True, slots=True)
class Scope:
    """The columns that an expression of a private block can name.

    merged: columns that USING or NATURAL made one, by lower-cased name. outer: what the block around
    a subquery can name. around: as in `Environment`.
    """

    statement: Statement
    sources: tuple[Source, ...]
    merged: Mapping[str, Column] = field(default_factory=dict)
    outer: Scope | None = None
    around: frozenset[str] = frozenset()

    def find(self, node: exp.Column) -> Column | None:
        """Return the column that `node` names, or None when no source has it.

        Raises QueryError for a table that is not in FROM and for a name that several sources have.
        """
        name, qualifier = ascii_lower(node.name), ascii_lower(node.table)
        if qualifier:
            sources = [s for s in self.sources if ascii_lower(s.alias) == qualifier]
            if not sources and self.outer is not None:
                return self.outer.find(node)
            if not sources and qualifier in self.around:
                raise self.statement.unsupported(
                    "a subquery over protected rows can't depend on a row of a public table.",
                    node,
                    hint=f"FROM {node.table} LEFT JOIN … ON … GROUP BY {node.table}.{node.name}",
                    tries=beside_public(node),
                )
            if not sources:
                close = nearest(qualifier, [s.alias for s in self.sources])
                raise self.statement.wrong(
                    f"no table is called {node.table!r} here.",
                    node,
                    hint=f"{close}.{node.name}" if close else None,
                )
        else:
            if name in self.merged:
                return self.merged[name]
            sources = [s for s in self.sources if not s.by_alias]
        found = [n for s in sources for n in s.columns if ascii_lower(n.name) == name]
        if len({n.column.number for n in found}) > 1:
            options = ", ".join(
                f"{s.alias}.{node.name}"
                for s in sources
                if s.alias and any(ascii_lower(n.name) == name for n in s.columns)
            )
            raise self.statement.wrong(
                f"{node.name!r} could be a column of several tables.",
                node,
                hint=f"one of {options}" if options else "a name for each subquery of FROM",
            )
        if not found and self.outer is not None:
            return self.outer.find(node)
        return found[0].column if found else None

    def finds(self, node: exp.Column) -> bool:
        """Return whether some source has what `node` names."""
        try:
            return self.find(node) is not None
        except QueryError:
            return False

    def unknown(self, node: exp.Column) -> QueryError:
        """Return the error for a column that no source has, with the nearest name that one has."""
        names = [n.name for s in self.sources for n in s.columns]
        tables = {ascii_lower(s.alias) for s in self.sources}
        if not node.table and ascii_lower(node.name) in tables:
            return self.statement.not_private(
                f"{node.name!r} is a table: whole rows can't be used as values.",
                node,
                hint="name the columns that you need",
            )
        held = [
            f"{s.alias}.{n.name}"
            for s in self.sources
            for n in s.columns
            if node.table and s.alias and ascii_lower(n.name) == ascii_lower(node.name)
        ]
        if held:
            return self.statement.wrong(
                f"{node.table} has no column {node.name!r}.",
                node,
                hint=" or ".join(held),
                tries=[self.statement.with_column(node, name) for name in held],
            )
        moment = rewrites.moment(node.name)
        if moment is not None and not node.table:
            return self.statement.unsupported(
                f"{node.name} isn't answered over protected rows: an answer doesn't depend on when it "
                "is asked.",
                node,
                hint=moment,
                tries=(self.statement.with_name(node, moment),),
            )
        if ascii_lower(node.name) in _UNITS and isinstance(node.parent, exp.Func):
            text = f"'{ascii_lower(node.name)}'"
            return self.statement.wrong(
                f"no column is called {node.name!r} here: DuckDB has the unit first, as a text.",
                node,
                hint=text,
                tries=(self.statement.with_name(node, text),),
            )
        close = nearest(node.name, names)
        if node.this.args.get("quoted") and close is None:
            text = "'" + node.name.replace("'", "''") + "'"
            return self.statement.wrong(
                f"no column is called {node.name!r} here: double quotes are for names.",
                node,
                hint=f"a text in single quotes: {text}",
                tries=(self.statement.with_name(node, text),),
            )
        listed = ", ".join(dict.fromkeys(names[:12])) + (", …" if len(names) > 12 else "")
        return self.statement.wrong(
            f"no column is called {node.name!r} here.",
            node,
            hint=_written(close) if close else (f"one of {listed}" if names else None),
            tries=(self.statement.with_name(node, _written(close)),) if close else (),
        )

    def named(self) -> tuple[Named, ...]:
        """Return what * stands for, in order; a merged column once."""
        seen: set[int] = set()
        hidden = {number for s in self.sources for number in s.hidden} | {
            n.column.number
            for s in self.sources
            for n in s.columns
            if (kept := self.merged.get(ascii_lower(n.name))) is not None and kept != n.column
        }
        result = []
        for source in self.sources:
            for item in source.columns:
                if item.column.number not in hidden and (
                    ascii_lower(item.name) not in self.merged or item.column.number not in seen
                ):
                    result.append(item)
                    seen.add(item.column.number)
        return tuple(result)


def _written(name: str) -> str:
    """Return a column's name as it has to be written: quoted unless it is a plain word."""
    plain = name.replace("_", "a").isalnum() and not name[:1].isdigit()
    return name if plain else '"' + name.replace('"', '""') + '"'
