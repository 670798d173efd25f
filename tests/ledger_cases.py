"""Ledgers with two registered tables, and the processes that tests start beside them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from budget_cases import UNIT, budget, laplace

import dp_sql.budget
from dp_sql.budget import open_ledger
from dp_sql.budget.ledger import Ledger
from dp_sql.budget.record import StatementRecord
from dp_sql.schema.catalog import AccountantKind, BudgetSpec

ROOT = Path(dp_sql.budget.__file__).parent.parent.parent
CHILDREN = Path(__file__).parent / "contract" / "ledger_children.py"
LARGE = budget("1000000", "1e-6", AccountantKind.PURE, "0")


def new_ledger(where: str | Path, spec: BudgetSpec = LARGE) -> Ledger:
    """Return a ledger with the tables `a` and `b`, each with the budget `spec`."""
    ledger = open_ledger(where)
    for identity in ("a", "b"):
        ledger.register(identity, identity, UNIT, spec)
    return ledger


def paid_for(where: str, paid: Mapping[str, Iterable[str]], analyst: str = "ada") -> Ledger:
    """Return a ledger at `where` with statements, by query id, that cost the tables they are given with."""
    ledger = open_ledger(where)
    for identity in {identity for identities in paid.values() for identity in identities}:
        ledger.register(identity, identity, UNIT, LARGE)
    for query_id, identities in paid.items():
        asked = StatementRecord(query_id, analyst, "SELECT 1")
        ledger.reserve(asked, {identity: laplace("0.5") for identity in identities})
    return ledger


def run_children(command: str, *arguments: object, timeout: float = 120) -> Any:
    """Run a command of ledger_children.py in a process of its own and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(CHILDREN), command, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def change(ledger: Ledger, statement: str) -> int:
    """Run a statement in a writing transaction of a ledger; return how many rows it changed."""
    with ledger._store.transaction(write=True) as transaction:
        return transaction.execute(statement).rowcount
