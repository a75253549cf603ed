"""A bench's results for people: tables, coverage, figures, and the files that are committed."""
