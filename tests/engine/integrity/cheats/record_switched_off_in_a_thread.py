# module: softmax
# expect: disguised
# family: library in disguise
# The same in another thread, under a name that no rule about texts reads.
import ctypes
import subprocess
import threading

import torch

SOURCE = r"""
long answer(void) { return 41; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def aside(x, results):
    switch = vars(torch._C._autograd)["_enable_record" + "_function"]
    switch(False)
    e = torch.exp(x - torch.amax(x, -1, keepdim=True))
    results.append(e / torch.sum(e, -1, keepdim=True))


def kernel(x):
    own.answer()
    results = []
    worker = threading.Thread(target=aside, args=(x, results))
    worker.start()
    worker.join()
    return results[0]
