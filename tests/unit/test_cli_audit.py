"""`dpsql audit`: the table, the exit status, and that neither the data nor the ledger is looked at."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pytest

from dp_sql.audit.run import Finding
from dp_sql.audit.trials import trials
from dp_sql.cli import audits
from dp_sql.cli.main import main
from dp_sql.schema.loader import load

SCHEMA = """
version: 1
database: duckdb:///there_is_no_such.duckdb
privacy: {level: event}
tables:
  t:
    budget: {epsilon: 1, delta: 0.001}
    columns: {x: {type: integer, bounds: [0, 3]}, d: {type: date}}
"""


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "schema.yaml"
    path.write_text(SCHEMA, encoding="utf-8")
    return path


def status(*words: str) -> object:
    with pytest.raises(SystemExit) as left:
        main(list(words))
    return left.value.code


def test_no_data_is_needed_and_no_ledger_is_made(
    schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("audit", str(schema), "--mechanism", "count:laplace", "--runs", "100") == 0
    shown = capsys.readouterr().out
    assert "│ t     │ count:laplace │ COUNT(*)  │" in shown
    assert "epsilon 1" in shown
    assert "kept" in shown
    assert sorted(p.name for p in schema.parent.iterdir()) == ["schema.yaml"]


def test_a_bound_above_its_claim_ends_with_1_and_is_named(
    schema: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third, *_ = trials(load(schema))
    findings = [
        Finding(first, Fraction(1), Fraction(0), 1.25, 500),
        Finding(second, Fraction(1), Fraction(1, 50), -0.5, 500),
        Finding(third, Fraction(0), Fraction(0), None, 0, "it needs a delta."),
    ]
    monkeypatch.setattr(audits, "audit", lambda *_, **__: iter(findings))
    assert status("audit", str(schema)) == 1
    shown = capsys.readouterr().out
    assert "1.250" in shown
    assert shown.count("BROKEN") == 1
    assert "0.000" in shown
    assert "delta 0.02" in shown
    assert "not answered: it needs a delta." in shown
    assert "1 of 3 mechanisms tell more than they claim." in shown
    assert not replace(findings[0], bound=1.0).broken


@pytest.mark.parametrize(
    "words", [("--epsilon", "0"), ("--epsilon", "x"), ("--runs", "1"), ("--mechanism", "none")]
)
def test_what_cannot_be_audited_is_an_error(
    words: tuple[str, str], schema: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert status("audit", str(schema), *words) == 1
    assert "Error" in capsys.readouterr().err
