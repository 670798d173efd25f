"""The words of the theory: unit, adjacency, amounts, contribution sets, events, sealed values."""
