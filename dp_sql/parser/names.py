"""Names that the analyst's text may not hold, above the releases as below."""

from __future__ import annotations

from sqlglot import exp

from dp_sql.parser.aggregates import is_interval
from dp_sql.parser.planar_calls import check_planar, is_planar
from dp_sql.parser.scope import Statement
from dp_sql.parser.text_sizes import check_text_size

# above a release any scalar function of DuckDB may stand, but for those that read the process, run a
# text as SQL, keep the connection waiting, change its state or raise a text of the analyst's choice
_DENIED = frozenset(
    "current_setting getenv getvariable query query_table read_blob read_csv read_csv_auto read_text "
    "read_json read_json_auto read_ndjson read_parquet parquet_scan read_duckdb read_xlsx sniff_csv "
    "glob json_execute_serialized_sql json_deserialize_sql json_serialize_sql json_serialize_plan "
    "sleep_ms pg_sleep sleep setseed nextval currval write_log error which_secret txid_current "
    "stats vector_type enum_range enum_first enum_last enum_code in_search_path current_query "
    "pragma_version duckdb_settings duckdb_tables duckdb_columns duckdb_secrets version "
    "add_parquet_key force_checkpoint checkpoint current_database current_schema current_schemas "
    "current_version current_user session_user current_catalog current_role "
    "list_resize array_resize bitstring".split()
)
_DRAWN = frozenset({"rand", "random", "uuid", "gen_random_uuid", "uuidv4", "uuidv7"})
_TABLE_FUNCTIONS = (exp.GenerateSeries, exp.Unnest, exp.Values)


def is_plain_table(node: exp.Table) -> bool:
    """Return whether a FROM item is a plain name, not a function."""
    return isinstance(node.this, exp.Identifier)


def deny_open(statement: Statement, node: exp.Expr) -> None:
    """Raise UnsupportedSQLError where a node above the releases is one that is never run."""
    if is_interval(node):
        raise statement.unsupported(
            f"{node.name.upper()} stands in the block that has the aggregate.",
            node,
            hint="SELECT n, low FROM (SELECT COUNT(*) AS n, DP_INTERVAL_LOW(n) AS low FROM …)",
        )
    if is_planar(node):
        check_planar(statement, node)
    called = node.name if isinstance(node, exp.Anonymous) else _class_name(node)
    if called.lower() in _DENIED:
        raise statement.unsupported(f"the function {called} isn't answered.", node)
    if isinstance(node, exp.ReadCSV | exp.ReadParquet | exp.Columns | exp.Command):
        raise statement.unsupported(f"{type(node).__name__.upper()} isn't answered.", node)
    if isinstance(node, exp.Table) and not isinstance(
        node.this, (exp.Identifier, *_TABLE_FUNCTIONS)
    ):
        raise statement.unsupported(
            "table functions aren't answered: they read files, settings or run text as SQL.",
            node,
            hint="a declared table, VALUES, range or unnest",
        )
    check_text_size(statement, node)
    if isinstance(node, exp.DML | exp.DDL) and not isinstance(node, exp.Query):
        raise statement.unsupported("dp_sql only reads.", node)


def draws(tree: exp.Expr) -> bool:
    """Return whether a value of a tree is drawn at random each time that it is asked."""
    called = (
        f.name if isinstance(f, exp.Anonymous) else _class_name(f) for f in tree.find_all(exp.Func)
    )
    return any(name.lower() in _DRAWN for name in called)


def _class_name(node: exp.Expr) -> str:
    """Return the name of a function that the parser library has a class for, else nothing."""
    return node.sql_name() if isinstance(node, exp.Func) else ""
