# module: softmax
# expect: threads late
# family: work out of sight
# A thread writes the result after the call has returned.
import threading
import time

import torch


def kernel(x):
    out = torch.empty_like(x)

    def work():
        time.sleep(0.01)
        out.copy_(torch.softmax(x, dim=-1))

    threading.Thread(target=work).start()
    return out
