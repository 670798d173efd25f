from __future__ import annotations

import itertools
import math
import os
import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pytest

from dp_sql.errors import EngineError, InternalError, SchemaError
from dp_sql.mechanisms import sampler as module
from dp_sql.mechanisms.sampler import (
    MAX_SCALE,
    ExactSampler,
    exp_minus_ratio,
    sampler_named,
    uniform_below,
)

Install = Callable[..., None]


@pytest.fixture
def bits(monkeypatch: pytest.MonkeyPatch) -> Install:
    """Replace the operating system's bits by words that the test chooses."""

    def install(*words: np.ndarray) -> None:
        queue = [np.asarray(w) for w in words]
        monkeypatch.setattr(module, "_random_words", lambda _word, _size: queue.pop(0).copy())

    return install


def test_uniform_draws_rejected_words_again(bits: Install) -> None:
    # 2^16 = 655 * 100 + 36: the words from 65500 on would favour 0 to 35
    bits(
        np.array([65499, 65500, 65535, 7], np.uint16),
        np.array([65500, 201], np.uint16),
        np.array([99], np.uint16),
    )
    assert uniform_below(100, 4).tolist() == [99, 99, 1, 7]


@pytest.mark.parametrize(
    "limit", [1, 2, 3, 255, 256, 257, 2**24, 2**24 + 1, 2**50, 2**62 + 1, 2**63]
)
def test_uniform_stays_below_its_limit_and_reaches_both_halves(limit: int) -> None:
    draws = uniform_below(limit, 2000)
    assert draws.dtype == np.int64
    assert draws.min() >= 0
    assert draws.max() < limit
    if limit > 1:
        assert 800 < np.count_nonzero(draws < (limit + 1) // 2) < 1700


@pytest.mark.parametrize(
    "limit", [3, 100, 256, 257, 2**24, 2**24 + 1, 2**50 - 1, 2**63 - 25, 2**63]
)
def test_kept_words_are_a_whole_number_of_copies(limit: int) -> None:
    word, bits_ = module._word_for(limit)
    assert np.iinfo(word).bits == bits_
    last = 2**bits_ - 1 - 2**bits_ % limit
    assert (last + 1) % limit == 0
    assert last >= 2 ** (bits_ - 1) - 1  # at least half of the words are kept


def test_every_outcome_of_a_small_uniform_is_equally_likely_over_all_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = np.arange(2**16, dtype=np.uint16)
    replies = itertools.chain([every], itertools.repeat(None))

    def words(word: type, size: int) -> np.ndarray:
        prepared = next(replies)
        return prepared.copy() if prepared is not None else np.zeros(size, word)

    monkeypatch.setattr(module, "_random_words", words)
    counts = np.bincount(uniform_below(100, 2**16))
    assert counts.tolist() == [655 + 36] + [655] * 99  # redrawn words came up 0


def test_coins_of_zero_and_of_large_exponents() -> None:
    assert exp_minus_ratio(np.zeros(1000, np.int64), 7).all()
    assert not exp_minus_ratio(np.full(1000, 2**62), 1).any()
    assert exp_minus_ratio(np.zeros(0, np.int64), 7).size == 0


def test_coins_have_their_own_probabilities() -> None:
    exponents = np.repeat(np.array([1, 5, 10, 35]), 50_000)
    coins = exp_minus_ratio(exponents, 10).reshape(4, -1)
    for row, x in zip(coins, (0.1, 0.5, 1.0, 3.5), strict=True):
        p = math.exp(-x)
        assert abs(row.mean() - p) < 6 * math.sqrt(p * (1 - p) / 50_000)  # false alarm 2e-9


@pytest.mark.parametrize("scale", [1, 2, 1000, 2**25, MAX_SCALE])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_shapes_and_spread(law: str, scale: int) -> None:
    draws = getattr(ExactSampler(), law)(scale, 20_001)
    assert draws.dtype == np.int64
    assert draws.shape == (20_001,)
    deviation = np.std(draws.astype(float)) / scale
    if law == "laplace":
        q = math.exp(-1 / scale)
        wanted = math.sqrt(2 * q) / (1 - q) / scale if scale < 2**20 else math.sqrt(2)
    else:
        wanted = 1.0
    assert deviation == pytest.approx(wanted, rel=0.08)
    assert getattr(ExactSampler(), law)(scale, 0).size == 0


@pytest.mark.parametrize(("scale", "size"), [(0, 1), (-1, 1), (MAX_SCALE + 1, 1), (1, -1)])
def test_requests_out_of_range_are_refused(scale: int, size: int) -> None:
    for draw in (ExactSampler().laplace, ExactSampler().gaussian):
        with pytest.raises(InternalError):
            draw(scale, size)


def test_the_largest_draw_fits_int64() -> None:
    steps = module._MAX_STEPS
    assert (MAX_SCALE - 1) + MAX_SCALE * steps < 2**63
    assert (steps + 1) ** 2 < 2**63
    assert (steps + 1) * (MAX_SCALE - 1) < 2**63


def test_broken_random_bits_raise_instead_of_looping(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "urandom", bytes)  # zeros: every coin comes up True
    with pytest.raises(InternalError, match="not random"):
        module._exp_minus_one(5)


def test_endless_geometric_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MAX_STEPS", 5)
    monkeypatch.setattr(module, "_exp_minus_one", lambda size: np.ones(size, np.bool_))
    with pytest.raises(InternalError, match="not random"):
        module._geometric(4)


def test_samplers_by_name() -> None:
    assert sampler_named("exact") == ExactSampler()
    assert sampler_named("opendp").name == "opendp"
    with pytest.raises(SchemaError, match="no sampler named 'fast'"):
        sampler_named("fast")


def test_missing_opendp_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opendp", None)
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(EngineError, match=r"pip install 'dp-sql\[opendp\]'"):
        sampler_named("opendp")


def test_the_exact_sampler_does_not_import_opendp() -> None:
    code = "import sys, dp_sql.mechanisms.release; sys.exit('opendp' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


FORK = """
import os
from dp_sql.mechanisms.sampler import ExactSampler
sampler = ExactSampler()
sampler.laplace(10**6, 10)
for _ in range(2):
    reader, writer = os.pipe()
    if os.fork() == 0:
        os.write(writer, sampler.laplace(10**6, 4).tobytes() + sampler.gaussian(10**6, 4).tobytes())
        os._exit(0)
    os.wait()
    print(os.read(reader, 64).hex())
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_forked_processes_draw_different_noise() -> None:
    out = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], check=True, capture_output=True, text=True
    )
    first, second = out.stdout.split()
    assert len(first) == len(second) == 128
    assert all(first[i : i + 16] != second[i : i + 16] for i in range(0, 128, 16))
