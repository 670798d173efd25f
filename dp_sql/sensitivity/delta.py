"""How far a neighbour moves a released vector, from the contribution set and the adjacency."""

from __future__ import annotations

from typing import assert_never

from dp_sql.errors import InternalError
from dp_sql.plan.pair import PairMeasure
from dp_sql.plan.relation import CountMeasure, Measure, MomentMeasure, PresenceMeasure, SumMeasure
from dp_sql.plan.vector import NormMeasure
from dp_sql.privacy.contribution import (
    Ball,
    Box,
    Change,
    ContributionSet,
    Divided,
    Profile,
    Simplex,
)
from dp_sql.privacy.unit import Adjacency, PrivacyUnit


def change(
    contribution: ContributionSet,
    groups: int,
    cells: int | None,
    unit: PrivacyUnit,
    *,
    in_place: bool = False,
) -> Change:
    """Return the change of one vector when `unit.group_size` units change.

    groups: how many groups a unit touches at most (L0, at least 1). cells: how many groups can be
    released (G), None where that is unknown. in_place: no neighbour changes which groups a unit
    touches (`motion.motions_of`), for adjacencies that keep the rows alone.

    Claim:   no neighbour moves the vector further than the profiles say, in any cost that is convex
             in a coordinate and adds up over coordinates.
    Why:     add_remove: in each of L0 groups one element of the set comes or goes, and the vertices
             of a box move every component by M_i, those of a simplex one component by its total.
             substitution: the old unit leaves up to L0 groups and the new one enters up to L0; they
             share j of them, where max(0, 2 L0 - G) <= j <= L0, and there a component moves by its
             width. The cost is linear in j, so both ends suffice. In a shared group two elements of
             a simplex differ by at most its total in each of two components: no more than the same
             two vectors in two groups. zero_out and metric put other rows of the same unit in the
             place of its rows, which is a substitution; in place, all L0 groups are shared.
             group_size k: k units move one coordinate k times as far in the same groups, which costs
             most by convexity.
    Assumes: the SQL enforces the set and the number of groups; 0 is in the set.
    Source:  [Dwork2006]
    """
    if groups < 1 or (cells is not None and cells < 1):
        raise InternalError("a release has at least one group")
    reach = groups if cells is None else min(groups, cells)
    if isinstance(contribution, Divided):
        return _spread(contribution, reach, unit)
    fewest = 0 if cells is None else max(0, 2 * reach - cells)
    fewest = reach if in_place else fewest
    if isinstance(contribution, Ball):
        return _rolled(contribution, reach, fewest, unit)
    match unit.adjacency:
        case Adjacency.ADD_REMOVE:
            profiles = [_one_sided(contribution, reach)]
        case Adjacency.SUBSTITUTION | Adjacency.ZERO_OUT | Adjacency.METRIC:
            profiles = [_two_sided(contribution, reach, shared) for shared in {fewest, reach}]
        case _:
            assert_never(unit.adjacency)
    return Change(tuple(profiles)).scaled(unit.group_size)


def change_of_copies(
    contribution: ContributionSet, cells: int | None, unit: PrivacyUnit, *, in_place: bool = False
) -> Change:
    """Return the change of one vector where a unit is a row that is repeated, in one group or many.

    contribution: what all copies add together. cells, in_place: as `change`.

    Claim:   as `change`: none costs more than all copies in one group.
    Why:     contribution is r times what one copy adds. Say c copies of rows that leave and d of rows
             that come are in a group. What they move there is at most g(c, d): of a box c M, d M, or
             the larger of d b - c a and c b - d a in each component, of a simplex c and d times its
             total, of a ball (c + d) B; each is convex and grows in proportion. A convex cost f that
             is 0 at 0 and grows makes f(g(c, d)) convex, likewise the sum over groups. A convex function
             on all ways to divide r copies over the groups, and r others, is largest where each of the
             two is in one group: in the same one or in two, which are the profiles of `change` for
             one group. For a ball f(g) is that of even shifts, as there. In place, c = d in each group.
    Assumes: as `change`; a unit is repeated r times at most (`multiplicity.rows_per_unit`).
    Source:  [Dwork2006]
    """
    return change(contribution, 1, cells, unit, in_place=in_place)


def _spread(contribution: Divided, groups: int, unit: PrivacyUnit) -> Change:
    """Return the change of a vector to which a unit of m groups adds weight / sqrt(m), or / m, in each.

    Claim:   as `change`.
    Why:     a unit has m groups, 1 <= m <= L0, with the same number in each: one profile for each m.
             Where a unit changes for another, both have their groups, and in a shared one the numbers
             differ by less than they are; a cost that adds up over coordinates is then at most twice
             that of the costlier of the two. k units move one coordinate k times as far in the same
             groups, which costs most by convexity.
    Assumes: the SQL gives each unit the number of its own groups, those that stay.
    Source:  [Gopi2020], [Dwork2006]
    """
    sides = 1 if unit.adjacency is Adjacency.ADD_REMOVE else 2
    profiles = tuple(((contribution.part(m), sides * m),) for m in range(1, groups + 1))
    return Change(profiles).scaled(unit.group_size)


def _rolled(contribution: Ball, groups: int, fewest: int, unit: PrivacyUnit) -> Change:
    """Return the change of a vector to which a unit adds vectors of bounded length.

    fewest: how many groups two units that change for each other share at least.

    Claim:   no neighbour moves the vector further than the profiles say, in L1, in the square of L2,
             and in the Rényi divergence of discrete Laplace noise of one scale, of every order.
    Why:     let f be the cost of one coordinate's shift s >= 0 and h(v) = f(sqrt v), which for these
             three is sqrt v, v, and concave. So over d coordinates whose squares add up to B^2 the
             cost is d h(B^2 / d) at most, by Jensen: that of d equal shifts, here rounded up. A unit's
             groups have each their own vector; where two units share a group, their vectors differ
             by 2 B at most. k units have k groups with a vector each or, which costs more as f is
             convex with f(0) = 0, one group with a vector k times as long. The profiles of single
             coordinates say the same of L2 and bound each coordinate.
             Concave: f(s) = s/t + ln(1 - C + C q^s) / (a - 1) as in `renyi._rdp_laplace`, a the order,
             x = 1/t, q = e^(-(2a - 1)x). f'(s) = x - (2a - 1) x / (a - 1) * p(s), where p(s) =
             C q^s / (1 - C + C q^s) is logistic in -s and below 1/2, so convex: f' is concave. And
             f'(0) >= 0, since 1/C = 1 + cosh x + sinh x coth((a - 1) x) >= 2 + 1/(a - 1), from
             cosh x >= 1, sinh x >= x and coth y >= 1/y. Thus f'(s)/s never rises, which is twice h'.
    Assumes: as `change`; one scale for all coordinates of the vector.
    Source:  [Dwork2006], [Mironov2017]; the concavity is derived here.
    """
    single = contribution.radius, 2 * contribution.radius, 1
    even = contribution.even(), contribution.even(sides=2), contribution.size
    profiles: list[Profile] = []
    for one, two, count in (single, even):
        if unit.adjacency is Adjacency.ADD_REMOVE:
            profiles.append(((one, count * groups),))
        else:
            profiles += [
                ((one, 2 * count * (groups - shared)), (two, count * shared))
                for shared in sorted({fewest, groups})
            ]
    return Change(tuple(profiles)).scaled(unit.group_size)


def blocks_moved(
    width: int, blocks: int, pieces: int, most: int, cells: int | None, unit: PrivacyUnit
) -> Change:
    """Return the change of the sums of numbers in blocks, one sum a group.

    width: how far apart two numbers of one block can be. blocks: in a group. pieces: how many blocks
    the rows of a unit lie in at most, all groups together; most: in one group. cells: as `change`.

    Claim:   as `change`.
    Why:     a block's number moves by `width` at most, whatever comes to it or leaves it, so a sum
             moves by `width` for each of its blocks that does. Rows of s units come or go: k of them,
             or 2 k where each changes for another. They reach s * pieces blocks in all, and of one
             group s * most at most, and no more than it has. Under these two bounds a convex cost is
             largest where one group after the other has all that it may have, and one the rest.
    Assumes: a row that comes or goes changes the numbers of the blocks that it lies in, no others.
    Source:  [Dwork2006], [NissimRS2007]
    """
    sides = unit.group_size * (1 if unit.adjacency is Adjacency.ADD_REMOVE else 2)
    each, moved = min(blocks, sides * most), sides * pieces
    if cells is not None:
        moved = min(moved, cells * each)
    full, rest = divmod(moved, each)
    shifts = ((each * width, full), (rest * width, 1))
    return Change((tuple((shift, count) for shift, count in shifts if shift and count),))


def unchanged() -> Change:
    """Return the change of a vector that no neighbour moves: its value is public."""
    return Change(((),))


def nudged(measure: Measure, steps: int, rows: int, unit: PrivacyUnit) -> Change:
    """Return the change of one vector when values of a unit's rows move by so many steps of its grid.

    rows: how many rows a unit has at most. A sum's value is its number of steps; a moment vector's is
    its place in 0..cells; of a vector of two arguments `steps` is what its components move by.

    Claim:   no neighbour moves the vector further than the profile says, in any cost that is convex
             in a coordinate and adds up over coordinates.
    Why:     a row's key stays, so its `steps` fall into one coordinate of a sum. Of the moments of
             degree d over K cells, (K - a) ... a, no component moves by more than m = d K^(d-1) steps,
             and all together by no more than 2 m (their total is constant, so what the growing ones
             gain the others lose, and that is m at most), which costs most in two coordinates. The
             products of two arguments move likewise (`motion.pair_steps`). Rows of one unit, and
             k = group_size units, cost most, by convexity, in the same coordinates.
    Assumes: rows, owners and keys are the same on both data sets (`motion.motions_of`).
    Source:  [Dwork2006], [Bernstein1912]
    """
    match measure:
        case SumMeasure():
            shift, coordinates = steps, 1
        case MomentMeasure(cells=cells, degree=degree):
            shift, coordinates = degree * cells ** (degree - 1) * steps, 2
        case PairMeasure():
            shift, coordinates = steps, 2
        case CountMeasure() | PresenceMeasure() | NormMeasure():
            raise InternalError("a count has no value that moves, and a vector's isn't followed")
        case _:
            assert_never(measure)
    return Change((((shift * rows, coordinates),),)).scaled(unit.group_size)


def _one_sided(contribution: ContributionSet, groups: int) -> Profile:
    match contribution:
        case Box(low=low, high=high):
            return tuple((max(-a, b), groups) for a, b in zip(low, high, strict=True))
        case Simplex(total=total):
            return ((total, groups),)
        case Divided() | Ball():
            raise InternalError("this set has profiles of its own")
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
        case Divided() | Ball():
            raise InternalError("this set has profiles of its own")
        case _:
            assert_never(contribution)
