"""The candidate's side: the process that runs generated programs, and what it shows of a program while it runs."""
