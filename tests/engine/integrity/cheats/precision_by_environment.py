# module: matmul
# expect: precision_flag
# family: environment
# The same by an environment variable.
import os

os.environ["NVIDIA_TF32_OVERRIDE"] = "1"


def kernel(a, b):
    return a @ b
