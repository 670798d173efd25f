"""Row expressions of private blocks: from sqlglot's nodes to typed expressions. Unknown is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime

from sqlglot import exp

from dp_sql.parser import constants
from dp_sql.parser.aggregates import aggregate_name
from dp_sql.parser.scope import Scope
from dp_sql.parser.text import nearest
from dp_sql.plan import functions
from dp_sql.plan.expression import Expression, Literal, Ref
from dp_sql.schema import sqltype
from dp_sql.schema.catalog import ascii_lower
from dp_sql.schema.sqltype import Kind

BINARY: Mapping[type[exp.Expr], str] = {
    exp.Add: "+",
    exp.Sub: "-",
    exp.Mul: "*",
    exp.Div: "/",
    exp.IntDiv: "//",
    exp.Mod: "%",
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.And: "and",
    exp.Or: "or",
    exp.DPipe: "||",
    exp.NullSafeEQ: "is_not_distinct_from",
    exp.NullSafeNEQ: "is_distinct_from",
    exp.Pow: "power",
}

# class -> (name in the function table, its arguments in order); what else the node holds is refused
SIMPLE: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Trunc: ("trunc", ("this",)),
    exp.Sqrt: ("sqrt", ("this",)),
    exp.Ln: ("ln", ("this",)),
    exp.Exp: ("exp", ("this",)),
    exp.Lower: ("lower", ("this",)),
    exp.Upper: ("upper", ("this",)),
    exp.Length: ("length", ("this",)),
    exp.Substring: ("substring", ("this", "start", "length")),
    exp.Left: ("left", ("this", "expression")),
    exp.Right: ("right", ("this", "expression")),
    exp.Replace: ("replace", ("this", "expression", "replacement")),
    exp.StartsWith: ("starts_with", ("this", "expression")),
    exp.EndsWith: ("ends_with", ("this", "expression")),
    exp.Contains: ("contains", ("this", "expression")),
    exp.Nullif: ("nullif", ("this", "expression")),
    exp.If: ("if", ("this", "true", "false")),
    exp.Year: ("year", ("this",)),
    exp.Quarter: ("quarter", ("this",)),
    exp.Month: ("month", ("this",)),
    exp.Week: ("week", ("this",)),
    exp.WeekOfYear: ("week", ("this",)),
    exp.Day: ("day", ("this",)),
    exp.DayOfMonth: ("day", ("this",)),
    exp.DayOfWeek: ("dayofweek", ("this",)),
    exp.DayOfWeekIso: ("isodow", ("this",)),
    exp.DayOfYear: ("dayofyear", ("this",)),
    exp.Hour: ("hour", ("this",)),
    exp.Minute: ("minute", ("this",)),
    exp.Second: ("second", ("this",)),
    exp.Dayname: ("dayname", ("this",)),
    exp.Monthname: ("monthname", ("this",)),
    exp.LastDay: ("last_day", ("this",)),
    exp.TimeToUnix: ("epoch", ("this",)),
    exp.TimeToStr: ("strftime", ("this", "format")),
}

_LISTS: Mapping[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Least: "least",
    exp.Greatest: "greatest",
}

_FLAGS = {"big_int", "safe", "typed", "coerce", "date_part_boundary", "ignore_nulls", "zone"}

_PARTS = {"DAYOFWEEK": "dow", "DAYOFYEAR": "doy"}


Hook = Callable[[exp.Expr], Expression | None]


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
        try:
            return self._bind(node)
        except functions.TypeProblem as problem:
            raise self._statement.wrong(f"{problem}", node) from None

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
        for hook in self._hooks:
            found = hook(node)
            if found is not None:
                return found
        kind = type(node)
        if kind in BINARY:
            return self._binary(node)
        if kind in SIMPLE:
            return self._simple(node)
        if kind in _LISTS:
            self._only(node, "this", "expressions")
            return self._call(_LISTS[kind], node, [node.this, *node.expressions])
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
                return self._part(node.this.name, node.expression)
            case exp.TimestampTrunc() | exp.DateTrunc():
                self._only(node, "this", "unit")
                return self._truncate(node)
            case exp.DateDiff():
                self._only(node, "this", "expression", "unit")
                unit = Literal(self._unit(node), sqltype.VARCHAR)
                return functions.call(
                    "date_diff", (unit, self.bind(node.expression), self.bind(node.this))
                )
            case exp.Trim():
                return self._trim(node)
            case exp.Concat():
                self._only(node, "expressions", "coalesce")
                return self._call("concat", node, node.expressions)
            case exp.Log():
                return self._log(node)
            case exp.Anonymous():
                return self._anonymous(node)
            case exp.Subquery() | exp.Select() | exp.Exists() | exp.Any() | exp.All():
                raise self._statement.unsupported(
                    "a subquery can't stand here: in WHERE, a select list or an argument it can.",
                    node,
                    hint="name it with WITH and join it",
                )
            case exp.Window():
                raise self._statement.wrong(
                    "a window function can't stand in WHERE, GROUP BY or an aggregate.",
                    node,
                    hint="compute it in a subquery of FROM",
                )
            case _:
                raise self._refuse(node)

    def _refuse(self, node: exp.Expr) -> Exception:
        aggregate = aggregate_name(node)
        if aggregate is not None:
            return self._statement.wrong(
                f"the aggregate {aggregate} can't stand inside WHERE, GROUP BY or an aggregate.",
                node,
                hint="use HAVING for conditions on aggregates",
            )
        name = node.sql_name() if isinstance(node, exp.Func) else type(node).__name__.upper()
        return self._statement.unsupported(
            f"{name} isn't answered over protected rows.",
            node,
            hint="arithmetic, CASE, comparisons, text and date functions",
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
        bound = tuple(self.bind(arg) for arg in args)
        try:
            return functions.call(name, bound)
        except functions.TypeProblem as problem:
            raise self._statement.wrong(f"{problem}", node) from None

    def _binary(self, node: exp.Expr) -> Expression:
        self._only(node, "this", "expression")
        name = BINARY[type(node)]
        if name not in ("and", "or"):
            self._plain(node.this)
            self._plain(node.expression)
        return self._call(name, node, [node.this, node.expression])

    def _simple(self, node: exp.Expr) -> Expression:
        name, keys = SIMPLE[type(node)]
        self._only(node, *keys)
        return self._call(name, node, [node.args[k] for k in keys if node.args.get(k) is not None])

    def _column(self, node: exp.Column) -> Expression:
        if node.args.get("db") or node.args.get("catalog") or isinstance(node.this, exp.Star):
            raise self._statement.unsupported("write a column as name or table.name.", node)
        column = self._scope.find(node)
        if column is not None:
            return Ref(column)
        name = ascii_lower(node.name)
        if not node.table and name in self._aliases:
            inner = {k: v for k, v in self._aliases.items() if k != name}
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
                hint="list the values: x IN (1, 2, 3), or test in WHERE",
            )
        self._only(node, "this", "expressions")
        return self._call("in", node, [node.this, *node.expressions])

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
        target = constants.type_of(self._statement, node.args["to"])
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

    def _part(self, part: str, value: exp.Expr) -> Expression:
        name = _PARTS.get(part.upper(), part.lower())
        return functions.call("date_part", (Literal(name, sqltype.VARCHAR), self.bind(value)))

    def _truncate(self, node: exp.TimestampTrunc | exp.DateTrunc) -> Expression:
        unit = Literal(self._unit(node), sqltype.VARCHAR)
        return functions.call("date_trunc", (unit, self.bind(node.this)))

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
        raise self._statement.unsupported("a logarithm has base e, 2 or 10.", node, hint="ln(x)")

    def _anonymous(self, node: exp.Anonymous) -> Expression:
        name = ascii_lower(node.name)
        if name == "date_part" and len(node.expressions) == 2:
            part, value = node.expressions
            if isinstance(part, exp.Literal) and part.is_string:
                return self._part(part.name, value)
        if name not in functions.FUNCTIONS:
            close = nearest(name, functions.FUNCTIONS)
            raise self._statement.unsupported(
                f"the function {node.name} isn't answered over protected rows.",
                node,
                hint=f"{close}(…)" if close else None,
            )
        return self._call(name, node, node.expressions)
