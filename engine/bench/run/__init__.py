"""Run a bench: a session on each problem, its log folded into the results file."""
