"""Makes a parsed release answerable: keys, integer vectors, bounded contributions. One pass a file."""
