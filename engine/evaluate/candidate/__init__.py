"""The candidate's side: the process that runs generated programs, and the probes of a running program."""
