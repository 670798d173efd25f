"""What one privacy unit can change: one derived property a file, re-derived from the finished plan."""
