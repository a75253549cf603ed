"""Convolutions of the `cute` back end: on the tensor cores, and direct ones on the CUDA cores."""
