"""Row expressions of private blocks: from sqlglot's nodes to typed expressions. Unknown is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime

from sqlglot import exp

from dp_sql.parser import constants, rewrites
from dp_sql.parser.aggregates import aggregate_name
from dp_sql.parser.function_names import BINARY, NO_NAMES, Written, is_constant, written
from dp_sql.parser.planar_calls import is_planar, of_protected
from dp_sql.parser.row_values import among, row_meaning
from dp_sql.parser.scope import Scope
from dp_sql.parser.text import nearest
from dp_sql.plan import functions
from dp_sql.plan.expression import Cast, Expression, Literal, Ref
from dp_sql.plan.functions_calendar import MOVES
from dp_sql.plan.rows import Rows
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import Kind, SqlType
from dp_sql.sensitivity.ownership import with_owner

_FLAGS = {
    "big_int", "safe", "typed", "coerce", "date_part_boundary", "ignore_nulls", "zone",
    "null_if_pos_overflow", "single_replace",
}  # fmt: skip

_INSTEAD: Mapping[type[exp.Expr], str] = {
    exp.IsNan: "NaN is NULL here",
    exp.JSONExtract: "x ->> 'key', a text that a cast can make a number",
    exp.AtTimeZone: "add an INTERVAL: timestamps have no zone here",
    exp.Bracket: "substring(x, 1, 1) of a text, list_extract([1, 2, 3], x) of a list",
    exp.Explode: "SELECT owner, a AS x FROM t UNION ALL SELECT owner, b FROM t",
    exp.RegexpILike: "regexp_matches(x, 'pattern', 'i')",
    exp.Lambda: "put x -> 'key' in parentheses",
    exp.Collate: "lower(x) = 'text', or x ILIKE 'text'",
    exp.Array: "a list of constants: list_contains([1, 2], x)",
    exp.Struct: "its columns one by one",
    exp.Split: "string_split(x, ',')[1], or its len(…) or list_contains(…, 'a')",
    exp.RegexpExtractAll: "len(regexp_extract_all(x, 'a')), or regexp_extract(x, 'a')",
    exp.Typeof: "the schema says the type of each column: \\d in the shell",
    exp.Format: "x || ' ' || y, or round(x, 2)",
    exp.Dot: "the column or function alone: x.f(y) of an expression x is f(x, y)",
    exp.ToMap: "CASE x WHEN 'a' THEN 1 WHEN 'b' THEN 2 END",
    exp.Rand: "sample_rate=0.1 of the call for a sample, or md5_number_lower(x) % 10 = 0",
    exp.Uuid: "sample_rate=0.1 of the call for a sample, or md5_number_lower(x)",
    exp.Placeholder: "the value, or ? and a list of values for the cursor",
}

_SIGNS: Mapping[type[exp.Expr], str] = {
    exp.AtTimeZone: "AT TIME ZONE",
    exp.Bracket: "x[…]",
    exp.Lambda: "x -> y",
    exp.RegexpILike: "~*",
    exp.ToMap: "MAP {…}",
    exp.Dot: "x.y",
}

_INSTEAD_OF = {
    "timezone": "add an INTERVAL: timestamps have no zone here",
    "soundex": "jaro_winkler_similarity(x, 'text') > 0.9, or levenshtein(x, 'text') <= 1",
    "printf": "x || ' ' || y, or round(x, 2)",
    "array_length": "length(x) of a text, len(string_split(x, ',')) of its parts",
    "regexp_split_to_array": "len(regexp_extract_all(x, 'a')), or regexp_extract(x, 'a')",
}
_MISSPELT = 0.8  # likeness of a name to one that it is a slip of
_ONLY = "arithmetic, CASE, comparisons, text and date functions"
_WHY = ": only functions that no row can stop are"
_WHY_OF = {
    **dict.fromkeys(
        "now getdate sysdate current_timestamp localtimestamp current_date today curdate".split(),
        ": an answer doesn't depend on when it is asked",
    ),
    **dict.fromkeys(
        "random rand uuid gen_random_uuid".split(),
        ": which rows count can't be drawn in a statement",
    ),
    "hash": ": its values change with DuckDB's version",
}

_UNQUOTED_PARTS = frozenset(
    "YEAR QUARTER MONTH WEEK DAY DAYOFWEEK DAYOFYEAR HOUR MINUTE SECOND DECADE CENTURY EPOCH".split()
)
_PARTS = {"DAYOFWEEK": "dow", "DAYOFYEAR": "doy"}


Hook = Callable[[exp.Expr], Expression | None]


def merged_owners(scope: Scope, rows: Rows) -> Hook:
    """Return what COALESCE or CASE over the owners of joined rows means: the owner's column."""

    def meaning(node: exp.Expr) -> Expression | None:
        if not isinstance(node, exp.Coalesce | exp.Case | exp.If) or not _picks(node):
            return None
        if any(scope.find(column) is None for column in node.find_all(exp.Column)):
            return None
        bound = Expressions(scope).bind(node)
        found = with_owner(rows, bound)
        return None if found is bound or not isinstance(found, Ref | Cast) else found

    return meaning


def _picks(node: exp.Expr | None) -> bool:
    """Return whether an expression gives one of some columns, by their NULLs alone."""
    match node:
        case exp.Column():
            return True
        case exp.Paren() | exp.Cast():
            return _picks(node.this)
        case exp.Coalesce():
            return all(_picks(part) for part in (node.this, *node.expressions))
        case exp.Case(this=None):
            default = node.args.get("default")
            return all(_picks(branch) for branch in node.args["ifs"]) and _picks(default)
        case exp.If():
            test = node.this.unnest()
            test = test.this.unnest() if isinstance(test, exp.Not) else test
            null = isinstance(test, exp.Is) and isinstance(test.expression, exp.Null)
            other = node.args.get("false")
            return null and _picks(node.args["true"]) and (other is None or _picks(other))
        case _:
            return False


IN_A_COLUMN = "its result as a column: WITH t AS (SELECT *, EXISTS (…) AS met FROM …), and met here"
"""What is written instead of a subquery where none can stand."""


class Expressions:
    """Binds the expressions of one private block.

    aliases: what the names of its select list stand for, for expressions that may use them. hooks:
    each is asked first what a node means; the first answer that isn't None counts.
    """

    def __init__(
        self,
        scope: Scope,
        aliases: Mapping[str, exp.Expr] | None = None,
        hooks: tuple[Hook, ...] = (),
    ) -> None:
        self._scope = scope
        self._statement = scope.statement
        self._aliases = dict(aliases or {})
        self._hooks = hooks

    def bind(self, node: exp.Expr) -> Expression:
        """Return the typed expression, or raise a QueryError with a caret under what is wrong."""
        if not isinstance(node, exp.Expr):
            raise self._statement.wrong("an expression is missing here.", None)
        growth = self._statement.growth
        growth.enter(node)
        try:
            return self._bind(node)
        except functions.TypeProblem as problem:
            raise self._statement.wrong(f"{problem}", node) from None
        finally:
            growth.leave()

    def bind_condition(self, node: exp.Expr) -> Expression:
        """Return a bound expression of type BOOLEAN."""
        bound = self.bind(node)
        if bound.type.kind is Kind.NULL:
            return functions.cast(bound, sqltype.BOOLEAN)
        if bound.type.kind is not Kind.BOOLEAN:
            raise self._statement.wrong(
                f"a condition is true or false, this is {bound.type}.", node
            )
        return bound

    def _bind(self, node: exp.Expr) -> Expression:
        for hook in (*self._hooks, self._of_rows):
            found = hook(node)
            if found is not None:
                return found
        call = written(node)
        if call is not None:
            return self._written(node, call)
        match node:
            case exp.Paren():
                self._only(node, "this")
                return self.bind(node.this)
            case exp.Column():
                return self._column(node)
            case exp.Literal():
                if node.is_string:
                    return Literal(node.name, sqltype.VARCHAR)
                return constants.number(self._statement, node)
            case exp.Boolean():
                return Literal(bool(node.this), sqltype.BOOLEAN)
            case exp.Null():
                return Literal(None, sqltype.NULL)
            case exp.Neg():
                if isinstance(node.this, exp.Literal) and not node.this.is_string:
                    return constants.number(self._statement, node.this, negative=True)
                return self._call("negate", node, [node.this])
            case exp.Not():
                self._only(node, "this")
                if isinstance(node.this, exp.Is) and isinstance(node.this.expression, exp.Null):
                    return self._call("is_not_null", node, [node.this.this])
                return self._call("not", node, [node.this])
            case exp.Is():
                return self._is(node)
            case exp.Between():
                self._only(node, "this", "low", "high")
                self._plain(node.this)
                return self._call("between", node, [node.this, node.args["low"], node.args["high"]])
            case exp.In():
                self._plain(node.this)
                return self._in(node)
            case exp.Like() | exp.ILike():
                return self._like(node)
            case exp.Case():
                return self._case(node)
            case exp.Cast():  # TryCast is a kind of Cast
                return self._cast(node)
            case exp.Interval():
                return constants.interval(self._statement, node)
            case exp.Extract():
                self._only(node, "this", "expression")
                return self._part(node, node.this.name, node.expression)
            case exp.TimestampTrunc() | exp.DateTrunc():
                self._only(node, "this", "unit")
                return self._truncate(node)
            case exp.DateDiff():
                self._only(node, "this", "expression", "unit")
                unit = Literal(self._unit(node), sqltype.VARCHAR)
                ends = (self.bind(node.expression), self.bind(node.this))
                return self._typed("date_diff", node, (unit, *ends))
            case exp.Trim():
                return self._trim(node)
            case exp.Log():
                return self._log(node)
            case exp.Try():
                self._only(node, "this")
                return self.bind(node.this)  # what would raise is NULL anyway
            case exp.Date():
                if node.args.get("zone") is not None:
                    raise self._refuse(node)
                self._only(node, "this")
                return self._as_type(node, sqltype.DATE)
            case exp.Subquery() | exp.Select() | exp.Exists() | exp.Any() | exp.All():
                raise self._statement.unsupported(
                    "a subquery can't stand here: in WHERE, a select list or an argument it can.",
                    node,
                    hint=IN_A_COLUMN,
                )
            case exp.Window():
                raise self._statement.wrong(
                    "a window function can't stand in WHERE, GROUP BY or an aggregate.",
                    node,
                    hint="compute it in a subquery of FROM",
                )
            case _:
                raise self._refuse(node)

    def _of_rows(self, node: exp.Expr) -> Expression | None:
        return row_meaning(self._statement, node, self.bind)

    def _refuse(self, node: exp.Expr) -> Exception:
        if isinstance(node, exp.Dot) and is_planar(node.this):
            return of_protected(self._statement, node.this)
        aggregate = aggregate_name(node)
        if aggregate is not None:
            return self._statement.wrong(
                f"the aggregate {aggregate} can't stand inside WHERE, GROUP BY or an aggregate.",
                node,
                hint="use HAVING for conditions on aggregates",
            )
        name = _SIGNS.get(type(node)) or self._word(node)
        if name is None:
            name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
        return self._unanswered(f"{name} isn't answered over protected rows", node, name)

    def _unanswered(self, message: str, node: exp.Expr, name: str) -> Exception:
        """Return the error for a call that isn't in the table, with what is written instead."""
        found = self._statement.call(node)
        new = None if found is None else rewrites.function(name, found[1])
        known = _INSTEAD.get(type(node)) or _INSTEAD_OF.get(name.lower())
        if new is not None:
            hint = f"{new}: {known}" if known and len(known) < len(_ONLY) else new
        elif known is None and isinstance(node, exp.Func):
            names = [n for n in functions.FUNCTIONS if n not in NO_NAMES]
            close = nearest(name, names, _MISSPELT)
            hint = f"{close}(…)" if close else _ONLY
        else:
            hint = known or _ONLY
        why = _WHY_OF.get(name.lower(), _WHY) if isinstance(node, exp.Func) else ""
        return self._statement.unsupported(
            f"{message}{why}.", node, hint=hint, tries=(self._statement.with_call(node, new),)
        )

    def _only(self, node: exp.Expr, *keys: str) -> None:
        """Refuse a node that holds more than `keys`: nothing of the text is silently ignored."""
        for key, value in node.args.items():
            if key not in keys and key not in _FLAGS and value not in (None, False, []):
                raise self._statement.unsupported(
                    f"this form of {type(node).__name__.upper()} isn't answered.", node
                )

    def _plain(self, node: exp.Expr) -> None:
        """Refuse an operand whose reading differs between DuckDB and others unless in parentheses."""
        if isinstance(node, exp.Not | exp.In | exp.Between | exp.Like | exp.ILike | exp.Is):
            raise self._statement.unsupported(
                "this condition can be read in two ways.", node, hint="put it in parentheses"
            )

    def _call(self, name: str, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        return self._typed(name, node, tuple(self.bind(arg) for arg in args))

    def _typed(self, name: str, node: exp.Expr, args: tuple[Expression, ...]) -> Expression:
        try:
            return functions.call(name, args)
        except functions.TypeProblem as problem:
            message, word = f"{problem}", self._word(node)
            if word is not None and message.startswith(f"{name} "):
                message = word + message[len(name) :]
            raise self._statement.wrong(message, node) from None

    def _word(self, node: exp.Expr) -> str | None:
        return "SIMILAR TO" if isinstance(node, exp.SimilarTo) else self._statement.word(node)

    def _written(self, node: exp.Expr, call: Written) -> Expression:
        if is_planar(node):
            raise of_protected(self._statement, node)
        self._only(node, *call.keys)
        named = isinstance(node, exp.Anonymous)
        if call.name not in functions.FUNCTIONS or (named and node.name.lower() in NO_NAMES):
            name = self._word(node) or call.name
            raise self._unanswered(
                f"the function {name} isn't answered over protected rows", node, name
            )
        args = list(call.args)
        if type(node) in BINARY and call.name not in ("and", "or"):
            for arg in args:
                self._plain(arg)
        if call.name == "date_part" and len(args) == 2 and self._is_part(args[0]):
            return self._part(node, args[0].name, args[1])
        if call.name in MOVES and len(args) == 1 and is_constant(args[0]):
            unit = exp.var(call.name.removeprefix("to_"))
            return constants.interval(self._statement, exp.Interval(this=args[0], unit=unit))
        if call.name.startswith("json_"):
            return self._json(call.name, node, args)
        if isinstance(node, exp.Escape):
            self._only(node.this, "this", "expression", "negate")
            self._plain(args[0])
            bound = self._call(call.name, node, args)
            return functions.call("not", (bound,)) if node.this.args.get("negate") else bound
        return self._call(call.name, node, args)

    def _json(self, name: str, node: exp.Expr, args: list[exp.Expr]) -> Expression:
        """Bind a function of JSON: of a text, or of what -> found in one."""
        source = args[0] if args else None
        while isinstance(source, exp.Paren):
            source = source.this
        if not isinstance(source, exp.JSONExtract):
            return self._call(name, node, args)
        self._only(source, "this", "expression")
        inner = self._json("json_extract", source, [source.this, source.expression])
        return self._typed(name, node, (inner, *(self.bind(arg) for arg in args[1:])))

    def _column(self, node: exp.Column) -> Expression:
        if node.args.get("db") or node.args.get("catalog") or isinstance(node.this, exp.Star):
            raise self._statement.unsupported("write a column as name or table.name.", node)
        column = self._scope.find(node)
        if column is not None:
            return Ref(column)
        name = ascii_lower(node.name)
        if not node.table and name in self._aliases:
            inner = {k: v for k, v in self._aliases.items() if k != name}
            with self._statement.growth.alias(node.name):
                return Expressions(self._scope, inner, self._hooks).bind(self._aliases[name])
        raise self._scope.unknown(node)

    def _is(self, node: exp.Is) -> Expression:
        self._only(node, "this", "expression")
        self._plain(node.this)
        match node.expression:
            case exp.Null():
                return self._call("is_null", node, [node.this])
            case exp.Boolean():
                return self._call("is_not_distinct_from", node, [node.this, node.expression])
            case _:
                raise self._statement.unsupported("this form of IS isn't answered.", node)

    def _in(self, node: exp.In) -> Expression:
        if node.args.get("query") is not None:
            raise self._statement.unsupported(
                "IN with a subquery can't stand here.",
                node,
                hint=f"list the values, x IN (1, 2, 3), or {IN_A_COLUMN}",
            )
        self._only(node, "this", "expressions")
        operand, *values = (self.bind(part) for part in (node.this, *node.expressions))
        if all(isinstance(value, Literal) for value in values):
            return self._typed("in", node, (operand, *values))
        return among(self._statement, node, operand, values)

    def _like(self, node: exp.Like | exp.ILike) -> Expression:
        self._only(node, "this", "expression", "negate")
        self._plain(node.this)
        name = "ilike" if isinstance(node, exp.ILike) else "like"
        bound = self._call(name, node, [node.this, node.expression])
        return functions.call("not", (bound,)) if node.args.get("negate") else bound

    def _case(self, node: exp.Case) -> Expression:
        self._only(node, "this", "ifs", "default")
        branches = []
        for branch in node.args["ifs"]:
            condition = (
                self.bind_condition(branch.this)
                if node.this is None
                else self._call("=", branch, [node.this, branch.this])
            )
            branches.append((condition, self.bind(branch.args["true"])))
        default = node.args.get("default")
        otherwise = Literal(None, sqltype.NULL) if default is None else self.bind(default)
        return functions.case(tuple(branches), otherwise)

    def _cast(self, node: exp.Cast) -> Expression:
        self._only(node, "this", "to")
        return self._as_type(node, constants.type_of(self._statement, node.args["to"]))

    def _as_type(self, node: exp.Expr, target: SqlType) -> Expression:
        operand = self.bind(node.this)
        if isinstance(operand, Literal) and isinstance(operand.value, str):
            try:
                if target.kind is Kind.DATE:
                    return Literal(date.fromisoformat(operand.value), target)
                if target.kind is Kind.TIMESTAMP:
                    return Literal(datetime.fromisoformat(operand.value), target)
            except ValueError:
                raise self._statement.wrong(
                    f"{operand.value!r} is not a {target}.", node, hint=f"{target} '2024-01-31'"
                ) from None
        return functions.cast(operand, target)

    def _is_part(self, node: exp.Expr) -> bool:
        """Return whether a node names a part of a date: as a text, or as a word that no column is."""
        if not isinstance(node, exp.Column) or node.table or node.this.args.get("quoted"):
            return isinstance(node, exp.Literal)
        return node.name.upper() in _UNQUOTED_PARTS and not self._scope.finds(node)

    def _part(self, node: exp.Expr, part: str, value: exp.Expr) -> Expression:
        name = Literal(_PARTS.get(part.upper(), part.lower()), sqltype.VARCHAR)
        return self._typed("date_part", node, (name, self.bind(value)))

    def _truncate(self, node: exp.TimestampTrunc | exp.DateTrunc) -> Expression:
        unit = Literal(self._unit(node), sqltype.VARCHAR)
        return self._typed("date_trunc", node, (unit, self.bind(node.this)))

    def _unit(self, node: exp.Expr) -> str:
        unit = node.args.get("unit")
        if isinstance(unit, exp.Var | exp.Literal):
            return unit.name.lower()
        if isinstance(unit, exp.WeekStart | exp.Week):
            return "week"
        raise self._statement.unsupported("the unit of a date has to be constant.", node)

    def _trim(self, node: exp.Trim) -> Expression:
        self._only(node, "this", "position", "expression")
        name = {"LEADING": "ltrim", "TRAILING": "rtrim"}.get(
            str(node.args.get("position") or "").upper(), "trim"
        )
        characters = node.args.get("expression")
        return self._call(name, node, [node.this, *([] if characters is None else [characters])])

    def _log(self, node: exp.Log) -> Expression:
        self._only(node, "this", "expression")
        base, value = node.this, node.expression
        if value is None:
            return self._call("log", node, [base])
        if isinstance(base, exp.Literal) and base.name in ("2", "10"):
            return self._call("log2" if base.name == "2" else "log", node, [value])
        return self._call("log", node, [base, value])
