"""A box for exact results: it can't be printed, compared, iterated, pickled or formatted."""

from __future__ import annotations

from typing import Any, Generic, NoReturn, TypeVar

from dp_sql.errors import InternalError

T = TypeVar("T")


class Sealed(Generic[T]):
    """An exact value on its way from the executor to the mechanism that adds noise.

    Only `privacy.seal_open.open_sealed` opens it, and only `mechanisms.release` may import that
    function (an import contract keeps it so). Everything else that would show the value raises.
    """

    __slots__ = ("__value",)

    def __init__(self, value: T) -> None:
        self.__value = value

    def _refuse(self, *_: Any) -> NoReturn:
        raise InternalError("a sealed value may not be looked at")

    __iter__ = __len__ = __bool__ = __hash__ = __reduce__ = _refuse
    __eq__ = __lt__ = __le__ = __gt__ = __ge__ = __format__ = __reduce_ex__ = _refuse
    __getstate__ = __copy__ = __deepcopy__ = __str__ = _refuse

    def __repr__(self) -> str:
        return "Sealed(…)"
