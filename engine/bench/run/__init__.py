"""Run a bench: one session per problem, and fold its log into the results file."""
