"""Generated kernels in CUDA C++: map, transform, reduce, normalize, pool, and direct and row-major convolutions.

A stage is one or more parts (parts.py). A part is a kernel over an index space (space.py), and its element-wise
expressions are device functions (values.py). Sizes, strides and grids are constants in the code.
"""
