"""Correctness of results: inputs, the meaning of a program on the CPU, tolerances, and the rounds of a verification."""
