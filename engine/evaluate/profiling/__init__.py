"""Profiles of programs by Nsight Compute, where it is installed and the driver lets it read the counters."""
