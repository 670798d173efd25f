"""Who says how much a statement may spend: the call, its clauses, the session, the schema."""

from __future__ import annotations

from fractions import Fraction

import pytest
from small_catalog import CATALOG

from dp_sql.amounts import Amounts, Part, parts, read_amounts
from dp_sql.errors import ParameterError
from dp_sql.parser.statement import parse
from dp_sql.schema.catalog import PrivacyDefaults

DEFAULTS = PrivacyDefaults(Fraction(1, 10), Fraction(1, 10**9), Fraction(3), Fraction(1, 10**3))
NOBODY = Amounts()


def clause(options: str, table: str = "visits") -> str:
    return f"SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS({options}) COUNT(*) AS n FROM {table}"


def spent(
    sql: str,
    call: Amounts = NOBODY,
    session: Amounts = NOBODY,
    defaults: PrivacyDefaults = DEFAULTS,
) -> list[tuple[Fraction, Fraction]]:
    found = parts(parse(sql, CATALOG), call, session, defaults)
    assert all(isinstance(part, Part) for part in found)
    return [(part.epsilon, part.delta) for part in found]


def test_the_first_who_says_wins() -> None:
    sql = clause("epsilon = 2, delta = 1e-4")
    call, session = Amounts(Fraction(3), Fraction(0)), Amounts(Fraction(1), Fraction(1, 10**5))
    assert spent(sql, call, session) == [(3, 0)]
    assert spent(sql, NOBODY, session) == [(2, Fraction(1, 10**4))]
    assert spent("SELECT COUNT(*) FROM visits", NOBODY, session) == [(1, Fraction(1, 10**5))]
    assert spent("SELECT COUNT(*) FROM visits") == [(Fraction(1, 10), Fraction(1, 10**9))]
    assert spent(clause("epsilon = 2"), Amounts(None, Fraction(0)), session) == [(2, 0)]


def test_a_session_without_delta_is_not_one_with_delta_zero() -> None:
    sql = "SELECT COUNT(*) FROM visits"
    assert spent(sql, session=Amounts(None, Fraction(0)))[0][1] == 0
    assert spent(sql, session=NOBODY)[0][1] == Fraction(1, 10**9)
    assert spent(sql, defaults=PrivacyDefaults(Fraction(1), None, None, None)) == [(1, 0)]


def test_releases_share_evenly_what_is_said_for_them_together() -> None:
    two = "SELECT COUNT(*) * (SELECT COUNT(*) FROM users) FROM visits"
    assert [e for e, _ in spent(two, Amounts(Fraction(1)))] == [Fraction(1, 2)] * 2
    under_one = two.replace("SELECT", "SELECT WITH DIFFERENTIAL_PRIVACY OPTIONS(epsilon = 2)", 1)
    assert [e for e, _ in spent(under_one)] == [1, 1]
    apart = f"{clause('epsilon = 2')} UNION ALL {clause('epsilon = 1', 'users')}"
    assert [e for e, _ in spent(apart)] == [2, 1]
    equal = f"{clause('epsilon = 1')} UNION ALL {clause('epsilon = 1', 'users')}"
    assert [e for e, _ in spent(equal)] == [1, 1]
    mixed = f"{clause('epsilon = 2')} UNION ALL ({two})"
    assert [e for e, _ in spent(mixed)] == [2, Fraction(1, 20), Fraction(1, 20)]


@pytest.mark.parametrize(
    ("sql", "name"),
    [
        (clause("epsilon = 3.001"), "epsilon 3.001"),
        (clause("epsilon = 1e20"), "epsilon 1e\\+20"),
        (clause("epsilon = 1, delta = .01"), "delta 0.01"),
        (f"{clause('epsilon = 2')} UNION ALL {clause('epsilon = 2')}", "epsilon 4"),
        (f"{clause('epsilon = 3')} UNION ALL SELECT COUNT(*) FROM users", "epsilon 3.1"),
    ],
)
def test_a_whole_statement_stays_below_the_cap(sql: str, name: str) -> None:
    with pytest.raises(ParameterError, match=f"{name} is above the cap") as caught:
        spent(sql)
    assert caught.value.position is not None
    assert spent(sql, Amounts(Fraction(1), Fraction(0)))  # the call's are within it


def test_amounts_of_a_call_or_session_stay_below_the_cap_too() -> None:
    assert read_amounts("3", None, DEFAULTS) == Amounts(Fraction(3), None)
    for epsilon, delta in (("3.1", None), (None, "0.01"), ("0", None), (None, "1")):
        with pytest.raises(ParameterError):
            read_amounts(epsilon, delta, DEFAULTS)


def test_without_any_epsilon_a_release_is_refused_and_public_data_are_not() -> None:
    silent = PrivacyDefaults(None, None, None, None)
    with pytest.raises(ParameterError, match="needs an epsilon"):
        spent("SELECT COUNT(*) FROM visits", defaults=silent)
    assert spent("SELECT name FROM regions", defaults=silent) == []
