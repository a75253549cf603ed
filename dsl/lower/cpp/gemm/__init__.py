"""Products of the `cpp` back end: plans of CUTLASS 3.x and 2.x kernels."""
