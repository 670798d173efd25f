"""SQL text to plan: the only reader of SQL text."""
