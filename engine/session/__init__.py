"""A session: its spec, its log of events, the trial pipeline and the search. Importing this package loads nothing."""
