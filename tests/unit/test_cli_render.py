from __future__ import annotations

import csv
import io
import json
from datetime import date

import pytest
from cli_fakes import answer

from dp_sql.cli.render import Format, render
from dp_sql.result import Result


def mixed() -> Result:
    return answer(
        ["day", "n", "mean", "note"],
        ["DATE", "BIGINT", "DOUBLE", "VARCHAR"],
        [(date(1997, 1, 1), 12, 35.893724, 'a,"b"'), (None, -3, None, "")],
        [(None, (9.0, 15.0), (35.393724, 36.393724), None), (None, (-6.0, 0.0), None, None)],
    )


def test_a_table_has_intervals_beside_numbers_and_none_beside_keys() -> None:
    text = render(mixed(), Format.TABLE)
    lines = text.splitlines()
    assert [cell.strip() for cell in lines[1].strip("│").split("│")] == ["day", "n", "mean", "note"]
    assert [cell.strip() for cell in lines[3].strip("│").split("│")] == [
        "1997-01-01",
        "12 ± 3",
        "35.89 ± 0.50",
        'a,"b"',
    ]
    assert [cell.strip() for cell in lines[4].strip("│").split("│")] == [
        "NULL",
        "-3 ± 3",
        "NULL",
        "",
    ]
    assert len({len(line) for line in lines}) == 1


def test_a_table_without_intervals_has_every_digit() -> None:
    text = render(mixed(), Format.TABLE, intervals=False)
    assert "35.893724" in text
    assert "±" not in text


def test_a_long_table_has_no_intervals() -> None:
    rows = [(i,) for i in range(1001)]
    long = answer(["n"], ["BIGINT"], rows, [((0.0, 1.0),)] * 1001)
    assert "±" not in render(long, Format.TABLE)
    assert "[" in render(
        answer(["n"], ["BIGINT"], rows[2:1002], [((0.0, 9.9),)] * 999), Format.TABLE
    )


def test_a_wide_table_is_folded_to_the_terminal_and_whole_elsewhere() -> None:
    wide = answer(["text"], ["VARCHAR"], [("x" * 300,)])
    assert "x" * 300 in render(wide, Format.TABLE)
    folded = render(wide, Format.TABLE, width=40)
    assert max(map(len, folded.splitlines())) == 40
    assert folded.count("x") == 300 + "text".count("x")


def test_narrow_columns_stay_whole_when_a_wide_one_is_folded() -> None:
    both = answer(["key", "text"], ["VARCHAR", "VARCHAR"], [("abcdefghij", "漢" * 30)])
    lines = render(both, Format.TABLE, width=40).splitlines()
    assert "│ abcdefghij │" in lines[3]
    assert [line.count("漢") for line in lines[3:6]] == [11, 11, 8]  # two columns each, 23 in all


def test_more_columns_than_a_terminal_holds_stay_readable() -> None:
    many = answer([f"c{i}" for i in range(40)], ["BIGINT"] * 40, [tuple(range(40))])
    assert "c39" in render(many, Format.TABLE, width=20)


def test_a_table_without_rows_shows_its_columns() -> None:
    assert "note" in render(answer(["note"], ["VARCHAR"], []), Format.TABLE)


def test_markup_and_control_characters_are_only_text() -> None:
    text = render(answer(["[red]a"], ["VARCHAR"], [("[bold]\x1b[2J:smile:",)]), Format.TABLE)
    assert "[red]a" in text
    assert "[bold]\\x1b[2J:smile:" in text


def test_csv_is_read_back_as_it_was() -> None:
    text = render(mixed(), Format.CSV)
    assert list(csv.reader(io.StringIO(text))) == [
        ["day", "n", "mean", "note"],
        ["1997-01-01", "12", "35.893724", 'a,"b"'],
        ["", "-3", "", ""],
    ]
    assert text.endswith(',-3,,""\n')  # NULL is nothing, an empty text is quoted


def test_json_is_read_back_as_it_was() -> None:
    assert json.loads(render(mixed(), Format.JSON)) == [
        {"day": "1997-01-01", "n": 12, "mean": 35.893724, "note": 'a,"b"'},
        {"day": None, "n": -3, "mean": None, "note": ""},
    ]
    assert render(answer(["a"], ["BIGINT"], []), Format.JSON) == "[]\n"


def test_json_keeps_columns_that_share_a_name() -> None:
    twice = answer(["n", "n", "n_1", "n"], ["BIGINT"] * 4, [(1, 2, 3, 4)])
    assert json.loads(render(twice, Format.JSON)) == [{"n": 1, "n_1": 2, "n_1_1": 3, "n_2": 4}]


def test_markdown() -> None:
    text = render(answer(["a|b", "n"], ["VARCHAR", "BIGINT"], [("x\ny|", 1)]), Format.MARKDOWN)
    assert text == "| a\\|b | n |\n| --- | ---: |\n| x\\\\ny\\| | 1 |\n"


@pytest.mark.parametrize("form", list(Format))
def test_every_format_ends_with_a_line_break(form: Format) -> None:
    assert render(mixed(), form).endswith("\n")
