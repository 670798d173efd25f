"""GoogleSQL's form: the privacy clause, the named arguments, its spellings, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from small_catalog import CATALOG

from dp_sql.errors import NotPrivateError, ParameterError, QueryError, UnsupportedSQLError
from dp_sql.parser.setting import read_setting
from dp_sql.parser.statement import parse
from dp_sql.plan.accuracy import Accuracy
from dp_sql.plan.printer import expression_text
from dp_sql.plan.release import AggregateKind, KeyChoice, Options, Share
from dp_sql.privacy.unit import Adjacency, Level, PrivacyUnit

ROWS = replace(
    CATALOG,
    unit=PrivacyUnit(Level.EVENT, Adjacency.ADD_REMOVE),
    tables={name: replace(table, owner=None) for name, table in CATALOG.tables.items()},
)


def google(options: str, rest: str) -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) {rest}"


def test_a_clause_says_what_holds_for_its_release() -> None:
    sql = google(
        "epsilon = .5, DELTA=1e-8, max_groups_contributed=3, privacy_unit_column = v.user_id, "
        "min_privacy_units_per_group=50, group_selection_strategy = laplace_threshold",
        "category, COUNT(*) FROM visits AS v GROUP BY category",
    )
    (release,) = parse(sql, CATALOG).releases
    assert release.options == Options(
        Share(Fraction(1, 2), 1), Share(Fraction(1, 10**8), 1), 3, 50, KeyChoice.PRIVATE
    )


@pytest.mark.parametrize("text", ["0.1", ".1", "1e-1", "0.10"])
def test_amounts_are_read_as_exact_decimals(text: str) -> None:
    (release,) = parse(google(f"epsilon = {text}", "COUNT(*) FROM visits"), CATALOG).releases
    assert release.options.epsilon == Share(Fraction(1, 10), 1)


def test_an_inner_clause_wins_and_the_outer_holds_for_the_rest() -> None:
    inner = google("max_groups_contributed = 9", "COUNT(*) AS n FROM users")
    sql = google(
        "epsilon = 1",
        f"SUM(amount) / (SELECT COUNT(*) FROM users), (SELECT n FROM ({inner}) AS q) FROM visits",
    )
    options = [release.options for release in parse(sql, CATALOG).releases]
    assert [o.epsilon for o in options] == [Share(Fraction(1), 1)] * 3
    assert sorted(o.max_groups or 0 for o in options) == [0, 0, 9]


def test_each_part_of_a_union_has_its_own_clause() -> None:
    first = google("epsilon = 1", "COUNT(*) FROM visits")
    sql = f"{first} UNION ALL {google('epsilon = 2', 'COUNT(*) FROM users')}"
    shares = [release.options.epsilon for release in parse(sql, CATALOG).releases]
    assert shares == [Share(Fraction(1), 1), Share(Fraction(2), 2)]


def test_the_inner_of_epsilon_and_within_wins() -> None:
    def nested(outer: str, inner: str) -> Options:
        sql = google(outer, f"n FROM ({google(inner, 'COUNT(*) AS n FROM visits')})")
        return parse(sql, CATALOG).releases[0].options

    near = Accuracy(Fraction(9), Fraction(95, 100))
    assert nested("epsilon = 1", "within = 9") == Options(accuracy=near)
    assert nested("within = 9", "epsilon = 1").accuracy is None
    assert nested("within = 9", "delta = 0").accuracy == near


def test_without_options_and_before_from() -> None:
    for sql in (
        "SELECT WITH DIFFERENTIAL_PRIVACY COUNT(*) FROM visits",
        "FROM visits SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS() COUNT(*)",
        "select with differential_privacy options(epsilon=1) DISTINCT region from visits",
    ):
        assert len(parse(sql, CATALOG).releases) == 1


def test_null_groups_keep_the_schemas_limit_and_say_so() -> None:
    query = parse(google("max_groups_contributed = NULL", "COUNT(*) FROM visits"), CATALOG)
    assert query.releases[0].options.max_groups is None
    (note,) = query.notes
    assert "the schema's limit holds" in note


REFUSED = [
    ("epsilon = 0", ParameterError, "above zero", "0"),
    ("epsilon = -1", ParameterError, "above zero", "-1"),
    ("epsilon = 1/2", ParameterError, "is a number", "1"),
    ("epsilon = 'a'", ParameterError, "is a number", None),
    ("epsilon = NULL", ParameterError, "is a number", "NULL"),
    ("epsilon = -.5", ParameterError, "above zero", "-.5"),
    ("delta = 1", ParameterError, "below 1", "1"),
    ("epsilon = 1, epsilon = 2", QueryError, "twice", "epsilon"),
    ("epsilno = 1", UnsupportedSQLError, "no privacy option epsilno", "epsilno"),
    ("within = 0", ParameterError, "above zero", "0"),
    ("confidence = 0.9", QueryError, "confidence", "confidence"),
    ("within = 5, epsilon = 1", QueryError, "can't both", "within"),
    ("max_rows_contributed = 5", UnsupportedSQLError, "max_rows_contributed", "max_rows_contributed"),
    ("kappa = 5", UnsupportedSQLError, "old name", "kappa"),
    ("max_groups_contributed = 0", ParameterError, "whole number", "0"),
    ("max_groups_contributed = 1.5", ParameterError, "whole number", "1.5"),
    ("max_groups_contributed = 99999999999999999999999", ParameterError, "whole number", None),
    ("min_privacy_units_per_group = 0", ParameterError, "whole number", "0"),
    ("group_selection_strategy = GUESS", ParameterError, "LAPLACE_THRESHOLD", "GUESS"),
    ("group_selection_strategy = 'PUBLIC_GROUPS'", ParameterError, "LAPLACE_THRESHOLD", None),
    ("privacy_unit_column = region", NotPrivateError, "isn't the privacy unit", "region"),
    ("privacy_unit_column = nobody", QueryError, "no column is called", "nobody"),
    ("privacy_unit_column = 3", QueryError, "name of a column", "3"),
    ("group_selection_strategy = PUBLIC_GROUPS, min_privacy_units_per_group = 9", QueryError,
     "private groups", None),
]  # fmt: skip


@pytest.mark.parametrize(
    ("options", "kind", "message", "word"), REFUSED, ids=[r[0] for r in REFUSED]
)
def test_options_that_cant_be_used_are_refused_at_their_place(
    options: str, kind: type[QueryError], message: str, word: str | None
) -> None:
    sql = google(options, "COUNT(*) FROM visits")
    with pytest.raises(kind, match=message) as caught:
        parse(sql, CATALOG)
    assert caught.value.hint
    if word is not None:
        place = caught.value.position
        assert place is not None
        assert sql[place.column - 1 :].startswith(word)


@pytest.mark.parametrize(
    "sql",
    [
        google("epsilon", "COUNT(*) FROM visits"),
        google("epsilon = ", "COUNT(*) FROM visits"),
        "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1 COUNT(*) FROM visits",
        "SELECT WITH PRIVACY COUNT(*) FROM visits",
        google("epsilon = 1", "COUNT(*, contribution_bounds_per_group => ) FROM visits"),
    ],
)
def test_what_isnt_written_so_is_no_sql(sql: str) -> None:
    with pytest.raises(QueryError):
        parse(sql, CATALOG)


@pytest.mark.parametrize(
    "sql",
    [
        google("epsilon = 1", "name FROM regions"),
        f"SELECT COUNT(*) FROM ({google('epsilon = 1', 'amount, user_id FROM visits')}) AS q",
        f"SELECT COUNT(*) FROM visits v WHERE EXISTS ({google('epsilon = 1', '1 FROM regions')})",
    ],
)
def test_a_clause_over_nothing_that_it_could_hold_for_is_refused(sql: str) -> None:
    with pytest.raises(QueryError, match="aggregates no protected rows"):
        parse(sql, CATALOG)


def test_the_owners_column_is_known_by_itself_and_not_by_its_name() -> None:
    renamed = "FROM (SELECT user_id AS region, region AS user_id, amount FROM visits) AS q"
    parse(google("privacy_unit_column = region", f"COUNT(*) {renamed}"), CATALOG)
    with pytest.raises(NotPrivateError, match="isn't the privacy unit") as caught:
        parse(google("privacy_unit_column = user_id", f"COUNT(*) {renamed}"), CATALOG)
    assert caught.value.hint == "privacy_unit_column = region"


@pytest.mark.parametrize("options", ["privacy_unit_column = user_id", "max_groups_contributed = 1"])
def test_at_event_level_no_option_speaks_of_persons(options: str) -> None:
    with pytest.raises(QueryError, match="single rows"):
        parse(google(options, "COUNT(*) FROM visits"), ROWS)


def aggregate(call: str, catalog: object = CATALOG) -> tuple[str, tuple[Fraction, Fraction] | None]:
    (release,) = parse(f"SELECT {call} FROM visits", catalog).releases  # type: ignore[arg-type]
    (only,) = release.aggregates
    text = "*" if only.argument is None else expression_text(only.argument)
    return f"{only.kind.value} {text}", only.bounds


def test_bounds_by_group_and_by_row() -> None:
    group, row = "contribution_bounds_per_group", "contribution_bounds_per_row"
    ends = (Fraction(0), Fraction(5))
    assert aggregate(f"COUNT(*, {group} => (0, 5))") == ("COUNT(*) *", ends)
    assert aggregate(f"COUNT(day, {group} => (0, 5))") == ("COUNT day", ends)
    assert aggregate(f"SUM(minutes, {group} => (0, 5))") == ("SUM minutes", ends)
    low = (Fraction(-3, 2), Fraction(5))
    assert aggregate(f"AVG(amount, {group} => (-1.5, 5))") == ("AVG amount", low)
    assert aggregate(f"SUM(minutes, {row} => (0, 5))") == aggregate("SUM(CLAMP(minutes, 0, 5))")
    both = aggregate(f"SUM(minutes, {row} => (0, 5), {group} => (0, 5))")
    assert both == (aggregate("SUM(CLAMP(minutes, 0, 5))")[0], ends)
    counted, bounds = aggregate(f"COUNTIF(minutes > 3, {group} => (0, 5))")
    assert counted.startswith("COUNT CASE")
    assert bounds == ends


def test_at_event_level_a_units_bounds_are_its_rows() -> None:
    group = "contribution_bounds_per_group => (0, 5)"
    assert aggregate(f"SUM(minutes, {group})", ROWS) == aggregate("SUM(CLAMP(minutes, 0, 5))", ROWS)
    assert aggregate(f"COUNT(*, {group})", ROWS) == ("COUNT(*) *", None)
    with pytest.raises(ParameterError, match="one row counts once"):
        aggregate("COUNT(*, contribution_bounds_per_group => (2, 5))", ROWS)


def test_equal_aggregates_with_other_bounds_are_two() -> None:
    sql = """SELECT SUM(amount), SUM(amount, contribution_bounds_per_group => (0, 1)),
             SUM(amount, contribution_bounds_per_group => (0, 1)) FROM visits"""
    (release,) = parse(sql, CATALOG).releases
    assert [a.kind for a in release.aggregates] == [AggregateKind.SUM] * 2


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        ("COUNT(*, contribution_bounds_per_row => (0, 5))", UnsupportedSQLError, "no values"),
        ("COUNT(*, contribution_bounds_per_group => (0, 1.5))", ParameterError, "whole numbers"),
        ("COUNT(*, contribution_bounds_per_group => (-2, 0))", ParameterError, "at least 1"),
        ("COUNT(DISTINCT user_id, contribution_bounds_per_group => (0, 1))", UnsupportedSQLError, "once"),
        ("VAR_SAMP(amount, contribution_bounds_per_group => (0, 5))", UnsupportedSQLError, "row by row"),
        ("SUM(amount, contribution_bounds_per_group => (5, 5))", ParameterError, "below the upper"),
        ("SUM(amount, contribution_bounds_per_group => (0, 5, 6))", ParameterError, "two numbers"),
        ("SUM(amount, contribution_bounds_per_group => 5)", ParameterError, "two numbers"),
        ("SUM(amount, contribution_bounds_per_group => (0, minutes))", ParameterError, "two numbers"),
        ("SUM(amount, contribution_bounds_per_group => (0, 1), contribution_bounds_per_group => (0, 2))",
         QueryError, "twice"),
        ("SUM(amount, bounds => (0, 5))", QueryError, "SQL"),
        ("SUM(ABS(amount, contribution_bounds_per_row => (0, 5)))", UnsupportedSQLError, "belong to"),
        ("ROUND(AVG(amount), contribution_bounds_per_row => (0, 5))", UnsupportedSQLError, "belong to"),
        ("SUM(SUM(amount), contribution_bounds_per_row => (0, 5)) OVER ()", UnsupportedSQLError, "belong"),
        ("SUM(amount, contribution_bounds_per_row => (0, 5)) OVER (PARTITION BY user_id)",
         UnsupportedSQLError, "belong to"),
        ("MEDIAN(amount, contribution_bounds_per_group => (0, 5))", UnsupportedSQLError, "row by row"),
    ],
)  # fmt: skip
def test_bounds_that_dont_fit_are_refused(call: str, kind: type[QueryError], message: str) -> None:
    with pytest.raises(kind, match=message):
        parse(f"SELECT {call} FROM visits", CATALOG)


def test_bounds_of_one_persons_own_rows_are_refused() -> None:
    inner = "SELECT user_id, SUM(amount, contribution_bounds_per_group => (0, 1)) AS s FROM visits"
    with pytest.raises(UnsupportedSQLError, match="over many units"):
        parse(f"SELECT AVG(s) FROM ({inner} GROUP BY user_id) AS q", CATALOG)


def test_bounds_of_public_rows_are_refused_and_not_dropped() -> None:
    with pytest.raises(UnsupportedSQLError, match="protected rows"):
        parse("SELECT COUNT(*, contribution_bounds_per_group => (0, 5)) FROM regions", CATALOG)


BOTH = [  # a spelling, and what it means in every statement
    ("COUNTIF(minutes > 30)", "COUNT_IF(minutes > 30)"),
    ("SUM(SAFE_DIVIDE(minutes, 4))", "SUM(minutes / NULLIF(4, 0))"),
    ("SUM(IFNULL(minutes, 0))", "SUM(COALESCE(minutes, 0))"),
    ("SUM(CLAMP(SAFE_CAST(category AS INT64), 0, 9))", "SUM(CLAMP(TRY_CAST(category AS BIGINT), 0, 9))"),
    ("AVG(CAST(minutes AS FLOAT64))", "AVG(CAST(minutes AS DOUBLE))"),
    ("COUNT(DATE_TRUNC(day, MONTH))", "COUNT(date_trunc('month', day))"),
    ("COUNT(DATE_TRUNC(day, ISOWEEK))", "COUNT(date_trunc('week', day))"),
    ("COUNT(DATE_TRUNC(day, WEEK(MONDAY)))", "COUNT(date_trunc('week', day))"),
    ("COUNT(TIMESTAMP_TRUNC(day, DAY))", "COUNT(date_trunc('day', day))"),
    ("COUNT(DATE_DIFF(day, DATE '2024-01-01', DAY))", "COUNT(date_diff('day', DATE '2024-01-01', day))"),
    ("COUNT(FORMAT_DATE('%Y', day))", "COUNT(strftime(day, '%Y'))"),
    ("COUNT(DATE_ADD(day, INTERVAL 3 DAY))", "COUNT((day) + INTERVAL 3 DAY)"),
    ("COUNT(DATE_SUB(day, INTERVAL 3 DAY))", "COUNT((day) - INTERVAL 3 DAY)"),
    ("SUM(`minutes`)", 'SUM("minutes")'),
]  # fmt: skip
GOOGLE = [  # a spelling that DuckDB has too, and what GoogleSQL means by it
    ("AVG(CLAMP(LOG(minutes), 0, 9))", "AVG(CLAMP(LN(minutes), 0, 9))"),
    ("COUNT(CONCAT(category, region))", "COUNT(category || (region))"),
    ("SUM(EXTRACT(DAYOFWEEK FROM day))", "SUM(EXTRACT(dow FROM day) + 1)"),
    ("SUM(EXTRACT(ISOWEEK FROM day))", "SUM(EXTRACT(week FROM day))"),
    ("COUNT(EXTRACT(DATE FROM day))", "COUNT(CAST(day AS DATE))"),
    ("SUM(GREATEST(minutes, 3))",
     "SUM(CASE WHEN minutes IS NULL OR 3 IS NULL THEN NULL ELSE GREATEST(minutes, 3) END)"),
]  # fmt: skip


@pytest.mark.parametrize(("google_sql", "duckdb"), BOTH, ids=[pair[0] for pair in BOTH])
def test_spellings_that_duckdb_reads_in_no_other_way(google_sql: str, duckdb: str) -> None:
    for head in ("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 1)"):
        assert aggregate_of(f"{head} {google_sql} FROM visits") == aggregate_of(
            f"SELECT {duckdb} FROM visits"
        )


@pytest.mark.parametrize(("spelling", "duckdb"), GOOGLE, ids=[pair[0] for pair in GOOGLE])
def test_spellings_with_two_meanings_have_googles_in_its_form_only(
    spelling: str, duckdb: str
) -> None:
    wanted = aggregate_of(f"SELECT {duckdb} FROM visits")
    assert aggregate_of(google("epsilon = 1", f"{spelling} FROM visits")) == wanted
    try:
        plain = aggregate_of(f"SELECT {spelling} FROM visits")
    except QueryError:
        plain = None
    assert plain != wanted or "ISOWEEK" in spelling


def aggregate_of(sql: str) -> tuple[str, str]:
    (release,) = parse(sql, CATALOG).releases
    (only,) = release.aggregates
    return only.kind.value, "*" if only.argument is None else expression_text(only.argument)


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        ("COUNT(DATE_TRUNC(day, WEEK))", "ISOWEEK"),
        ("COUNT(DATE_TRUNC(day, WEEK(SUNDAY)))", "MONDAY"),
        ("COUNT(DATE_DIFF(day, day, HOUR))", "date_diff"),
        ("COUNT(EXTRACT(WEEK FROM day))", "ISOWEEK"),
        ("COUNT(EXTRACT(MILLISECOND FROM day))", "EXTRACT"),
    ],
)
def test_spellings_that_nothing_here_equals_are_refused(call: str, hint: str) -> None:
    with pytest.raises(UnsupportedSQLError) as caught:
        parse(google("epsilon = 1", f"{call} FROM visits"), CATALOG)
    assert hint in str(caught.value.hint)
    assert caught.value.position is not None


def test_duckdbs_text_keeps_every_place_and_loses_what_duckdb_cant_read() -> None:
    sql = google(
        "epsilon = 1", 'SUM(`amount`, contribution_bounds_per_row => (0, 1)) AS "a`b" FROM `visits`'
    )
    plain = parse(sql, CATALOG).residual.plain
    assert plain.split() == ["SELECT", 'SUM("amount"', ")", "AS", '"a`b"', "FROM", '"visits"']
    assert plain.index("SUM") == sql.index("SUM")
    assert len(plain) == len(sql)
    hostile = 'SELECT COUNT(*) AS `x"; DROP TABLE y; --` FROM visits'
    assert parse(hostile, CATALOG).residual.plain.startswith('SELECT COUNT(*) AS "x""; DROP')


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("SET epsilon = 0.5", ("epsilon", "0.5")),
        (" set EPSILON to '.5' ;", ("epsilon", ".5")),
        ("-- mine\nSET delta = 1e-9", ("delta", "1e-9")),
        ("SET epsilon = -1", ("epsilon", "-1")),
        ("SET session epsilon = 2", ("epsilon", "2")),
        ("SET epsilon = DEFAULT", ("epsilon", None)),
        ("RESET /* now */ delta;", ("delta", None)),
        ("SELECT 1 AS reset", None),
        ("SELECT 'SET epsilon = 1'", None),
        ("SET '", None),
        ("", None),
    ],
)
def test_settings_are_told_apart(text: str, setting: tuple[str, str | None] | None) -> None:
    found = read_setting(text)
    assert (None if found is None else (found.name, found.value)) == setting


@pytest.mark.parametrize(
    "text",
    [
        "SET", "RESET", "SET epsilon", "SET epsilon = ", "SET epsilon 0.5", "SET epsilon = 1 2",
        "SET epsilon = 1; SELECT 1", "RESET epsilon delta", "SET threads = 4", "SET epsilno = 1",
        "RESET ALL", "SET GLOBAL epsilon = 1", "SET epsilon = x", "SET epsilon = (SELECT 1)",
    ],
)  # fmt: skip
def test_settings_that_are_written_wrong_say_how(text: str) -> None:
    with pytest.raises(QueryError) as caught:
        read_setting(text)
    assert "SET " in str(caught.value.hint)
