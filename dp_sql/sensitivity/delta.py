"""How far a neighbour moves a released vector, from the contribution set and the adjacency."""

from __future__ import annotations

from typing import assert_never

from dp_sql.errors import InternalError
from dp_sql.privacy.contribution import Box, Change, ContributionSet, Profile, Simplex
from dp_sql.privacy.unit import Adjacency, PrivacyUnit


def change(
    contribution: ContributionSet, groups: int, cells: int | None, unit: PrivacyUnit
) -> Change:
    """Return the change of one vector when `unit.group_size` units change.

    groups: how many groups a unit touches at most (L0, at least 1). cells: how many groups can be
    released (G), None where that is unknown.

    Claim:   no neighbour moves the vector further than the profiles say, in any cost that is convex
             in a coordinate and adds up over coordinates.
    Why:     add_remove: in each of L0 groups one element of the set comes or goes, and the vertices
             of a box move every component by M_i, those of a simplex one component by its total.
             substitution: the old unit leaves up to L0 groups and the new one enters up to L0; they
             share j of them, where max(0, 2 L0 - G) <= j <= L0, and there a component moves by its
             width. The cost is linear in j, so both ends suffice. In a shared group two elements of
             a simplex differ by at most its total in each of two components: no more than the same
             two vectors in two groups. group_size k: k units move one coordinate k times as far in
             the same groups, which costs most by convexity.
    Assumes: the SQL enforces the set and the number of groups; 0 is in the set.
    Source:  [Dwork2006]
    """
    if groups < 1 or (cells is not None and cells < 1):
        raise InternalError("a release has at least one group")
    reach = groups if cells is None else min(groups, cells)
    match unit.adjacency:
        case Adjacency.ADD_REMOVE:
            profiles = [_one_sided(contribution, reach)]
        case Adjacency.SUBSTITUTION:
            fewest = 0 if cells is None else max(0, 2 * reach - cells)
            profiles = [_two_sided(contribution, reach, shared) for shared in {fewest, reach}]
        case Adjacency.ZERO_OUT | Adjacency.METRIC:
            raise InternalError("the schema refuses this adjacency")
        case _:
            assert_never(unit.adjacency)
    size = unit.group_size
    return Change(tuple(tuple((shift * size, n) for shift, n in p) for p in profiles))


def unchanged() -> Change:
    """Return the change of a vector that no neighbour moves: its value is public."""
    return Change(((),))


def _one_sided(contribution: ContributionSet, groups: int) -> Profile:
    match contribution:
        case Box(low=low, high=high):
            return tuple((max(-a, b), groups) for a, b in zip(low, high, strict=True))
        case Simplex(total=total):
            return ((total, groups),)
        case _:
            assert_never(contribution)


def _two_sided(contribution: ContributionSet, groups: int, shared: int) -> Profile:
    match contribution:
        case Box(low=low, high=high):
            apart = tuple(
                (max(-a, b), 2 * (groups - shared)) for a, b in zip(low, high, strict=True)
            )
            both = tuple((b - a, shared) for a, b in zip(low, high, strict=True))
            return (*apart, *both)
        case Simplex(total=total):
            return ((total, 2 * groups),)
        case _:
            assert_never(contribution)
