"""Convolutions of the `cpp` back end on the tensor cores of sm_90a: CUTLASS 3.x with im2col TMA."""
