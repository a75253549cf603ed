# module: gate
# family: library in disguise
# A thread for each element, in CuTe DSL.
import cutlass
import cutlass.cute as cute
import torch
import torch.nn as nn
from cuda.bindings.driver import CUstream
from cutlass.cute.runtime import from_dlpack

THREADS = 256


@cute.kernel
def gate(x: cute.Tensor, y: cute.Tensor, z: cute.Tensor, n: cutlass.Int32):
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    i = block * THREADS + thread
    if i < n:
        v = x[i]
        z[i] = v / (cutlass.Float32(1.0) + cute.math.exp(-v)) + y[i]


@cute.jit
def launch(x: cute.Tensor, y: cute.Tensor, z: cute.Tensor, n: cutlass.Int32, stream: CUstream):
    gate(x, y, z, n).launch(grid=((n + THREADS - 1) // THREADS, 1, 1), block=(THREADS, 1, 1), stream=stream)


def dense(t):
    return from_dlpack(t.reshape(-1), assumed_align=16).mark_layout_dynamic()


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.compiled = None

    def forward(self, x, y):
        z = torch.empty_like(x)
        stream = CUstream(torch.cuda.current_stream().cuda_stream)
        arguments = (dense(x), dense(y), dense(z), cutlass.Int32(x.numel()), stream)
        if self.compiled is None:
            self.compiled = cute.compile(launch, *arguments)
        self.compiled(*arguments)
        return z
