"""Which program comes next: structures, configurations, lines of search."""
