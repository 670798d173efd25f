"""Audits: the engine on made-up neighbours, and how far apart its answers are at least."""
