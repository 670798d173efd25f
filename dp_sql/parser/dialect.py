"""The dialect of statements: DuckDB's, and GoogleSQL's privacy clause, arguments and spellings.

Where both read a spelling in two ways, DuckDB's holds, but for statements with the privacy clause.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sqlglot import exp, parser
from sqlglot.dialects.duckdb import DuckDB
from sqlglot.parser import Parser
from sqlglot.parsers.duckdb import DuckDBParser
from sqlglot.tokenizer_core import Token, TokenType

from dp_sql.errors import EngineError
from dp_sql.parser.list_places import NoPlace, asked_of, place

BOUNDS = "contribution_bounds"
"""The argument of a function's node that holds its named arguments, one PropertyEQ each."""

BOUND_NAMES = ("contribution_bounds_per_group", "contribution_bounds_per_row")
PROPOSED = "proposed"
"""The named argument of a quantile that says how far one row may move it."""
_NAMED = (*BOUND_NAMES, PROPOSED)
_CLAUSE = "DIFFERENTIAL_PRIVACY"

_UNITS = {  # of a date, by what GoogleSQL calls them; weeks begin on Monday
    "DAY": "DAY", "ISOWEEK": "WEEK", "MONTH": "MONTH", "QUARTER": "QUARTER", "YEAR": "YEAR",
    "HOUR": "HOUR", "MINUTE": "MINUTE", "SECOND": "SECOND",
}  # fmt: skip
_BOUNDARIES = ("DAY", "MONTH", "QUARTER", "YEAR")  # which both count between two dates
_OTHER_UNITS = ("WEEK", "ISOYEAR", "MILLISECOND", "MICROSECOND", "NANOSECOND")
_SAME_PARTS = (
    "YEAR",
    "QUARTER",
    "MONTH",
    "DAY",
    "DAYOFYEAR",
    "HOUR",
    "MINUTE",
    "SECOND",
    "ISOYEAR",
)


class Unanswered(Exception):  # noqa: N818  (`text` makes it an UnsupportedSQLError at its place)
    """A spelling of GoogleSQL or others that has no equal here.

    node: where, or None; hint: what to write; tries: statements with it.
    """

    def __init__(
        self, message: str, node: exp.Expr | None, hint: str, tries: tuple[str, ...] = ()
    ) -> None:
        super().__init__(message)
        self.message, self.node, self.hint, self.tries = message, node, hint, tries


class PrivacyClause(exp.Hint):
    """WITH DIFFERENTIAL_PRIVACY of a SELECT. expressions: its options, one PropertyEQ each."""

    arg_types = {"expressions": False}  # noqa: RUF012  the library's own form


def is_google(tokens: Sequence[Token]) -> bool:
    """Return whether a statement has GoogleSQL's form: the privacy clause stands in it."""
    return any(
        a.token_type == TokenType.SELECT
        and b.token_type == TokenType.WITH
        and c.text.upper() == _CLAUSE
        for a, b, c in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )


def _unit(node: exp.Expr) -> str | None:
    """Return DuckDB's word for the unit that a bare word names, None where it names none.

    Raises Unanswered for a unit that DuckDB counts differently.
    """
    if isinstance(node, exp.Week | exp.WeekStart):
        if node.this.name.upper() == "MONDAY":
            return "WEEK"
        raise Unanswered("weeks begin on Monday here.", node, "WEEK(MONDAY) or ISOWEEK")
    if not isinstance(node, exp.Column) or node.table or node.this.args.get("quoted"):
        return None
    word = node.name.upper()
    if word in _OTHER_UNITS:
        hint = "ISOWEEK" if word == "WEEK" else "a unit from SECOND to YEAR"
        raise Unanswered(f"the unit {word} isn't answered in this form.", node, hint)
    return _UNITS.get(word)


def _date_trunc(args: list[exp.Expr]) -> exp.Expr:
    if len(args) == 2 and not args[0].is_string and (unit := _unit(args[1])) is not None:
        return exp.TimestampTrunc(this=args[0], unit=exp.var(unit))
    built: exp.Expr = DuckDBParser.FUNCTIONS["DATE_TRUNC"](args)
    return built


def _date_diff(args: list[exp.Expr]) -> exp.Expr:
    if len(args) == 3 and not args[0].is_string and (unit := _unit(args[2])) is not None:
        if unit not in _BOUNDARIES:
            raise Unanswered(
                f"DATE_DIFF in {unit}S isn't answered in this form.",
                args[2],
                "date_diff('hour', start, end), or DAY, MONTH, QUARTER or YEAR",
            )
        return exp.DateDiff(
            this=args[0], expression=args[1], unit=exp.var(unit), date_part_boundary=True
        )
    built: exp.Expr = DuckDBParser.FUNCTIONS["DATE_DIFF"](args)
    return built


def _format_date(args: list[exp.Expr], dialect: Any) -> exp.Expr:
    if len(args) != 2:
        return exp.Anonymous(this="FORMAT_DATE", expressions=args)
    built: exp.Expr = DuckDBParser.FUNCTIONS["STRFTIME"]([args[1], args[0]], dialect)
    return built


def _moved(name: str, operator: type[exp.Binary]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return the builder of DATE_ADD and DATE_SUB: a date plus or minus an interval."""

    def build(args: list[exp.Expr]) -> exp.Expr:
        if len(args) == 2 and isinstance(args[1], exp.Interval):
            return exp.Paren(this=operator(this=exp.Paren(this=args[0]), expression=args[1]))
        return exp.Anonymous(this=name, expressions=args)

    return build


def _safe_divide(args: list[exp.Expr]) -> exp.Expr:
    """Return a / b, NULL where b is 0."""
    if len(args) != 2:
        return exp.Anonymous(this="SAFE_DIVIDE", expressions=args)
    divisor = exp.Nullif(this=args[1], expression=exp.Literal.number(0))
    quotient = exp.Div(
        this=exp.Paren(this=args[0]),
        expression=divisor,
        typed=DuckDB.TYPED_DIVISION,
        safe=DuckDB.SAFE_DIVISION,
    )
    return exp.Paren(this=quotient)


def _google_log(args: list[exp.Expr]) -> exp.Expr:
    """Return LOG(x), which is natural in GoogleSQL, or LOG(x, base)."""
    if len(args) == 2:
        return exp.Log(this=args[1], expression=args[0])
    return exp.Ln.from_arg_list(args)


def _google_concat(args: list[exp.Expr]) -> exp.Expr:
    """Return the texts one after the other, NULL where one is."""
    result, *rest = args or [exp.Null()]
    for part in rest:
        result = exp.DPipe(this=result, expression=exp.Paren(this=part), safe=True)
    return exp.Paren(this=result)


def _strict(kind: type[exp.Greatest | exp.Least]) -> Callable[[list[exp.Expr]], exp.Expr]:
    """Return the builder of GREATEST and LEAST, which are NULL in GoogleSQL where one value is."""

    def build(args: list[exp.Expr]) -> exp.Expr:
        if len(args) < 2:
            return kind.from_arg_list(args)
        missing = exp.or_(
            *(exp.Is(this=exp.Paren(this=a.copy()), expression=exp.Null()) for a in args)
        )
        known = kind(this=args[0], expressions=args[1:], ignore_nulls=True)
        return exp.Case(ifs=[exp.If(this=missing, true=exp.Null())], default=known)

    return build


def _in(parser: Parser, this: exp.Expr | None) -> exp.Expr:
    bracket = parser._curr is not None and parser._curr.token_type == TokenType.L_BRACKET  # noqa: SLF001  (a subclass's method in all but form)
    found = parser._parse_in(this)  # noqa: SLF001  (likewise)
    many = found.args.get("unnest")
    if isinstance(many, exp.Unnest) and isinstance(many.expressions[0], exp.Array):
        found.set("unnest", None)
        found.set("expressions", many.expressions[0].expressions)  # GoogleSQL's IN UNNEST([…])
        return found
    if not bracket or not found.expressions:
        return found
    return exp.ArrayContains(this=exp.Array(expressions=found.expressions), expression=this)


_Func = TypeVar("_Func", bound=exp.Func)


def require_readable(file: str | None) -> None:
    """Raise EngineError unless `file`, sqlglot's parser, is Python: a compiled one can't be extended."""
    if file is None or not file.endswith(".py"):
        raise EngineError(
            "the package sqlglotc is installed, whose compiled parser can't read the privacy clause.",
            hint="pip uninstall sqlglotc, or a virtual environment of its own for dp_sql",
        )


require_readable(parser.__file__)


class AnalystParser(DuckDBParser):
    """DuckDB's grammar, the privacy clause, contribution bounds, and spellings that DuckDB lacks.

    `x IN [1, NULL]` is false for 2, where `x IN (1, NULL)` is NULL. A third argument of
    JARO_WINKLER_SIMILARITY is a number that likeness has to reach.

    Attributes:
        spans: the (start, end) offsets of what DuckDB couldn't read, for the text without it.
    """

    FUNCTIONS = {  # noqa: RUF012  the library's own form
        **{n: b for n, b in DuckDBParser.FUNCTIONS.items() if n != "JARO_WINKLER_SIMILARITY"},
        "DATE_ADD": _moved("DATE_ADD", exp.Add),
        "DATE_DIFF": _date_diff,
        "DATE_SUB": _moved("DATE_SUB", exp.Sub),
        "DATE_TRUNC": _date_trunc,
        "FORMAT_DATE": _format_date,
        "FORMAT_DATETIME": _format_date,
        "FORMAT_TIMESTAMP": _format_date,
        "MEAN": exp.Avg.from_arg_list,
        "SAFE_DIVIDE": _safe_divide,
        "TIMESTAMP_TRUNC": _date_trunc,
        "DATETIME_TRUNC": _date_trunc,
    }

    _google = False

    RANGE_PARSERS = {**DuckDBParser.RANGE_PARSERS, TokenType.IN: _in}  # noqa: RUF012

    def __init__(self, dialect: DuckDB) -> None:
        super().__init__(dialect=dialect)
        self.spans: set[tuple[int, int]] = set()
        self._arguments: list[list[exp.Expr]] = []
        self._more = 0  # arguments of the last call that was read, after its first

    def _parse_hint(self) -> exp.Hint | None:
        """Read the privacy clause, which stands where a hint may stand."""
        if not self._match(TokenType.WITH, advance=False) or self._next.text.upper() != _CLAUSE:
            return super()._parse_hint()
        start = self._curr.start
        self._advance(2)
        options = []
        if self._match_text_seq("OPTIONS"):
            options = self._parse_wrapped_csv(self._parse_option)
        self.spans.add((start, self._prev.end + 1))
        return self.expression(PrivacyClause(expressions=options))

    def _parse_option(self) -> exp.Expr | None:
        name = self._parse_id_var()
        if name is None:
            return None
        if not self._match(TokenType.EQ):
            self.raise_error("an option is written name = value")
        return self._named(name)

    def _named(self, name: exp.Expr) -> exp.Expr:
        """Read the value of a name; it knows its place also where it is a number such as .5 or NULL."""
        first = self._curr
        value = self._parse_bitwise()
        if value is None:
            self.raise_error("a value is missing")
        elif "start" not in value.meta:
            value.meta.update(start=first.start, end=self._prev.end)
        return self.expression(exp.PropertyEQ(this=name, expression=value))

    def _parse_group(self, skip_group_by_token: bool = False) -> exp.Group | None:  # noqa: FBT001, FBT002
        """Read GROUP BY; a, b WITH ROLLUP is ROLLUP (a, b)."""
        found = super()._parse_group(skip_group_by_token=skip_group_by_token)
        for key in ("rollup", "cube"):
            after = [] if found is None else found.args.get(key) or []
            if found is None or len(after) != 1 or after[0].expressions:
                continue
            keys = found.expressions
            if keys and not any(
                isinstance(k, exp.Rollup | exp.Cube | exp.GroupingSets) for k in keys
            ):
                found.set(key, None)
                found.set("expressions", [type(after[0])(expressions=keys)])
        return found

    def _parse_convert(self, strict: bool, safe: bool | None = None) -> exp.Expr | None:  # noqa: FBT001
        """Read CONVERT(x, type); refuse CONVERT(type, x), which cuts numbers where a CAST rounds."""
        index, call = self._index, self._tokens[self._index - 2]
        type_ = self._parse_types(allow_identifiers=False)
        if not isinstance(type_, exp.DataType) or not self._match(TokenType.COMMA):
            self._retreat(index)
            return super()._parse_convert(strict, safe)
        start = self._curr.start
        value = self._parse_disjunction()
        if not self._match(TokenType.R_PAREN, advance=False):
            hint = "strftime(x, '%Y-%m-%d'), or CAST(x AS VARCHAR)"
            raise Unanswered("CONVERT with a style isn't answered.", value, hint)
        new = f"CAST({self.sql[start : self._prev.end + 1]} AS {type_.sql(dialect='duckdb')})"
        raise Unanswered(
            "CONVERT(type, x) isn't answered: some databases cut numbers off in it, others round them.",
            value,
            f"{new}, which rounds" if type_.is_type(*exp.DataType.INTEGER_TYPES) else new,
            (self.sql[: call.start] + new + self.sql[self._curr.end + 1 :],),
        )

    def _parse_lambda(self, alias: bool = False) -> exp.Expr | None:  # noqa: FBT001, FBT002
        """Read an argument; a named one goes to its function's node instead."""
        if self._arguments and self._curr.token_type == TokenType.DISTINCT:
            return self._bounded_distinct() or super()._parse_lambda(alias=alias)
        if (
            not self._arguments
            or self._next.token_type != TokenType.FARROW
            or self._curr.text.lower() not in _NAMED
        ):
            return super()._parse_lambda(alias=alias)
        first = self._prev if self._prev.token_type == TokenType.COMMA else self._curr
        name = exp.to_identifier(self._curr.text).update_positions(self._curr)
        self._advance(2)
        self._arguments[-1].append(self._named(name))
        self.spans.add((first.start, self._prev.end + 1))
        return None

    def _bounded_distinct(self) -> exp.Expr | None:
        """Read DISTINCT x where a contribution bound follows, and nothing otherwise."""
        index = self._index
        self._advance()
        value = self._parse_disjunction()
        after = self._tokens[self._index + 1 : self._index + 3]
        if (
            value is not None
            and self._curr.token_type == TokenType.COMMA
            and len(after) == 2
            and after[0].text.lower() in BOUND_NAMES
            and after[1].token_type == TokenType.FARROW
        ):
            return self.expression(exp.Distinct(expressions=[value]))
        self._retreat(index)
        return None

    def _parse_function_args(self, alias: bool = False) -> list[exp.Expr]:  # noqa: FBT001, FBT002
        read: list[exp.Expr] = super()._parse_function_args(alias=alias)
        self._more = len(read)
        return read

    def _parse_distinct_arg_function(self, func: type[_Func], distinct_index: int = 0) -> _Func:
        """Read a call such as QUANTILE's. The parser library drops what it has no place for."""
        self._more = 0
        read = super()._parse_distinct_arg_function(func, distinct_index)
        if not func.is_var_len_args and 1 + self._more > len(func.arg_types):
            self.raise_error(f"{func.sql_name()} takes at most {len(func.arg_types)} arguments")
        return read

    def _parse_function_call(self, *args: Any, **options: Any) -> exp.Expr | None:
        self._arguments.append([])
        token = self._curr
        try:
            result = super()._parse_function_call(*args, **options)
        finally:
            bounds = self._arguments.pop()
        if result is not None and token is not None and self._prev is token:
            result.update_positions(token)  # CURRENT_DATE and its kin, without parentheses
        if bounds and result is not None:
            inner = result
            while isinstance(inner, exp.Window | exp.Filter | exp.WithinGroup | exp.IgnoreNulls):
                inner = inner.this
            inner.set(BOUNDS, bounds)
        return result

    def _parse_bracket(self, this: exp.Expr | None = None) -> exp.Expr | None:
        """Read what follows in brackets; the brackets just read may hold a place in GoogleSQL's words."""
        asked = asked_of(this, google=self._google) if isinstance(this, exp.Bracket) else None
        if asked is not None and this is not None:
            opened = self._index - 2
            while self._tokens[opened].token_type != TokenType.L_BRACKET:
                opened -= 1
            first = self._tokens[opened + 1]
            try:
                number = exp.Literal.number(place(asked, this.this)).update_positions(first)
            except NoPlace as problem:
                changed = self.sql[: first.start] + problem.new + self.sql[self._prev.start :]
                tries = (changed,) if problem.new else ()
                raise Unanswered(problem.message, asked.node, problem.hint, tries) from None
            this.set("expressions", [number])
            if asked.word is not None:
                self.spans.add((first.start, first.end + 1))
        return super()._parse_bracket(this)


class Reading(DuckDB):
    """DuckDB's dialect, where the parser library would give a text another meaning, and more words.

    A JSON path stays as it is written: 'a.b', the name of one key, isn't '$.a.b'. Names may stand in
    backticks. A place in a list stays as it is written, from 1: the library would count from 0 where it
    takes what stands before the bracket for a list, and that may be another once it is released.
    """

    INDEX_OFFSET = 0

    class Tokenizer(DuckDB.Tokenizer):
        """DuckDB's words."""

        IDENTIFIERS = ['"', "`"]  # noqa: RUF012  the library's own form
        KEYWORDS = {  # noqa: RUF012
            **{word: kind for word, kind in DuckDB.Tokenizer.KEYWORDS.items() if word != "RESET"},
            "FLOAT64": TokenType.DOUBLE,
        }

    def to_json_path(self, path: exp.Expr | None) -> exp.Expr | None:
        """Return the path unread."""
        return path


class GoogleParser(AnalystParser):
    """The grammar of a statement with the privacy clause: GoogleSQL's meaning where DuckDB's differs."""

    _google = True

    FUNCTIONS = {  # noqa: RUF012  the library's own form
        **AnalystParser.FUNCTIONS,
        "CONCAT": _google_concat,
        "GREATEST": _strict(exp.Greatest),
        "LEAST": _strict(exp.Least),
        "LOG": _google_log,
    }

    def _parse_extract(self) -> exp.Expr:  # type: ignore[override]  # a part may be an expression
        """Read EXTRACT: Sunday is day 1 of the week, and DATE is a part."""
        found = super()._parse_extract()
        week = isinstance(found.this, exp.Week)
        part = (found.this.this if week else found.this).name.upper()
        if week or part == "ISOWEEK":
            if week and part != "MONDAY":
                raise Unanswered("weeks begin on Monday here.", found, "EXTRACT(ISOWEEK FROM …)")
            found.set("this", exp.var("WEEK"))
        elif part == "DAYOFWEEK":
            one = exp.Literal.number(1)
            return self.expression(exp.Paren(this=exp.Add(this=found, expression=one)))
        elif part == "DATE":
            return self.expression(exp.Cast(this=found.expression, to=exp.DType.DATE.into_expr()))
        elif part not in _SAME_PARTS:
            hint = f"EXTRACT({'ISOWEEK' if part == 'WEEK' else 'DAY'} FROM …)"
            raise Unanswered(f"the part {part} isn't answered in GoogleSQL's form.", found, hint)
        return found


def unnamed(item: exp.Expr) -> str:
    """Return what an item of a select list is called that has no name."""
    bare = item.copy()
    for node in bare.walk():
        node.args.pop(BOUNDS, None)
        if isinstance(node.args.get("hint"), PrivacyClause):
            node.set("hint", None)
    return bare.sql(dialect="duckdb", copy=False)


def without(text: str, spans: set[tuple[int, int]], tokens: Sequence[Token]) -> str:
    """Return a text as DuckDB reads it: spans blank, backticks as double quotes, places kept."""
    letters = list(text)
    for token in tokens:
        if token.token_type == TokenType.IDENTIFIER and text[token.start] == "`":
            inner = text[token.start + 1 : token.end].replace('"', '""')
            letters[token.start : token.end + 1] = [
                '"', *([inner] if inner else []), *([""] * (token.end - token.start - 1 - bool(inner))), '"'
            ]  # fmt: skip
    for start, end in spans:
        letters[start:end] = " " * (end - start)
    return "".join(letters)
