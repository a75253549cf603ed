"""Models of time beyond the bound: tiles and waves, convolutions, PyTorch's own kernels."""
