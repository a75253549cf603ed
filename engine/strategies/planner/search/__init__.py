"""Choose the next program: structures, configurations, lines of search."""
