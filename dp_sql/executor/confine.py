"""What a worker takes from itself before it reads a row or a text: files, network, memory, core dumps.

Each is in force where the system has it. DuckDB's own settings hold everywhere.
"""

from __future__ import annotations

import contextlib
import os
import struct
import sys
import time
from collections.abc import Iterable
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import ctypes

_SET_DUMPABLE, _NO_NEW_PRIVS = 4, 38  # prctl
_CREATE, _ADD, _RESTRICT = 444, 445, 446  # Landlock's system calls
_FS_RIGHTS = {1: 13, 2: 14, 3: 15, 5: 16}  # how many rights there are from each version on
_LANDLOCK = {"files": 1, "network": 4}  # the version that each wall takes
_TAKES = {"files": "Landlock, of Linux 5.13", "network": "Landlock for TCP, of Linux 6.7"}
_READ = 1 << 2
_FOLDER = sum(1 << bit for bit in (1, 2, 3, 4, 5, 7, 8))  # write, read, list, remove, make
_TRUNCATE = 1 << 14
_SYSTEM = ("/dev/urandom", "/sys/fs/cgroup", "/proc/self/cgroup")  # how many processors there are


def harden() -> tuple[str, ...]:
    """Leave no core dump and let no other process look inside. Returns what is in force.

    A dump would hold rows, and lie where the machine puts it.
    """
    if sys.platform == "win32":
        return ()
    import resource  # noqa: PLC0415  Windows has none

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        library = _library()
        library.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
        library.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0)
    return ("core dumps",)


def close_off(files: Iterable[Path], folder: str | None) -> tuple[str, ...]:
    """Take away every file but `files`, to read, and `folder`; and TCP. Returns what is in force.

    files: also folders, with all that is in them.

    Claim:   whatever runs in this process later opens no other file and no TCP connection, starts no
             program, and signals no process outside.
    Why:     Landlock refuses them in the kernel, for this thread and all that it starts.
    Assumes: Linux 5.13 or later (6.7 for TCP, 6.12 for signals); no thread of the database runs yet.
    Source:  [Landlock2025]
    """
    version = _landlock()
    if version < 1:
        return ()
    library = _library()
    rights = (1 << max(bits for least, bits in _FS_RIGHTS.items() if least <= version)) - 1
    asked = [rights, *([0b11] if version >= 4 else []), *([0b11] if version >= 6 else [])]
    attribute = struct.pack(f"={len(asked)}Q", *asked)
    rules = library.syscall(_CREATE, attribute, len(attribute), 0)
    if rules < 0:
        return ()
    try:
        for path in (*map(str, files), *_SYSTEM):
            _allow(library, rules, path, _READ)
        if folder is not None:
            _allow(library, rules, folder, (_FOLDER | _TRUNCATE) & rights)
        done = library.syscall(_RESTRICT, rules, 0) == 0
    finally:
        os.close(rules)
    if not done:
        return ()
    return tuple(wall for wall, least in _LANDLOCK.items() if version >= least)


def _landlock() -> int:
    """Return the version of Landlock that the kernel has, less than 1 where it has none."""
    if sys.platform != "linux":
        return 0
    return int(_library().syscall(_CREATE, None, 0, 1))


def missing() -> dict[str, str]:
    """Return the walls that this system can't give a worker, each with what it would take."""
    version, linux, windows = _landlock(), sys.platform == "linux", sys.platform == "win32"
    found = {wall: _TAKES[wall] for wall, least in _LANDLOCK.items() if version < least}
    found |= {} if linux else {"memory": "Linux"}
    return found | (dict.fromkeys(("processor time", "core dumps"), "a Unix") if windows else {})


def _allow(library: ctypes.CDLL, rules: int, path: str, rights: int) -> None:
    """Add a rule; what isn't there stays closed."""
    with contextlib.suppress(OSError):
        place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        try:
            rule = struct.pack("=Qi", rights, place)
            library.syscall(_ADD, rules, 1, rule, 0)
        finally:
            os.close(place)


def memory_status() -> TextIO | None:
    """Return the file that tells how much memory this process has, opened while it can be."""
    return open("/proc/self/status", encoding="ascii") if sys.platform == "linux" else None  # noqa: PTH123


def limit_memory(status: TextIO | None, more: int) -> tuple[str, ...]:
    """Let this process take `more` bytes beyond what it has. Returns what is in force."""
    if status is None or sys.platform != "linux":
        return ()
    import resource  # noqa: PLC0415  Windows has none

    status.seek(0)
    (held,) = (line.split()[1] for line in status if line.startswith("VmData:"))
    most = int(held) * 1024 + more
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    return ("memory",)


def limit_processor(seconds: float) -> tuple[str, ...]:
    """End this process after that much more time of its processors. Returns what is in force."""
    if sys.platform == "win32":
        return ()
    import resource  # noqa: PLC0415  Windows has none

    most = ceil(time.process_time() + seconds)
    resource.setrlimit(resource.RLIMIT_CPU, (most, resource.RLIM_INFINITY))
    return ("processor time",)


def _library() -> ctypes.CDLL:
    import ctypes  # noqa: PLC0415  for Linux alone

    return ctypes.CDLL(None, use_errno=True)
