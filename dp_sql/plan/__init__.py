"""The typed query: expressions, relations, releases, the function table, the residual."""
