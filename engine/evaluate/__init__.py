"""Correctness, timing and integrity of candidates; the processes that hold the reference and the GPU."""
