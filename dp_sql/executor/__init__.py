"""Runs planned releases on the engine that holds the data, and answers questions about public data."""
