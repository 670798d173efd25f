from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from dp_sql.cli import places
from dp_sql.errors import EngineError, LedgerError


@pytest.mark.parametrize(
    ("environ", "platform", "folder"),
    [
        ({"DPSQL_HOME": "/there", "XDG_DATA_HOME": "/xdg"}, "linux", "/there"),
        ({"DPSQL_HOME": "/there"}, "win32", "/there"),
        ({"XDG_DATA_HOME": "/xdg"}, "linux", "/xdg/dp_sql"),
        ({"XDG_DATA_HOME": "relative"}, "linux", "~/.local/share/dp_sql"),
        ({"XDG_DATA_HOME": ""}, "linux", "~/.local/share/dp_sql"),
        ({}, "linux", "~/.local/share/dp_sql"),
        ({"XDG_DATA_HOME": "/xdg"}, "darwin", "~/Library/Application Support/dp_sql"),
        ({"LOCALAPPDATA": "/local"}, "win32", "/local/dp_sql"),
        ({}, "win32", "~/AppData/Local/dp_sql"),
    ],
)
def test_each_system_has_its_place(environ: dict[str, str], platform: str, folder: str) -> None:
    assert places.user_folder(environ, platform) == Path(folder).expanduser()


def test_the_folder_is_made_for_its_user_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DPSQL_HOME", str(tmp_path / "a" / "b"))
    folder = places.make_user_folder()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert places.make_user_folder() == folder
    history = places.private_file(folder / "history")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    history.write_text("kept", encoding="utf-8")
    assert places.private_file(history).read_text(encoding="utf-8") == "kept"


def test_a_folder_that_can_not_be_made_is_a_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DPSQL_HOME", str(tmp_path / "file" / "below"))
    with pytest.raises(EngineError, match="can't be made") as caught:
        places.make_user_folder()
    assert "DPSQL_HOME" in str(caught.value)


def test_no_home_folder_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError

    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(EngineError, match="no home folder"):
        places.user_folder({}, "linux")
    assert places.user_folder({"DPSQL_HOME": os.sep}, "linux") == Path(os.sep)


def test_a_ledger_is_forgotten_with_what_lies_beside_it_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "demo.ledger",
        "demo.ledger-wal",
        "demo.ledger-shm",
        "demo.ledger.copy",
        "history",
    ):
        (tmp_path / name).touch()
    places.forget(tmp_path / "demo.ledger")
    assert {path.name for path in tmp_path.iterdir()} == {"demo.ledger.copy", "history"}
    places.forget(tmp_path / "demo.ledger")


def test_a_ledger_that_can_not_be_deleted_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "demo.ledger").mkdir()
    with pytest.raises(LedgerError, match="can't be deleted"):
        places.forget(tmp_path / "demo.ledger")
