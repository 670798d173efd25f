"""Whatever stands in a schema file, `load` gives a catalog or a SchemaError, nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schema_texts import SHOP

from dp_sql.errors import DPSQLError, SchemaError
from dp_sql.schema.catalog import Catalog
from dp_sql.schema.loader import load

WORDS = sorted(set(re.findall(r"[\w./-]+", SHOP)))
VALUES = [  # each a value of its own, wherever a word stands
    *("''", "~", "null", "true", "NO", "{}", "[]", "{a: 1}", "[1, 2]", "[[x]]", "{epsilon: 1}"),
    *("0", "-1", "1e-9", "1e999", "1e-999", ".inf", "-.inf", ".nan", "9" * 40, "9" * 400, "0x1F"),
    *("2020-01-01", "2020-02-30", "9999-12-31 23:59:59.999999", "0001-01-01", "1_000", "1.0", "5."),
    *("é", "\U0001f600", '"\\ud800"', '"\\0"', '"\\U00110000"', '"%s"', "{0}", "x" * 300),
    *('"decimal(12,2)"', '"decimal(38,38)"', "hugeint", "uuid", "time", "real", "timestamp"),
    *("ORDERS", "items", "event", "pure", "sequential", "metric", "../x.csv", "rowid", "<<"),
]
BREAKS = [  # what the syntax may trip over
    *("", "- x", "? x", "'x", '"', "\t", "&a x", "*a", "!!str x", "---", "...", "%YAML 1.1", "#"),
    *(
        ": ",
        "|",
        ">",
        "@",
        "`",
        "\u2028",
        "\x07",
        "\ufeff",
        "decimal(12,2)",
        "a: b",
        "\r",
        "{",
        "]",
    ),
]
TOKENS = re.findall(r"[\w./-]+|[^\w\s]|\n +|\s", SHOP)
PLACES = [i for i, token in enumerate(TOKENS) if re.match(r"\w", token)]


@st.composite
def mutated(draw: st.DrawFn) -> str:
    """A valid schema in which words are other words and values, sometimes with broken syntax."""
    tokens = list(TOKENS)
    places = draw(st.lists(st.sampled_from(PLACES), min_size=1, max_size=4))
    for place in places:
        tokens[place] = draw(st.sampled_from(VALUES) | st.sampled_from(WORDS))
    if draw(st.integers(0, 3)) == 0:
        at = draw(st.integers(0, len(tokens) - 1))
        tokens[at] = draw(st.sampled_from(BREAKS) | st.text(max_size=6))
    if draw(st.integers(0, 3)) == 0:
        at, other = draw(st.sampled_from(PLACES)), draw(st.sampled_from(PLACES))
        tokens[at], tokens[other] = tokens[other], tokens[at]
    return "".join(tokens)


def _outcome(content: bytes, folder: Path) -> Catalog | SchemaError:
    file = folder / "fuzz.yaml"
    file.write_bytes(content)
    try:
        found = load(file)
    except SchemaError as error:
        found_error = error
    else:
        return found
    text = str(found_error)
    assert text.startswith((str(file), f"The schema file '{file}'"))
    text.encode()  # a message that can be printed
    assert isinstance(found_error, DPSQLError)
    assert found_error.__cause__ is None
    return found_error


def test_the_text_that_is_mutated_is_valid(tmp_path: Path) -> None:
    assert "".join(TOKENS) == SHOP
    assert isinstance(_outcome(SHOP.encode(), tmp_path), Catalog)


FUZZ = settings(
    max_examples=250,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@FUZZ
@given(text=mutated())
def test_mutated_schemas_load_or_are_refused(tmp_path: Path, text: str) -> None:
    _outcome(text.encode("utf-8", "surrogatepass"), tmp_path)


@pytest.mark.slow
@settings(FUZZ, max_examples=2000)
@given(text=mutated())
def test_many_mutated_schemas_load_or_are_refused(tmp_path: Path, text: str) -> None:
    _outcome(text.encode("utf-8", "surrogatepass"), tmp_path)


@settings(FUZZ, max_examples=200)
@given(content=st.binary(max_size=60) | st.text(max_size=60).map(str.encode))
def test_any_bytes_load_or_are_refused(tmp_path: Path, content: bytes) -> None:
    assert isinstance(_outcome(content, tmp_path), SchemaError)
