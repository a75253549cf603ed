"""Run a bench: which problems, in which order, and the results file."""
