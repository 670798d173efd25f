"""Budgets by block: how many blocks of a table two neighbours can differ in."""

from __future__ import annotations

from typing import assert_never

from dp_sql.privacy.unit import Adjacency, PrivacyUnit

MOST_SPANNED = 64
"""The most blocks that neighbours may differ in; a larger group would fill a ledger with its events."""


def spanned(unit: PrivacyUnit, table: str, column: str) -> int:
    """Return how often a statement debits each block that it names, at least 1.

    table, column: in lower case.

    Claim:   where the sum of what is debited to every block and, m times, to any one block stays
             within a budget, the answers that rows of this table can change keep that budget, though
             each debits only the blocks of the column whose rows can change it.
    Why:     Fix two neighbours. They differ in rows of at most m blocks b_1, ..., b_m of the table: a
             unit's rows lie in one block before and in one after the change, and for a group of k in
             k of each. Adding and removing units gives k. So does what keeps rows and their blocks,
             and zero_out where it makes a block's value NULL: rows without one are in no debit but
             that of every block. A replacement of units and a move of the block's own place give 2k.
             An answer that debits neither every block nor one of these has one law under both, as far
             as rows of this table go (the claim of `sensitivity.blocks.debit`). For all others the
             price bounds their loss. Where E is the sum debited to every block and S_i that debited
             to b_i, their prices add up to E + S_1 + ... + S_m at most, which is the mean over i of
             E + m S_i. The debits are fixed by the statements' texts, so this holds on every path
             that an adaptive analyst takes, which is what the accountants' proofs need of a sum.
             With m = 1 the history of the one block is that of a table of its own: any accountant
             will do. With m > 1 one block may keep one part of a rule that is "this or that" and
             another block the other part, and both together none: such a rule is refused.
             A user who has rows in several tables changes an answer by rows of some of them, of which
             at least one is debited the whole price in a block of that user: over all tables he or
             she loses at most the sum of their budgets, as without blocks.
    Assumes: a row never changes the value by which it is in a block, and a unit's rows are all in one
             (at level event it has one row; `schema.blocks` says which claims make it so for users).
             The price holds where the change takes a row out of what a statement reads or into it:
             its conditions on the column drop rows, so 0 is in the contribution set.
    Source:  [McSherry2009]
    """
    match unit.adjacency:
        case Adjacency.ADD_REMOVE | Adjacency.ZERO_OUT:
            moves = False
        case Adjacency.METRIC:
            moves = unit.changes(table, column)
        case Adjacency.SUBSTITUTION:
            moves = True
        case _:
            assert_never(unit.adjacency)
    return unit.group_size * (2 if moves else 1)
