"""Kernels of our own in plain CUDA C++: map, transform, reduce, normalize, pool and direct convolution.

A stage is one or more parts (parts.py), each a kernel over an index space (space.py) whose element-wise expressions
are device functions (values.py). Sizes, strides and grids are constants of the text.
"""
