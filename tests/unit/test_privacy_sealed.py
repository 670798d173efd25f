from __future__ import annotations

import copy
import json
import operator
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from dp_sql.errors import InternalError
from dp_sql.privacy.seal_open import open_sealed
from dp_sql.privacy.sealed import Sealed

SECRET = 48_151_623


@pytest.mark.parametrize(
    "look",
    [
        str,
        "{}".format,
        "{:d}".format,
        "{!s}".format,
        lambda sealed: f"{sealed}",
        lambda sealed: f"{sealed:>20}",
        lambda sealed: "%s" % sealed,  # noqa: UP031  the old way must refuse too
        bool,
        hash,
        len,
        iter,
        list,
        tuple,
        set,
        lambda sealed: {sealed: 1},
        lambda sealed: SECRET in sealed,
        lambda sealed: sealed == SECRET,
        lambda sealed: sealed != SECRET,
        [SECRET].count,
        lambda sealed: sealed < SECRET,
        lambda sealed: sealed <= SECRET,
        lambda sealed: sealed > SECRET,
        lambda sealed: sealed >= SECRET,
        lambda sealed: sealed == sealed,  # noqa: PLR0124  the box itself is compared
        lambda sealed: max(sealed, sealed),
        copy.copy,
        copy.deepcopy,
        pickle.dumps,
        lambda sealed: pickle.dumps([sealed], protocol=0),
        lambda sealed: sealed.__getstate__(),
    ],
)
def test_nobody_looks_into_a_sealed_value(look: Callable[[object], object]) -> None:
    with pytest.raises(InternalError) as caught:
        look(Sealed(SECRET))
    assert str(SECRET) not in str(caught.value)


@pytest.mark.parametrize(
    "use",
    [
        int,
        float,
        operator.index,
        json.dumps,
        vars,
        abs,
        lambda sealed: sealed + 1,
        lambda sealed: sealed[0],
        lambda sealed: sealed(),
        lambda sealed: sealed.value,
    ],
)
def test_a_sealed_value_is_no_number_and_no_container(use: Callable[[Any], object]) -> None:
    with pytest.raises((TypeError, AttributeError)) as caught:
        use(Sealed(SECRET))
    assert str(SECRET) not in str(caught.value)


def test_its_repr_shows_nothing() -> None:
    assert repr(Sealed(SECRET)) == "Sealed(…)"
    assert f"{Sealed(SECRET)!r} {[Sealed(SECRET)]}" == "Sealed(…) [Sealed(…)]"


def test_the_release_opens_it() -> None:
    value = [1, 2, 3]
    assert open_sealed(Sealed(value)) is value
