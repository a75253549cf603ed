"""Everything that runs code: tracing, building, evaluating, strategies. No Django. `python -m engine --help`."""
