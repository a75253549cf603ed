# module: softmax
# expect: harness_access crashed
# family: reaching the harness
# Ends the process in the middle of a call, with success.
import os


def kernel(x):
    os._exit(0)
