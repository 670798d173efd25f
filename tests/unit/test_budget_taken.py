"""What EXPLAIN says of a statement and a budget is what the budget then does."""

from __future__ import annotations

import pytest
from budget_cases import UNIT, budget, gaussian, laplace, selection, statement

from dp_sql.budget import open_ledger
from dp_sql.errors import BudgetExceededError
from dp_sql.privacy.cost import Cost
from dp_sql.schema.catalog import AccountantKind


@pytest.mark.parametrize(
    ("kind", "cost", "said"),
    [
        (
            AccountantKind.PURE,
            laplace("0.25"),
            "takes epsilon 0.25 (25 %); 3 like it fit",
        ),
        (
            AccountantKind.SEQUENTIAL,
            selection("0.25", "1e-7"),
            "takes epsilon 0.25 (25 %), delta 1e-07 (5 %); 3 like it fit",
        ),
        (
            AccountantKind.RENYI,
            gaussian(64),
            "takes epsilon closed by it, Rényi 0.00268366 (0.501 %); 118 like it fit",
        ),
    ],
)
def test_a_statement_says_what_it_would_take_and_how_often_it_fits(
    kind: AccountantKind, cost: Cost, said: str
) -> None:
    with open_ledger(":memory:") as ledger:
        ledger.register("a", "a", UNIT, budget("1", "2e-6", kind))
        ledger.reserve(statement(), {"a": laplace("0.25")})
        assert ledger.state("a").taken(cost) == said
        fitting = int(said.split("; ")[1].split(maxsplit=1)[0])
        for _ in range(fitting):
            ledger.reserve(statement(), {"a": cost})
        with pytest.raises(BudgetExceededError):
            ledger.reserve(statement(), {"a": cost})
