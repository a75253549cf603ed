"""μCUTLASS: a small language for pipelines of CUTLASS kernels. Pure Python: no torch, no Django, no GPU."""
