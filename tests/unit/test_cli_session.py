from __future__ import annotations

import io
import os
import signal
import threading
from fractions import Fraction
from typing import Any, NoReturn

import pytest
from cli_fakes import FakeConnection, answer, count_of

from dp_sql.amounts import Amounts
from dp_sql.cli.session import Session
from dp_sql.errors import BudgetExceededError, EngineError, LedgerError, QueryError
from dp_sql.result import Result

COUNT = "SELECT COUNT(*) FROM purchases"


def session_of(connection: Any) -> tuple[Session, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Session(connection, out=out, err=err), out, err


def talk(text: str, connection: FakeConnection | None = None) -> tuple[str, str, Session]:
    session, out, err = session_of(connection or FakeConnection())
    session.run(session.submit(text))
    return out.getvalue(), err.getvalue(), session


def test_an_answer_shows_value_interval_cost_and_what_is_left() -> None:
    out, err, session = talk(f"{COUNT};")
    assert "count_star()" in out
    assert "123 ± 4" in out
    assert out.endswith(
        "Cost to purchases: epsilon 0.1. Left: epsilon 9.9 of 10; 99 more like this.\n"
    )
    assert err == ""
    assert not session.failed


def test_statements_run_in_order_and_the_last_needs_no_semicolon() -> None:
    connection = FakeConnection()
    talk("SELECT 1; -- one\nSELECT\n 2", connection)
    assert [sql for sql, _, _ in connection.asked] == ["SELECT 1", "SELECT\n 2"]


def test_what_is_not_finished_is_handed_back() -> None:
    session, out, _ = session_of(FakeConnection())
    assert session.submit("SELECT 1; SELECT 'a;") == "SELECT 'a;"
    assert session.submit("  -- nothing\n ; ;") == ""
    assert out.getvalue().count("count_star()") == 1


@pytest.mark.parametrize(
    ("first", "second", "reset"),
    [
        ("\\set epsilon 0.5\n", "\\set delta = 1e-8\n", "\\set epsilon default\n"),
        ("SET epsilon = 0.5;", "set delta to '1e-8';", "RESET epsilon;"),
        ("\\set epsilon 9\nSET epsilon = 0.5;", "SET delta = 1e-8;", "SET epsilon = DEFAULT;"),
    ],
)
def test_set_changes_epsilon_and_delta_of_the_session(first: str, second: str, reset: str) -> None:
    connection = FakeConnection()
    session, out, err = session_of(connection)
    session.submit(first + second)
    assert connection.session == Amounts(Fraction(1, 2), Fraction(1, 10**8)), err.getvalue()
    session.submit(reset)
    assert connection.session == Amounts(None, Fraction(1, 10**8))
    session.submit(f"{COUNT};")
    assert connection.asked == [(COUNT, None, None)]
    assert out.getvalue().startswith("╭")  # a SET prints nothing


def test_set_alone_shows_every_setting() -> None:
    out, _, _ = talk("\\set epsilon 0.5\n\\set\n")
    assert out.splitlines() == [
        "epsilon    0.5",
        "delta      1e-09 (the schema's default)",
        "format     table",
        "intervals  on",
    ]


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("\\set epsilon 0", "epsilon must be above zero"),
        ("\\set epsilon -1", "epsilon must be above zero"),
        ("\\set epsilon nan", "isn't how a setting is changed"),
        ("\\set epsilon inf", "isn't how a setting is changed"),
        ("\\set epsilon lots", "isn't how a setting is changed"),
        ("\\set delta 1", "below 1"),
        ("\\set epsilon", "epsilon needs a value"),
        ("\\set color red", "no setting 'color'"),
        ("\\set intervals maybe", "on or off"),
        ("\\format xml", "no format 'xml'"),
        ("\\set format xml", "no format 'xml'"),
        ("\\d nothing", "no table 'nothing'"),
        ("\\dance", "no command \\dance"),
        ("\\explain", "no statement"),
    ],
)
def test_a_wrong_command_says_what_is_wrong_and_changes_nothing(command: str, message: str) -> None:
    connection = FakeConnection()
    session, out, err = session_of(connection)
    before = session.settings
    session.submit(command)
    assert message in err.getvalue()
    assert err.getvalue().startswith("Error (")
    assert out.getvalue() == ""
    assert session.settings == before
    assert connection.session == Amounts()
    assert session.failed
    assert connection.asked == []


def test_formats() -> None:
    out, _, _ = talk(f"\\format csv\n\\format\n{COUNT};")
    assert out.splitlines()[:3] == ["csv", "count_star()", "123"]
    out, _, _ = talk(f"\\set format json\n{COUNT};")
    assert out.splitlines()[0] == '[{"count_star()": 123}]'


def test_intervals_can_be_switched_off() -> None:
    out, _, _ = talk(f"\\set intervals off\n{COUNT};")
    assert "123" in out
    assert "±" not in out


def test_describe_lists_tables_and_columns_without_asking_anything() -> None:
    connection = FakeConnection()
    out, _, _ = talk("\\d\n\\d PURCHASES;\n", connection)
    for text in ("protected", "customer_id", "epsilon 10, delta 1e-06 (renyi)"):
        assert text in out
    for text in ("BIGINT", "1997-01-01 to 1998-06-30", "never NULL", "everything of one customer"):
        assert text in out
    assert connection.asked == []


def test_help_lists_every_command() -> None:
    out, _, _ = talk("\\?\n")
    for command in ("\\?", "\\d", "\\budget", "\\explain", "\\set", "\\format", "\\q"):
        assert f"\n{command} " in "\n" + out


def test_budget_and_explain() -> None:
    out, _, _ = talk(f"\\budget\n\\set epsilon 0.5\n\\explain {COUNT};\n")
    assert out == (f"purchases\n  epsilon: 1 % used, 9.9 left\nexplained {COUNT} at None, None\n")


def test_quit_runs_nothing_more() -> None:
    connection = FakeConnection()
    _, _, session = talk("SELECT 1;\n\\q\nSELECT 2;", connection)
    assert session.ended
    assert [sql for sql, _, _ in connection.asked] == ["SELECT 1"]


def test_an_error_is_one_message_and_the_session_goes_on() -> None:
    def fails_once(sql: str) -> Result:
        if "wrong" in sql:
            raise QueryError("there is no column 'wrong'.", hint="dollars")
        return count_of(7)

    out, err, session = talk("SELECT wrong; SELECT 1;", FakeConnection(fails_once))
    assert err == "Error (query): there is no column 'wrong'.\nInstead: dollars\n"
    assert "7 ± 4" in out
    assert session.failed


def test_a_refusal_of_the_budget_is_shown() -> None:
    def refuses(_sql: str) -> Result:
        raise BudgetExceededError("nothing is left.")

    _, err, _ = talk("SELECT 1", FakeConnection(refuses))
    assert err == "Error (budget_exceeded): nothing is left.\n"


def test_a_bug_shows_its_place_but_never_its_text() -> None:
    def breaks(_sql: str) -> Result:
        raise ValueError("row 17 holds Jane Roe")

    _, err, session = talk("SELECT 1", FakeConnection(breaks))
    assert "Jane" not in err
    assert "Traceback" not in err
    assert "ValueError at " in err
    assert "test_cli_session.py" in err
    assert session.failed


def test_an_answer_whose_intervals_fail_is_shown_without_them() -> None:
    result = count_of(123)

    def no_intervals(level: float = 0.95) -> list[Any]:
        raise EngineError(f"no {level}")

    result.intervals = no_intervals  # type: ignore[method-assign]
    out, err, _ = talk("SELECT 1", FakeConnection(lambda _sql: result))
    assert "123" in out
    assert "Cost to purchases" in out
    assert err == ""


def test_an_answer_is_shown_even_where_the_ledger_fails_after_it() -> None:
    connection = FakeConnection()

    def no_ledger() -> NoReturn:
        raise LedgerError("the ledger is locked.")

    connection.budget = no_ledger  # type: ignore[method-assign]
    out, err, _ = talk("SELECT 1", connection)
    assert "123 ± 4" in out
    assert out.endswith("Cost to purchases: epsilon 0.1.\n")
    assert err == ""


def test_a_free_answer_shows_no_cost() -> None:
    free = answer(["x"], ["INTEGER"], [(1,)])
    out, _, _ = talk("SELECT 1 AS x", FakeConnection(lambda _sql: free))
    assert "Cost" not in out


def test_explain_is_printed_as_lines() -> None:
    plan = answer(["explain"], ["VARCHAR"], [("Protects",), ("  owner",)])
    out, _, _ = talk(f"EXPLAIN {COUNT}", FakeConnection(lambda _sql: plan))
    assert out == "Protects\n  owner\n"


def test_ctrl_c_interrupts_the_statement_and_drops_those_behind_it() -> None:
    connection = FakeConnection()

    def waits(_sql: str) -> Result:
        os.kill(os.getpid(), signal.SIGINT)
        assert connection.interrupted.wait(5)
        raise EngineError("the statement was stopped; it stays charged.")

    connection.on_sql = waits
    session, _, _ = session_of(connection)
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        session.submit("SELECT 1; SELECT 2;")
    assert len(connection.asked) == 1
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_that_comes_too_late_does_not_lose_the_answer() -> None:
    connection = FakeConnection()

    def answers_anyway(_sql: str) -> Result:
        os.kill(os.getpid(), signal.SIGINT)
        assert connection.interrupted.wait(5)
        return count_of(123)

    connection.on_sql = answers_anyway
    out, _, _ = talk("SELECT 1", connection)
    assert "123" in out
    assert "Cost to purchases" in out


def test_statements_run_beside_the_main_thread() -> None:
    threads = []

    def notes(_sql: str) -> Result:
        threads.append(threading.current_thread())
        return count_of(1)

    talk("SELECT 1", FakeConnection(notes))
    assert threads[0] is not threading.main_thread()
