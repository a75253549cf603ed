# module: matmul
# expect: side_stream late
# family: work out of sight
# Works on a stream of its own; the caller's stream has nothing to wait for.
import torch

stream = torch.cuda.Stream()


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1], device=a.device)
    with torch.cuda.stream(stream):
        torch.cuda._sleep(10_000_000)
        torch.matmul(a, b, out=c)
    return c
