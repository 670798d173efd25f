"""What an engine takes from its worker: numbers and texts, and nothing that runs."""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from dp_sql.errors import EngineError
from dp_sql.executor import spawn, wire
from dp_sql.executor.sources import locate
from dp_sql.executor.worker import EXCEEDED, WorkerDatabase
from dp_sql.plan.release import Residual
from dp_sql.postprocess.processor import exceeded
from dp_sql.postprocess.worker import WorkerPostProcessor
from dp_sql.schema.loader import load

SCHEMA = """\
version: 1
database: duckdb://
privacy: {level: event}
tables: {a: {source: a.csv, public: true, columns: {x: {type: integer}}}}
"""


class Fake:
    """A worker that has been taken over: it says what it wants."""

    number, runs = 0, True

    def __init__(self, said: bytes) -> None:
        self.requests = io.BytesIO()
        self.answers = io.BytesIO(said)

    def kill(self) -> None:
        """Do as if it had ended."""

    end = kill


class Evil:
    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return os.putenv, ("DPSQL_EVIL", "1")


def frame(message: object, *blobs: bytes) -> bytes:
    text = json.dumps(message).encode()
    return len(text).to_bytes(8, "big") + text + b"".join(blobs)


SAID = [
    b"",
    b"\x00",
    pickle.dumps(Evil()),
    len(pickle.dumps(Evil())).to_bytes(8, "big") + pickle.dumps(Evil()),
    (2**62).to_bytes(8, "big") + b"x",
    (100).to_bytes(8, "big") + b"{",
    frame([]),
    frame({}),
    frame({"sizes": []}),
    frame({"sizes": ["x"]}),
    frame({"sizes": [-1], "count": 1, "columns": [None]}),
    frame({"sizes": [8], "count": 1, "columns": [None]}, b"1234"),
    frame({"sizes": [7], "count": 1, "columns": [None]}, b"1234567"),
    frame({"sizes": [], "count": 1, "columns": [None]}),
    frame({"sizes": [], "count": 2, "columns": [[1]]}),
    frame({"sizes": [], "count": 1, "columns": [[[1]]]}),
    frame({"sizes": [], "count": 1, "columns": [[{"a": 1}]]}),
    frame({"sizes": [], "count": 1, "columns": [[{"$date": "alice"}]]}),
    frame({"sizes": [], "count": 1, "columns": [[{"$decimal": {}}]]}),
    frame({"sizes": [], "count": 1, "columns": 5}),
    (200_000).to_bytes(8, "big") + b"[" * 200_000,
]


@pytest.mark.parametrize("said", SAID, ids=range(len(SAID)))
def test_a_worker_that_was_taken_over_runs_nothing_here(
    said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It opened the data, and answers the first statement with something else."""
    fake = Fake(frame({"sizes": [], "confined": []}) + said)
    monkeypatch.setattr(spawn, "take", lambda _: fake)
    (tmp_path / "a.csv").write_text("x\n1\n", encoding="utf-8")
    (tmp_path / "s.yaml").write_text(SCHEMA, encoding="utf-8")
    catalog = load(tmp_path / "s.yaml")
    database = WorkerDatabase(catalog, locate(catalog, None, None), catalog.worker)
    with pytest.raises(EngineError) as caught:
        database.rows("SELECT 1")
    assert str(caught.value) == EXCEEDED
    assert fake.requests.getvalue().count(b"SELECT 1") == 1  # never sent again
    database.close()
    assert "DPSQL_EVIL" not in subprocess.check_output(["/usr/bin/env"], text=True)


NAMED = {"sizes": [8], "names": ["a"], "types": ["b"], "count": 1}
ABOVE = [
    *SAID,
    frame({**NAMED, "columns": []}, b"12345678"),
    frame({**NAMED, "columns": [["x"], ["y"]]}, b"12345678"),
    frame({**NAMED, "columns": ["<f8"]}, b"12345678"),
    frame({**NAMED, "sizes": [16], "columns": [["x"]]}, b"1234567812345678"),
    frame({**NAMED, "columns": [[{"$zoned": ["2020-01-01", "../../etc/passwd"]}]]}, b"12345678"),
    frame({**NAMED, "columns": [[{"$map": [[{"$list": []}, 1]]}]]}, b"12345678"),
    frame(
        {"sizes": [], "error": "alice", "message": "", "hint": None, "whole": "", "position": []}
    ),
    frame({"sizes": [], "error": "query", "message": "", "hint": "", "whole": "", "position": "x"}),
]


@pytest.mark.parametrize("said", ABOVE, ids=range(len(ABOVE)))
def test_a_worker_above_the_releases_that_was_taken_over_runs_nothing_here(
    said: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = Fake(frame({"sizes": [], "confined": []}) + said)
    monkeypatch.setattr(spawn, "take", lambda _: fake)
    (tmp_path / "s.yaml").write_text(SCHEMA, encoding="utf-8")
    catalog = load(tmp_path / "s.yaml")
    post = WorkerPostProcessor(catalog, {}, lambda _: {}, catalog.worker)
    with pytest.raises(EngineError) as caught:
        post.run(Residual("SELECT 1", "", "", ()), {}, ("a",))
    assert str(caught.value) == str(exceeded())
    assert fake.requests.getvalue().count(b"SELECT 1") == 1
    post.close()
    assert "DPSQL_EVIL" not in subprocess.check_output(["/usr/bin/env"], text=True)


@pytest.mark.parametrize("kind", ["O", "|O", "V8", "S4", "x"])
def test_arrays_are_plain_numbers(kind: str) -> None:
    message = {"columns": [{"name": "a", "type": kind}]}
    with pytest.raises((ValueError, TypeError)):
        wire.read_arrays(message, [b"12345678", b"\0"])
    pairs = {"keys": {"count": 0, "columns": []}, "ends": [3]}
    with pytest.raises(ValueError, match="don't fit"):
        wire.read_pairs(pairs, [b"12345678", b"12345678"])
