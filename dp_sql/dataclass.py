"""Frozen values with slots, as `dataclasses` makes them, at a seventh of its time.

A command that answers one statement makes a hundred of these classes, and the library compiles six
functions and makes two classes for each. Here one function is compiled, the constructor; what all
values have in common is written once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, FrozenInstanceError, field
from operator import attrgetter
from typing import Any, Literal, NoReturn, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclasses.dataclass
class _Pattern:
    field: object


(_PATTERN,) = dataclasses.fields(_Pattern)  # the library marks the fields of its classes


@dataclass_transform(field_specifiers=(field,))
def dataclass(*, frozen: Literal[True], slots: Literal[True]) -> Callable[[type[T]], type[T]]:
    """Return what makes a class one of frozen values: its annotations are its fields, in order.

    The class has what `dataclasses.dataclass(frozen=True, slots=True)` gives it: a constructor that
    calls `__post_init__` where there is one, equality, hash, repr, patterns,
    `dataclasses.fields` and `replace`, copies and pickles. A default is a value or
    `field(default=…, compare=…)`. Raises TypeError for a default that is made anew each time, and
    for a class whose base has fields.
    """
    if not (frozen and slots):
        raise TypeError("values are frozen and have slots; dataclasses makes the others")
    return _value


def _value(plain: type[T]) -> type[T]:
    fields = _fields(plain)
    names = tuple(fields)
    space = {k: v for k, v in vars(plain).items() if k not in ("__dict__", "__weakref__", *names)}
    constructor, scope = _constructor(fields, checked="__post_init__" in space)
    constructor.__qualname__ = f"{plain.__qualname__}.__init__"
    constructor.__annotations__ = {**{n: f.type for n, f in fields.items()}, "return": None}
    key = _key(tuple(n for n, f in fields.items() if f.compare))

    def equal(self: object, other: object) -> bool:
        return key(self) == key(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(key(self))

    space.update(
        __slots__=names,
        __match_args__=names,
        __dataclass_fields__=fields,
        __init__=constructor,
        __eq__=equal,
        __hash__=hashed,
        __setattr__=_refuse_change,
        __delattr__=_refuse_change,
        __getstate__=_state,
        __setstate__=_restore,
    )
    space.setdefault("__repr__", _shown)
    made = type(plain.__name__, plain.__bases__, space)
    for number, name in enumerate(names):
        scope[f"set_{number}"] = vars(made)[name].__set__
    return made


def _fields(plain: type) -> dict[str, Field[Any]]:
    """Return the fields of a class in order, as `dataclasses.fields` and `replace` read them."""
    if any(hasattr(base, "__dataclass_fields__") for base in plain.__bases__):
        raise TypeError(f"{plain.__name__} has a base with fields")
    fields: dict[str, Field[Any]] = {}
    for name, kind in vars(plain).get("__annotations__", {}).items():
        given = vars(plain).get(name, MISSING)
        wanted = given if isinstance(given, Field) else field(default=given)
        if wanted.default_factory is not MISSING or not wanted.init:
            raise TypeError(f"{plain.__name__}.{name}: a value's default is a value")
        made = copy(_PATTERN)
        made.name, made.type, made.default, made.compare = (
            name,
            kind,
            wanted.default,
            wanted.compare,
        )
        fields[name] = made
    return fields


def _constructor(
    fields: dict[str, Field[Any]], *, checked: bool
) -> tuple[Callable[..., None], dict[str, Any]]:
    """Return `__init__` and the names that it reads: its caller adds set_0, set_1, … for the slots."""
    scope: dict[str, Any] = {}
    parameters, lines = ["self"], []
    for number, (name, made) in enumerate(fields.items()):
        given = made.default is not MISSING
        parameters.append(f"{name}=default_{number}" if given else name)
        scope[f"default_{number}"] = made.default
        lines.append(f" set_{number}(self, {name})")
    if checked:
        lines.append(" self.__post_init__()")
    text = f"def __init__({', '.join(parameters)}):\n" + ("\n".join(lines) or " pass")
    exec(text, scope)  # noqa: S102  names of fields, which our own source holds
    return scope["__init__"], scope


def _key(names: tuple[str, ...]) -> Callable[[object], object]:
    """Return what gives the values that make two of a class equal."""
    if not names:
        return lambda _: ()
    one = attrgetter(*names)
    return one if len(names) > 1 else lambda value: (one(value),)


def _refuse_change(self: object, name: str, *_: object) -> NoReturn:
    raise FrozenInstanceError(f"{type(self).__name__}.{name} can't be changed")


def _shown(self: Any) -> str:
    fields = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__match_args__)
    return f"{type(self).__qualname__}({fields})"


def _state(self: Any) -> list[object]:
    return [getattr(self, name) for name in self.__match_args__]


def _restore(self: Any, state: list[object]) -> None:
    for name, value in zip(self.__match_args__, state, strict=True):
        object.__setattr__(self, name, value)
