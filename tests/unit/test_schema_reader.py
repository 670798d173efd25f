"""Files and YAML that a schema may not be: each one clear SchemaError, at its place."""

from __future__ import annotations

import os
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pytest
from schema_texts import SHOP, changed, error_of, load_text

from dp_sql.errors import SchemaError
from dp_sql.schema.document import Problem
from dp_sql.schema.loader import load
from dp_sql.schema.reader import MAX_BYTES, meaning, parse


def _load_error(path: object) -> str:
    with pytest.raises(SchemaError) as caught:
        load(path)  # type: ignore[arg-type]
    return str(caught.value)


def test_files_that_can_not_be_read(tmp_path: Path) -> None:
    assert "There is no schema file" in _load_error(tmp_path / "none.yaml")
    assert "is a folder" in _load_error(tmp_path)
    assert "can't be read" in _load_error("a\0b")
    assert "can't be read" in _load_error(tmp_path / ("x" * 5000))
    assert "must be the path of a YAML file, not a int" in _load_error(3)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert "not a plain file" in _load_error(pipe)


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied"), OSError(5, "I/O")])
def test_a_file_that_may_not_be_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP)

    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr("builtins.open", refuse)
    assert f"can't be read: {error.strerror}." in _load_error(file)


def test_bytes_paths_are_paths(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_text(SHOP)
    assert load(os.fsencode(file)).path == file  # type: ignore[arg-type]


def test_files_that_are_no_text(tmp_path: Path) -> None:
    file = tmp_path / "shop.yaml"
    file.write_bytes(b"version: 1\nledger: caf\xe9\n")
    assert "line 2: the file is not UTF-8" in _load_error(file)
    file.write_bytes(SHOP.encode("utf-16"))
    assert "not UTF-8" in _load_error(file)
    file.write_bytes(b"#" * (MAX_BYTES + 1))
    assert "larger than 1,000,000 bytes" in _load_error(file)
    file.write_bytes(b"\xef\xbb\xbf" + SHOP.encode())  # a byte order mark is no fault
    assert len(load(file).tables) == 3


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment\n", "---\n...\n"])
def test_files_with_nothing_in_them(tmp_path: Path, text: str) -> None:
    message = str(error_of(text, tmp_path))
    assert (
        "is empty" in message or "must be a mapping of keys (`key: value`), not nothing" in message
    )


REFUSED = [
    ("owner: &a customer_id", "anchors", "owner: customer_id", 14, 12),
    ("owner: *a", "anchors", "owner: customer_id", 14, 12),
    ("owner: !!str customer_id", "tags", "owner: customer_id", 14, 12),
    ("owner: ! customer_id", "tags", "owner: customer_id", 14, 12),
    ("owner: !!python/object:os.system x", "tags", "owner: customer_id", 14, 12),
    ("limits: !!map {max_groups: 4}", "tags", "limits: {max_groups: 4", 16, 13),
    ("? [a]\n    : b", "a key must be a word", "id: shop-orders", 13, 7),
    ("? {a: 1}\n    : b", "a key must be a word", "id: shop-orders", 13, 7),
    ("id: x\n    id: y", "stands here twice; it is first in line 13", "id: shop-orders", 14, 5),
    ("id: x\n\tid: y", "not valid YAML", "id: shop-orders", 14, 1),
    ('id: "\\ud800"', "no SQL text can hold", "id: shop-orders", 13, 9),
    ('id: "a\\0b"', "no SQL text can hold", "id: shop-orders", 13, 9),
    ('id: "\\U00110000"', "not valid YAML", "id: shop-orders", 13, 5),
    ('id: "\\q"', "not valid YAML", "id: shop-orders", 13, 11),
    ("id: a: b", "not valid YAML", "id: shop-orders", 13, 10),
    ("id: 'x", "not valid YAML", "id: shop-orders", None, None),
    ("id: a\x07b", "may not hold the character U+0007", "id: shop-orders", 13, 10),
    ("id: é\x7f", "may not hold the character U+007F", "id: shop-orders", 13, 10),
    ("id: " + "9" * 61, "too long", "id: shop-orders", 13, 9),
    ("id: 1e1000", "too long", "id: shop-orders", 13, 9),
    ("id: 1e" + "9" * 5000, "too long", "id: shop-orders", 13, 9),
    ("id: " + "9" * 5000, "too long", "id: shop-orders", 13, 9),
    ("id: " + "[" * 50, "nested 16 deep", "id: shop-orders", 13, 22),
    ("id: " + "{a: " * 50, "nested 16 deep", "id: shop-orders", 13, 61),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0][:30])
def test_yaml_that_no_schema_needs(
    tmp_path: Path, case: tuple[str, str, str, int | None, int | None]
) -> None:
    new, message, old, line, column = case
    error = error_of(changed(SHOP, (old, new)), tmp_path)
    assert message in str(error)
    assert str(tmp_path / "shop.yaml") in str(error)
    assert error.position is not None
    if line is not None:
        assert (error.position.line, error.position.column) == (line, column)


def test_an_alias_bomb_does_not_expand(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 30)]
    error = error_of("\n".join(lines), tmp_path)
    assert "anchors" in str(error)
    assert error.position is not None
    assert error.position.line == 1


def test_documents_and_directives(tmp_path: Path) -> None:
    assert "one document" in str(error_of(SHOP + "---\nversion: 1\n", tmp_path))
    assert "YAML 1.2" in str(error_of("%YAML 1.1\n---\n" + SHOP, tmp_path))
    assert "not valid YAML" in str(error_of("%YAML 1.7\n---\n" + SHOP, tmp_path))
    assert len(load_text("%YAML 1.2\n---\n" + SHOP + "...\n", tmp_path).tables) == 3


def test_hostile_but_small_files_are_refused_quickly(tmp_path: Path) -> None:
    for text in ("- " * 200_000, "? " * 200_000, "[" * 900_000, "{" * 900_000, "!" * 30_000):
        error_of(text, tmp_path)


def test_the_number_of_keys_and_values_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dp_sql.schema.reader.MAX_NODES", 20)
    assert "at most 20 keys and values" in str(error_of(SHOP, tmp_path))


@pytest.mark.parametrize("type_", ["decimal(12,2)", "decimal(12, 2)", "DECIMAL (12,2 )"])
def test_a_decimal_without_quotes_in_braces_has_its_own_message(tmp_path: Path, type_: str) -> None:
    error = error_of(changed(SHOP, ('"decimal(12,2)"', type_)), tmp_path)
    assert "inside braces the comma of" in str(error)
    assert error.hint is not None
    assert 'put the type in quotes: type: "' in error.hint
    assert error.position is not None
    assert (error.position.line, error.position.column) == (29, 21)


def test_a_decimal_without_quotes_on_its_own_line_is_fine(tmp_path: Path) -> None:
    block = "price:\n        type: decimal(12,2)\n        bounds: [0, 500]"
    text = changed(
        SHOP, ('price: {type: "decimal(12,2)", bounds: [0, 500], nullable: false}', block)
    )
    assert str(load_text(text, tmp_path).tables["items"].columns["price"].type) == "DECIMAL(12,2)"


MEANINGS: list[tuple[str, object]] = [
    ("NO", "NO"),
    ("yes", "yes"),
    ("on", "on"),
    ("False", False),
    ("true", True),
    ("", None),
    ("~", None),
    ("null", None),
    ("None", "None"),
    ("007", 7),
    ("-5", -5),
    ("0x1F", 31),
    ("0o17", 15),
    ("1_000", "1_000"),
    ("12:30", "12:30"),
    ("0.1", Decimal("0.1")),
    ("1e-9", Decimal("1e-9")),
    ("1E5", Decimal("1E5")),
    (".5", Decimal("0.5")),
    ("5.", Decimal(5)),
    ("-.inf", Decimal("-Infinity")),
    ("inf", "inf"),
    ("50000+.", "50000+."),
    ("2020-01-31", date(2020, 1, 31)),
    ("2020-02-31", "2020-02-31"),
    ("2020-01-31 23:59:59.5", datetime(2020, 1, 31, 23, 59, 59, 500000)),  # noqa: DTZ001
    ("2020-01-31T00:00:00", datetime(2020, 1, 31)),  # noqa: DTZ001
    ("2020-01-31T00:00:00Z", "2020-01-31T00:00:00Z"),
    ("2020-01-31 25:00:00", "2020-01-31 25:00:00"),
    ("0000-01-01", "0000-01-01"),
]


@pytest.mark.parametrize(("text", "value"), MEANINGS)
def test_what_unquoted_words_mean(text: str, value: object) -> None:
    found = meaning(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number() -> None:
    found = meaning(".nan")
    assert isinstance(found, Decimal)
    assert found.is_nan()


def test_numbers_have_a_length_that_amounts_can_have() -> None:
    assert meaning("9" * 60) == 10**60 - 1
    assert meaning("1e999") == Decimal("1e999")
    for text in ("9" * 61, "0." + "1" * 60, "1e-1000"):
        with pytest.raises(Problem, match="too long"):
            meaning(text)


def test_places_of_keys_values_and_items() -> None:
    document = parse("a: {b: [1, xyz]}\nc:\n  - 'd'\n", "x")
    places = {
        ("a",): (1, 1, 1),
        ("a", "b"): (1, 5, 1),
        ("a", "b", 1): (1, 12, 3),
        ("a", "b", 7): (1, 5, 1),  # the nearest above
        ("c", 0): (3, 5, 3),
        ("nothing",): (1, 1, 1),
    }
    for where, (line, column, length) in places.items():
        position = document.position(where)
        assert (position.line, position.column, position.length) == (line, column, length)
    assert document.keys(("a",)) == ("b",)
    assert document.keys(("a", "b")) == ()
    assert document.keys(("z", "b")) == ()
