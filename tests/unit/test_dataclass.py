from __future__ import annotations

import copy
import dataclasses
import inspect
import pickle
import pkgutil
from dataclasses import FrozenInstanceError, field, replace
from importlib import import_module

import pytest

import dp_sql
from dp_sql.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Point:
    """A place."""

    x: int
    y: float = 2.0
    name: str | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError("x is not negative")

    @property
    def both(self) -> tuple[int, float]:
        return self.x, self.y


@dataclass(frozen=True, slots=True)
class Single:
    value: object


@dataclass(frozen=True, slots=True)
class Nothing:
    pass


def test_a_value_is_what_its_fields_say() -> None:
    point = Point(1, name="here")
    assert point.both == (1, 2.0)
    assert repr(point) == "Point(x=1, y=2.0, name='here')"
    assert point == Point(1, 2.0, "there")  # names don't compare
    assert hash(point) == hash(Point(1, 2.0))
    assert point != Point(2)
    assert Point(1) != Single(1)
    assert Single((1,)) != Single(1)
    assert Single(1) != 1
    assert Nothing() == Nothing()
    assert len({Single(1), Single(1), Single(2), Nothing()}) == 3
    match point:
        case Point(x, y):
            assert (x, y) == (1, 2.0)
        case _:
            pytest.fail("a value matches its class")


def test_a_value_never_changes_and_holds_nothing_else() -> None:
    point = Point(1)
    for name in ("x", "other"):
        with pytest.raises(FrozenInstanceError):
            setattr(point, name, 2)
        with pytest.raises(FrozenInstanceError):
            delattr(point, name)
    assert not hasattr(point, "__dict__")
    assert point == Point(1)


def test_copies_pickles_and_replacements_are_equal_values_and_checked() -> None:
    point = Point(1, 3.5, "here")
    for made in (copy.copy(point), copy.deepcopy(point), pickle.loads(pickle.dumps(point))):  # noqa: S301
        assert repr(made) == repr(point)
    assert dataclasses.asdict(point) == {"x": 1, "y": 3.5, "name": "here"}
    assert dataclasses.is_dataclass(point)
    assert repr(replace(point, y=4)) == "Point(x=1, y=4, name='here')"
    with pytest.raises(ValueError, match="not negative"):
        replace(point, x=-1)
    with pytest.raises(ValueError, match="not negative"):
        Point(-1)


def test_arguments_are_checked_as_a_function_checks_them() -> None:
    for wrong in ((), (1, 2.0, "a", 4)):
        with pytest.raises(TypeError, match=r"Point\.__init__\(\)"):
            Point(*wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="unexpected keyword"):
        Point(1, z=2)  # type: ignore[call-arg]
    assert list(inspect.signature(Point).parameters) == ["x", "y", "name"]


def test_what_it_does_not_do_is_refused() -> None:
    with pytest.raises(TypeError, match="frozen"):
        dataclass(frozen=False, slots=True)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="default is a value"):

        @dataclass(frozen=True, slots=True)
        class _Fresh:
            items: list[int] = field(default_factory=list)

    with pytest.raises(TypeError, match="base with fields"):

        @dataclass(frozen=True, slots=True)
        class _Child(Point):
            z: int


def test_every_value_of_the_package_is_as_dataclasses_would_make_it() -> None:
    count = 0
    for found in pkgutil.walk_packages(dp_sql.__path__, "dp_sql."):
        for kind in vars(import_module(found.name)).values():
            if not (inspect.isclass(kind) and kind.__module__ == found.name):
                continue
            if getattr(kind, "__setstate__", None) is not Point.__setstate__:  # type: ignore[attr-defined]
                continue
            count += 1
            annotated = kind.__annotations__
            fields = [kind.__dataclass_fields__[name] for name in annotated]  # type: ignore[attr-defined]
            twin = dataclasses.make_dataclass(
                kind.__name__,
                [(f.name, f.type, field(default=f.default, compare=f.compare)) for f in fields],
                frozen=True,
                slots=True,
            )
            mine, other = inspect.signature(kind), inspect.signature(twin)
            assert str(mine) == str(other), kind
            assert kind.__match_args__ == twin.__match_args__  # type: ignore[attr-defined]
            known = [(f.name, f.type, f.default, f.compare) for f in dataclasses.fields(kind)]
            assert known == [
                (f.name, f.type, f.default, f.compare) for f in dataclasses.fields(twin)
            ]
            assert kind.__slots__ == twin.__slots__  # type: ignore[attr-defined]
    assert count > 80
