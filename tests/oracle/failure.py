"""How a statement fails: all that an analyst sees of an error, and how far the statement came."""

from __future__ import annotations

from dataclasses import dataclass, fields

from dp_sql.errors import DPSQLError


@dataclass(frozen=True)
class Failure:
    """What is seen of an error. stage: what was done when it came, with how many releases begun."""

    stage: tuple[str, int]
    kind: str
    code: str
    text: str
    hint: str | None
    position: str
    example: str | None
    cause: str
    more: str

    @classmethod
    def of(cls, error: DPSQLError, stage: str, begun: int) -> Failure:
        """Return what is seen of an error."""
        known = {"message", "hint", "position", "example"}
        more = {name: value for name, value in vars(error).items() if name not in known}
        return cls(
            (stage, begun),
            type(error).__name__,
            error.code,
            str(error),
            error.hint,
            repr(error.position),
            error.example,
            repr(error.__cause__),
            repr(sorted(more.items())),
        )


def told_apart(one: Failure | None, other: Failure | None) -> str | None:
    """Return what of two neighbours' errors differs, None where nothing does."""
    if one is None or other is None:
        shown = one or other
        return None if shown is None else f"only one neighbour fails: {shown}"
    pairs = [(f.name, getattr(one, f.name), getattr(other, f.name)) for f in fields(Failure)]
    apart = [f"{name}: {a!r}, {b!r}" for name, a, b in pairs if a != b]
    return "; ".join(apart) or None
