"""Timing: one call on the device, paired samples, and the GPU's state."""
