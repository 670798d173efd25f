"""The shell in a terminal of its own: Enter, Ctrl-C, Ctrl-D and history as a user meets them."""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
import stat
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

pty = pytest.importorskip("pty")
fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")

ROOT = Path(__file__).resolve().parents[2]
PROMPT = "dpsql>"  # the blank behind it is written as a move of the cursor
PATIENCE = 60  # seconds; a loaded machine is slow
ENDLESS = "SELECT SUM(a.range * b.range) FROM range(99999999) a, range(99999999) b;"


class Terminal:
    """A process in a pseudo-terminal, and what it has written since the last look."""

    def __init__(self, *command: str, home: Path) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.environ.update(
                DPSQL_HOME=str(home),
                TERM="xterm",
                PYTHONPATH=str(ROOT),
                PROMPT_TOOLKIT_NO_CPR="1",
            )
            os.execv(command[0], command)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 200, 0, 0))
        self._text = ""

    def write(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def wait_for(self, text: str) -> str:
        """Return what was written up to and with `text`; escape sequences are left out."""
        until = time.monotonic() + PATIENCE
        while True:
            seen = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", self._text)
            before, found, after = seen.partition(text)
            if found:
                self._text = after
                return before + found
            left = until - time.monotonic()
            assert left > 0, f"{text!r} didn't come; there was {seen!r}"
            if select.select([self._fd], [], [], left)[0]:
                self._text += os.read(self._fd, 65536).decode("utf-8", "replace")

    def status(self) -> int:
        """Return the exit status, once the process has ended."""
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            with contextlib.suppress(OSError):  # Linux answers so once the other end is closed
                if select.select([self._fd], [], [], 0.05)[0]:
                    os.read(self._fd, 65536)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return os.waitstatus_to_exitcode(status)
        raise AssertionError("the process didn't end")

    def close(self) -> None:
        os.close(self._fd)
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(sys.executable, "-m", "dp_sql.cli.main", "demo", home=tmp_path)
    terminal.wait_for(PROMPT)
    yield terminal
    terminal.close()


def test_a_statement_runs_when_its_semicolon_is_there(shell: Terminal, tmp_path: Path) -> None:
    shell.write("SELECT COUNT(*)\r")
    shell.wait_for("...>")
    shell.write("FROM purchases;\r")
    assert "count_star()" in shell.wait_for("Cost to purchases: epsilon 0.2.")
    shell.wait_for(PROMPT)
    shell.write("\x04")
    assert shell.status() == 0
    history = tmp_path / "history"
    assert "SELECT COUNT(*)" in history.read_text(encoding="utf-8")
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_ctrl_c_stops_the_statement_and_not_the_shell(shell: Terminal) -> None:
    shell.write(ENDLESS + "\r")
    shell.wait_for("b;")
    time.sleep(0.5)  # the statement has begun, or is about to: both can be stopped
    shell.write("\x03")
    shell.wait_for("Stopped.")
    shell.wait_for(PROMPT)
    shell.write("SELECT 40 + 2 AS answer;\r")
    shell.wait_for("42")


def test_ctrl_c_at_the_prompt_clears_the_line_and_an_error_is_no_end(shell: Terminal) -> None:
    shell.write("SELECT garbage")
    shell.wait_for("garbage")
    shell.write("\x03")
    shell.wait_for(PROMPT)
    shell.write("SELECT wrong FROM purchases;\r")
    shell.wait_for("Error (query)")
    shell.wait_for(PROMPT)
    shell.write("\\q\r")
    assert shell.status() == 0


def test_ctrl_c_ends_a_query_command_with_130(tmp_path: Path) -> None:
    schema = str(ROOT / "dp_sql" / "demo" / "cdnow.yaml")
    command = ["query", schema, "--ledger", ":memory:", "-c", ENDLESS]
    code = (
        "import dp_sql.connection; from dp_sql.cli.main import main; "
        f"print('begun', flush=True); main({command!r})"
    )
    terminal = Terminal(sys.executable, "-c", code, home=tmp_path)
    try:
        terminal.wait_for("begun")
        time.sleep(1)  # the statement has begun, or is about to: the status is the same
        terminal.write("\x03")
        assert terminal.status() == 130
    finally:
        terminal.close()
