"""What one unit can add to one group (the contribution set) and what a neighbour can change."""

from __future__ import annotations

from math import isqrt

from dp_sql.dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Box:
    """Integer vectors whose component i lies in [low[i], high[i]]; 0 is in every such interval."""

    low: tuple[int, ...]
    high: tuple[int, ...]

    def __post_init__(self) -> None:
        if len(self.low) != len(self.high) or not self.low:
            raise ValueError("a box needs as many lower as upper ends, at least one")
        if any(a > 0 or b < 0 for a, b in zip(self.low, self.high, strict=True)):
            raise ValueError("a box must hold 0: a unit can be absent")


@dataclass(frozen=True, slots=True)
class Simplex:
    """Vectors of `size` non-negative integers that add up to at most `total`."""

    size: int
    total: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.total < 1:
            raise ValueError("a simplex needs at least one component and a total of at least 1")


@dataclass(frozen=True, slots=True)
class Divided:
    """One number in each group: floor(weight / sqrt(m)) for a unit that touches m groups.

    So its squares add up to at most weight^2 over all groups, however many there are. evenly:
    floor(weight / m) instead, so that the numbers themselves add up to at most weight.
    """

    weight: int
    evenly: bool = False

    def __post_init__(self) -> None:
        if self.weight < 1:
            raise ValueError("a unit weighs at least 1")

    def part(self, groups: int) -> int:
        """Return what a unit of so many groups adds to each of them."""
        return self.weight // groups if self.evenly else isqrt(self.weight**2 // groups)


@dataclass(frozen=True, slots=True)
class Ball:
    """Vectors of `size` integers whose squares add up to at most radius^2."""

    size: int
    radius: int

    def __post_init__(self) -> None:
        if self.size < 1 or self.radius < 1:
            raise ValueError("a ball needs at least one component and a radius of at least 1")

    def even(self, sides: int = 1) -> int:
        """Return what every component of a vector of `sides` radii in length is, when all are one size.

        Rounded up.
        """
        square = (sides * self.radius) ** 2
        return isqrt(-(-square // self.size) - 1) + 1


ContributionSet = Box | Simplex | Divided | Ball

Profile = tuple[tuple[int, int], ...]
"""Pairs (shift, coordinates): so many coordinates of the released vector move by at most so much."""


@dataclass(frozen=True, slots=True)
class Change:
    """How far a neighbour can move one integer vector, over all groups at once.

    Claim:   every change is dominated, for each convex cost that adds up over coordinates, by one
             of the profiles. Where the set is a ball, for the costs that noise has: L1, the square
             of L2, and the Rényi divergence of discrete Laplace noise.
    Why:     a convex function that is summed over coordinates takes its maximum over a box or a
             simplex at a vertex, and the profiles list the vertices (see sensitivity/delta.py, there
             for the ball too).
    Assumes: the contribution set and the number of groups a unit touches are enforced in the SQL.
    Source:  [Dwork2006]
    """

    profiles: tuple[Profile, ...]

    def __post_init__(self) -> None:
        entries = [number for profile in self.profiles for pair in profile for number in pair]
        if not self.profiles or any(type(number) is not int or number < 0 for number in entries):
            raise ValueError("a change has at least one profile of non-negative integers")

    @property
    def l1(self) -> int:
        """The largest L1 distance, in grid units."""
        return max(sum(shift * count for shift, count in profile) for profile in self.profiles)

    @property
    def l2_squared(self) -> int:
        """The square of the largest L2 distance, in squared grid units."""
        return max(sum(shift**2 * count for shift, count in profile) for profile in self.profiles)

    def scaled(self, factor: int) -> Change:
        """Return the change of the vector times `factor` (at least 1)."""
        return Change(tuple(tuple((s * factor, n) for s, n in p) for p in self.profiles))
