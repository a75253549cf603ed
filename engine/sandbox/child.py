"""The confined process: limits itself, loads torch, then answers requests until its pipe closes.

`python -m engine.sandbox.child REQUESTS REPLIES STACKS CPU_SECONDS gpu|cpu PRELOAD...` with
three descriptors. A request is
{"entry": "engine.trace.child", ...}: that module's `serve(message) -> dict` answers it. The entry is named by the
engine, never by pasted text.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import sys

from engine.sandbox import channel, limits


def main() -> None:
    requests, replies, stacks, cpu = (int(a) for a in sys.argv[1:5])
    gpu, preload = sys.argv[5] == "gpu", sys.argv[6:]
    limits.apply(cpu)
    if os.environ.get("UCUTLASS_SANDBOX") == "none":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG: what bubblewrap does for the other modes
    me = os.getpid()
    # On SIGUSR1, and on a crash, the stack goes to memory that the engine reads: which line never ended.
    log = os.fdopen(stacks, "ab", buffering=0)
    faulthandler.enable(log)
    faulthandler.register(signal.SIGUSR1, file=log, all_threads=False)

    def reply(message: dict) -> None:
        if os.getpid() != me:
            os._exit(0)  # a process that pasted code forked and that came back here: only the first one answers
        channel.write_all(replies, channel.encode(message, channel.MAX_REPLY))

    ready = {"ready": True, "pid": me}
    for name in preload:
        importlib.import_module(name)
    if gpu:
        import torch

        if not torch.cuda.is_available():
            reply({"ready": False, "code": "no_cuda", "reason": "the sandboxed process sees no CUDA device"})
            return
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        torch.cuda.synchronize()
        ready["gpu"] = torch.cuda.get_device_name(0)
    reply(ready)
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            message = channel.decode(line)
            entry = importlib.import_module(message.pop("entry"))
            try:
                answer = entry.serve(message)
            except Exception as e:  # a bug of ours, not of the module: entries explain those themselves
                import traceback

                traceback.print_exc()
                answer = {"error": {"code": "internal", "reason": f"{type(e).__name__}: {e}"[:500], "line": None}}
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            reply(answer)


if __name__ == "__main__":
    main()
