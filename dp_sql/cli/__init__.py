"""The command line: `dpsql` with its commands, and the shell that it opens."""
