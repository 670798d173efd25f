"""What every sampler has to do, whatever it is made of."""

from __future__ import annotations

import numpy as np
import pytest

from dp_sql.errors import InternalError
from dp_sql.mechanisms.sampler import MAX_SCALE, Sampler, sampler_named


@pytest.fixture(params=["exact", "opendp"])
def sampler(request: pytest.FixtureRequest) -> Sampler:
    return sampler_named(request.param)


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
class TestSampler:
    def test_returns_as_many_int64_as_asked(self, sampler: Sampler, law: str) -> None:
        for size in (0, 1, 17):
            draws = getattr(sampler, law)(1024, size)
            assert draws.dtype == np.int64
            assert draws.shape == (size,)

    def test_is_symmetric_and_of_the_right_size(self, sampler: Sampler, law: str) -> None:
        # false alarm rate below 1e-8 each: 6 standard errors of a sample of 4,000
        draws = getattr(sampler, law)(1024, 4000) / 1024
        deviation = {"laplace": 2**0.5, "gaussian": 1.0}[law]
        assert abs(draws.mean()) < 6 * deviation / 4000**0.5
        assert draws.std() == pytest.approx(deviation, rel=0.12)

    def test_takes_the_largest_scale(self, sampler: Sampler, law: str) -> None:
        draws = getattr(sampler, law)(MAX_SCALE, 200)
        assert 0.3 * MAX_SCALE < np.abs(draws.astype(float)).mean() < 2 * MAX_SCALE
        assert np.unique(draws % 1024).size > 100  # the low bits are noise too

    def test_never_repeats_itself(self, sampler: Sampler, law: str) -> None:
        draw = getattr(sampler, law)
        assert not np.array_equal(draw(2**40, 8), draw(2**40, 8))

    @pytest.mark.parametrize(("scale", "size"), [(0, 1), (MAX_SCALE + 1, 1), (5, -1)])
    def test_refuses_what_it_can_not_draw(
        self, sampler: Sampler, law: str, scale: int, size: int
    ) -> None:
        with pytest.raises(InternalError):
            getattr(sampler, law)(scale, size)
