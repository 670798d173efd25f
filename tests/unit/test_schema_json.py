"""The JSON Schema that editors use: current, and with a word on every key."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from dp_sql.schema.models import json_schema, json_schema_text

FILE = Path(__file__).parents[2] / "schemas" / "dp_sql.schema.json"

KEYS = {  # every key of a schema file, by the place it has
    "SchemaFile": "version database privacy tables ledger sampler mechanisms worker answer_time",
    "Privacy": "level adjacency group_size unit defaults caps consistent radius budget",
    "Amounts": "epsilon delta",
    "Table": "source id owner public unique budget limits columns data_version round_counts",
    "Through": "through on",
    "Budget": "epsilon delta accountant blocks per_analyst renew selection_delta",
    "Limits": "max_groups max_rows_per_group min_units_per_group",
    "Column": "type bounds values unique nullable protected max_length max_frequency "
    "constant_per_unit immutable latitude longitude",
    "Mechanisms": "noise quantiles mode keys",
    "Worker": "memory seconds cpu_seconds in_process",
}


def _objects(schema: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {"SchemaFile": schema, **schema["$defs"]}


def test_the_file_is_current(update_golden: bool) -> None:  # noqa: FBT001 -- a fixture
    if update_golden:
        FILE.write_text(json_schema_text(), encoding="utf-8")
    assert FILE.read_text(encoding="utf-8") == json_schema_text()


def test_it_has_every_key_and_no_other() -> None:
    found = {name: set(each["properties"]) for name, each in _objects(json_schema()).items()}
    assert found == {name: set(keys.split()) for name, keys in KEYS.items()}


def test_every_key_is_described_and_unknown_ones_are_errors() -> None:
    for name, each in _objects(json_schema()).items():
        assert each["additionalProperties"] is False
        for key, inner in each["properties"].items():
            description = inner.get("description", "")
            assert len(description) > 15, (name, key)
            assert description.endswith("."), (name, key)


def test_no_key_may_be_null() -> None:
    assert '"null"' not in json.dumps(json_schema())
