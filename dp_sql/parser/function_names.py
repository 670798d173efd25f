"""Which row of the function table a node of the parser library is, and with which arguments."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from dp_sql.dataclass import dataclass
from dp_sql.plan.functions_calendar import MOVES

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
    exp.BitwiseAnd: "&",
    exp.BitwiseOr: "|",
    exp.BitwiseXor: "xor",
    exp.BitwiseLeftShift: "<<",
    exp.BitwiseRightShift: ">>",
    exp.SimilarTo: "regexp_full_match",
    exp.Glob: "glob",
}

# class -> (name in the function table, its arguments in order); what else the node holds is refused
SIMPLE: Mapping[type[exp.Expr], tuple[str, tuple[str, ...]]] = {
    exp.Abs: ("abs", ("this",)),
    exp.Sign: ("sign", ("this",)),
    exp.Floor: ("floor", ("this",)),
    exp.Ceil: ("ceil", ("this",)),
    exp.Round: ("round", ("this", "decimals")),
    exp.Trunc: ("trunc", ("this", "decimals")),
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
    exp.BitwiseNot: ("~", ("this",)),
    exp.BitLength: ("bit_length", ("this",)),
    exp.Reverse: ("reverse", ("this",)),
    exp.Repeat: ("repeat", ("this", "times")),
    exp.SplitPart: ("split_part", ("this", "delimiter", "part_index")),
    exp.StrPosition: ("strpos", ("this", "substr")),
    exp.Ascii: ("ascii", ("this",)),
    exp.Unicode: ("unicode", ("this",)),
    exp.Translate: ("translate", ("this", "from_", "to")),
    exp.MD5: ("md5", ("this",)),
    exp.SHA: ("sha1", ("this",)),
    exp.Levenshtein: ("levenshtein", ("this", "expression")),
    exp.RegexpLike: ("regexp_matches", ("this", "expression", "flag")),
    exp.RegexpFullMatch: ("regexp_full_match", ("this", "expression", "options")),
    exp.RegexpExtract: ("regexp_extract", ("this", "expression", "group", "parameters")),
    exp.RegexpReplace: ("regexp_replace", ("this", "expression", "replacement", "modifiers")),
    exp.Factorial: ("factorial", ("this",)),
    exp.Pi: ("pi", ()),
    exp.Cbrt: ("cbrt", ("this",)),
    exp.Degrees: ("degrees", ("this",)),
    exp.Radians: ("radians", ("this",)),
    exp.Sin: ("sin", ("this",)),
    exp.Cos: ("cos", ("this",)),
    exp.Tan: ("tan", ("this",)),
    exp.Cot: ("cot", ("this",)),
    exp.Asin: ("asin", ("this",)),
    exp.Acos: ("acos", ("this",)),
    exp.Atan: ("atan", ("this",)),
    exp.Atan2: ("atan2", ("this", "expression")),
    exp.Sinh: ("sinh", ("this",)),
    exp.Cosh: ("cosh", ("this",)),
    exp.Tanh: ("tanh", ("this",)),
    exp.Asinh: ("asinh", ("this",)),
    exp.Acosh: ("acosh", ("this",)),
    exp.Atanh: ("atanh", ("this",)),
    exp.IsInf: ("isinf", ("this",)),
    exp.DateFromParts: ("make_date", ("year", "month", "day")),
    exp.TimestampFromParts: (
        "make_timestamp",
        ("year", "month", "day", "hour", "min", "sec"),
    ),
    exp.DateBin: ("time_bucket", ("this", "expression", "unit")),
    exp.StrToTime: ("strptime", ("this", "format")),
    exp.DateAdd: ("+", ("this", "expression")),
    exp.JSONExtractScalar: ("json_extract_string", ("this", "expression")),
    exp.Hex: ("hex", ("this",)),
    exp.ToBinary: ("bin", ("this",)),
    exp.ToDays: ("to_days", ("this",)),
    exp.Overlay: ("overlay", ("this", "expression", "from_", "for_")),
    exp.ArraySlice: ("array_slice", ("this", "start", "end")),
    exp.JSONType: ("json_type", ("this", "expression")),
}

LISTS: Mapping[type[exp.Expr], str] = {
    exp.Coalesce: "coalesce",
    exp.Least: "least",
    exp.Greatest: "greatest",
}


# names that the parser library leaves alone -> the row that has the same meaning
OTHER_NAMES: Mapping[str, str] = {
    "ord": "unicode",
    "prefix": "starts_with",
    "suffix": "ends_with",
    "mismatches": "hamming",
    "greatest_common_divisor": "gcd",
    "least_common_multiple": "lcm",
    "list_indexof": "list_position",
    "array_indexof": "list_position",
    "list_element": "list_extract",
    "array_extract": "list_extract",
    "datepart": "date_part",
    "datesub": "date_sub",
    "list_slice": "array_slice",
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "//",
}

# rows of the table that are operators: nobody calls them by these names
NO_NAMES = frozenset(
    "and between glob ilike in is_distinct_from is_not_distinct_from is_not_null is_null like "
    "match_count negate not or split_contains split_count split_item".split()
)

_PARTS = ("this", "expression")
_COUNTS = (exp.Length, exp.ArraySize)
_OF_LISTS = ("list_position", "list_extract")
_ESCAPED: Mapping[type[exp.Expr], str] = {exp.Like: "like_escape", exp.ILike: "ilike_escape"}
_LISTED: Mapping[type[exp.Expr], str] = {
    exp.Concat: "concat",
    exp.ConcatWs: "concat_ws",
    exp.Chr: "chr",
}
_NUMBERED = {"3": "epoch_ms", "6": "make_timestamp"}


@dataclass(frozen=True, slots=True)
class Written:
    """A call as the table has it.

    keys: of the node, what the call holds of it; more than these isn't answered.
    """

    name: str
    args: tuple[exp.Expr, ...]
    keys: tuple[str, ...]


def written(node: exp.Expr) -> Written | None:
    """Return the call that a node is, None for a node that is none or isn't in the table."""
    kind = type(node)
    counted = node.this if isinstance(node, _COUNTS) else None
    if counted is not None and _is_split(counted):
        return Written("split_count", _given(counted, _PARTS), ("this",))
    if isinstance(counted, exp.RegexpExtractAll) and counted.text("group") == "0":
        return Written("match_count", _given(counted, _PARTS), ("this",))
    if kind in BINARY:
        keys: tuple[str, ...] = ("this", "expression")
        return Written(BINARY[kind], _given(node, keys), keys)
    if kind in SIMPLE:
        name, keys = SIMPLE[kind]
        return Written(name, _given(node, keys), keys)
    if kind in LISTS:
        return Written(LISTS[kind], (node.this, *node.expressions), ("this", "expressions"))
    match node:
        case exp.Concat() | exp.ConcatWs() | exp.Chr():
            return Written(_LISTED[kind], tuple(node.expressions), ("expressions", "coalesce"))
        case exp.Pad():
            keys = ("this", "expression", "fill_pattern")
            name = "lpad" if node.args.get("is_left") else "rpad"
            return Written(name, _given(node, keys), (*keys, "is_left"))
        case exp.SHA2() if node.text("length") == "256":
            return Written("sha256", (node.this,), ("this", "length"))
        case exp.TimeToStr():
            value, pattern = node.this, node.args["format"]
            if isinstance(value, exp.Literal):  # DuckDB takes them either way round
                value, pattern = pattern, value
            return Written("strftime", (value, pattern), ("this", "format"))
        case exp.UnixToTime() if node.text("scale") in _NUMBERED:
            return Written(_NUMBERED[node.text("scale")], (node.this,), ("this", "scale"))
        case exp.Escape() if type(node.this) in _ESCAPED:
            inner = node.this
            args = (inner.this, inner.expression, node.expression)
            return Written(_ESCAPED[type(inner)], args, ("this", "expression"))
        case exp.ArrayContains() | exp.ArrayPosition() if isinstance(node.this, exp.Array):
            name = "list_contains" if kind is exp.ArrayContains else "list_position"
            return Written(name, (node.expression, *node.this.expressions), ("this", "expression"))
        case exp.ArrayContains() if _is_split(node.this):
            args = (*_given(node.this, _PARTS), node.expression)
            return Written("split_contains", args, ("this", "expression"))
        case exp.Interval() if not is_constant(node.this):
            move = _move(node)
            if move is not None:
                return Written(move, (node.this,), ("this", "unit"))
        case exp.Bracket():
            place = _place(node)
            if place is not None:
                return _extracted(node.this, place, ("this", "expressions"))
            bounds = _bounds(node)
            if bounds is not None:
                return Written("array_slice", (node.this, *bounds), ("this", "expressions"))
        case exp.Anonymous():
            name = node.name.lower()
            name = OTHER_NAMES.get(name, name)
            args = tuple(node.expressions)
            if name == "list_extract" and len(args) == 2:
                return _extracted(args[0], args[1], ("this", "expressions"))
            if name in _OF_LISTS:
                if len(args) != 2 or not isinstance(args[0], exp.Array):
                    return None
                args = (args[1], *args[0].expressions)
            return Written(name, args, ("this", "expressions"))
        case _:
            pass
    return None


def _given(node: exp.Expr, keys: tuple[str, ...]) -> tuple[exp.Expr, ...]:
    return tuple(node.args[key] for key in keys if node.args.get(key) is not None)


def is_constant(node: exp.Expr) -> bool:
    """Return whether a node is a literal, with or without a sign and parentheses."""
    while isinstance(node, exp.Paren | exp.Neg):
        node = node.this
    return isinstance(node, exp.Literal)


def _move(node: exp.Interval) -> str | None:
    """Return the function that makes an interval of a number of a unit."""
    name = f"to_{node.text('unit').lower().removesuffix('s')}s"
    return name if name in MOVES else None


def _is_split(node: exp.Expr) -> bool:
    """Return whether a node is string_split(x, separator), and nothing more."""
    return isinstance(node, exp.Split) and len(_given(node, tuple(node.args))) == len(_PARTS)


def _extracted(source: exp.Expr, place: exp.Expr, keys: tuple[str, ...]) -> Written:
    """Return source[place]: of a list of constants, of the parts of a text, or of a text."""
    if isinstance(source, exp.Array):
        return Written("list_extract", (place, *source.expressions), keys)
    if _is_split(source):
        return Written("split_item", (*_given(source, _PARTS), place), keys)
    return Written("array_extract", (source, place), keys)


def _bounds(node: exp.Bracket) -> tuple[exp.Expr, exp.Expr] | None:
    """Return the places from and to which x[from:to] goes, from the first to the last by default."""
    match node.expressions:
        case [exp.Slice() as part] if part.args.get("step") is None:
            first = part.this or exp.Literal.number(1)
            return first, part.expression or exp.Neg(this=exp.Literal.number(1))
        case _:
            return None


def _place(node: exp.Bracket) -> exp.Expr | None:
    """Return the place in [...][place] where it is a constant or a column."""
    if len(node.expressions) != 1:
        return None
    match node.expressions[0]:
        case (
            exp.Literal(is_int=True)
            | exp.Neg(this=exp.Literal(is_int=True))
            | exp.Column() as place
        ):
            return place
        case _:
            return None
