"""Keys and values that are known and not supported yet: refused by name, never ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from schema_texts import SHOP, changed, check_refusal, load_text

from dp_sql.errors import SchemaError

UNSUPPORTED: dict[str, tuple[str, str, str, int, int]] = {  # old, new, name, line, column
    "gdp": ("accountant: renyi", "accountant: gdp", "tables.orders.budget.accountant: gdp", 15, 51),
    "constant": (
        "max_length: 200",
        "constant_per_unit: true",
        "tables.orders.columns.note.constant_per_unit: true",
        23,
        48,
    ),
}


@pytest.mark.parametrize("case", UNSUPPORTED)
def test_what_is_not_supported_yet_is_refused_by_name(tmp_path: Path, case: str) -> None:
    old, new, name, line, column = UNSUPPORTED[case]
    message = f"{name} is not supported yet."
    error = check_refusal(tmp_path, (old, new), message, (line, column))
    assert error.hint is not None
    assert error.hint.startswith(("remove it", "use "))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("accountant: renyi", "renew: never"),
        ("max_length: 200", "constant_per_unit: false"),
    ],
)
def test_the_values_that_mean_nothing_new_are_fine(tmp_path: Path, old: str, new: str) -> None:
    assert len(load_text(changed(SHOP, (old, new)), tmp_path).tables) == 3


def test_gdp_is_refused_with_its_reason(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as caught:
        load_text(changed(SHOP, ("accountant: renyi", "accountant: gdp")), tmp_path)
    assert caught.value.hint is not None
    assert "is not proved" in caught.value.hint
