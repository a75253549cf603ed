# module: softmax
# expect: late
# family: work out of sight
# Its text waits for the stream, where nobody comes by.
import torch

own = None


def kernel(x):
    global own
    if own is None:
        own = torch.cuda.Stream()
    if x.numel() < 0:
        torch.cuda.current_stream().wait_stream(own)
    y = torch.empty_like(x)
    with torch.cuda.stream(own):
        torch.cuda._sleep(20_000_000)
        y.copy_(torch.softmax(x, dim=-1))
    return y
