"""The confined process: sets its limits, loads torch, then answers requests until its pipe closes.

`python -m engine.sandbox.child REQUESTS REPLIES STACKS CPU_SECONDS gpu|cpu PRELOAD...`; the first three are file
descriptors. The request {"entry": "engine.trace.child", ...} is answered by that module's `serve(message) -> dict`. The
engine sets the entry, never the pasted text. With a GPU, each of PRELOAD may have a `before_texts()`, which uses it
before the process is ready.

{"fork": true} forks a copy of this process, which answers until {"end": true} or its death. Then the first process,
which has run no pasted text, reports the end, skips requests that were meant for the copy until {"back": word}, and
continues. So torch (1.5 s) is loaded once for many texts.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import shutil
import signal
import sys

from engine import start
from engine.sandbox import channel, limits, watch


def main(arguments: list[str]) -> None:
    requests, replies, stacks, cpu = (int(a) for a in arguments[:4])
    gpu, preload = arguments[4] == "gpu", arguments[5:]
    limits.apply(cpu)
    if os.environ.get("UCUTLASS_SANDBOX") == "none":
        import ctypes

        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG, as bubblewrap does in the other modes
    me = os.getpid()
    # On SIGUSR1 and on a crash, the stack is written to memory that the engine reads, to find the current line.
    log = os.fdopen(stacks, "ab", buffering=0)
    faulthandler.enable(log)
    faulthandler.register(signal.SIGUSR1, file=log, all_threads=False)

    def send(line: bytes) -> None:
        # `me` is the process that may answer. Only a requested fork changes it.
        if os.getpid() != me:
            os._exit(0)  # pasted code forked this process, and only the first one may answer
        channel.write_all(replies, line)

    def reply(message: dict) -> None:
        send(channel.encode(message, channel.MAX_REPLY))

    ready = {"ready": True, "pid": me}
    with start.importing():
        for name in preload:
            importlib.import_module(name)
    if gpu:
        import torch

        if not torch.cuda.is_available():
            reply({"ready": False, "code": "no_cuda", "reason": "the sandboxed process sees no CUDA device"})
            return
        torch.cuda.init()
        torch.zeros(1, device="cuda")
        for module in (sys.modules[name] for name in preload):
            if hasattr(module, "before_texts"):
                module.before_texts()
        torch.cuda.synchronize()
        ready["gpu"] = torch.cuda.get_device_name(0)
    reply(ready)
    passing = False
    with os.fdopen(requests, "rb") as lines:
        for line in lines:
            message = channel.decode(line)
            if "resident_limit" in message:
                limits.bound_memory(message.pop("resident_limit"))
            if passing:  # the copy died before it read this request, which is not served here
                if "back" in message:
                    passing = False
                    reply({"back": message["back"]})
                continue
            if message.get("end"):
                os._exit(0)  # the parent answers after we end
            if message.get("fork"):
                me, status = _fork()
                passing = status is not None
                reply({"forked": me} if status is None else {"ended": status})
                continue
            entry = importlib.import_module(message.pop("entry"))
            try:
                answer = channel.encode(entry.serve(message), channel.MAX_REPLY)
            except BaseException as e:  # entries explain what the text raises while they call it
                answer = channel.encode({"error": _explained(e)}, channel.MAX_REPLY)
            with contextlib.suppress(OSError, ValueError):
                sys.stdout.flush()
            send(answer)


def _explained(error: BaseException) -> dict:
    """The refusal for an error that left an entry: one of the pasted text, if our code called a method of one of its
    objects without expecting an error (`__str__`, `__eq__`, `__class__`), else our mistake."""
    place, tb = None, error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == channel.PASTED:
            place = (tb.tb_lineno, tb.tb_frame.f_code.co_qualname)
        tb = tb.tb_next
    kind = type.__dict__["__name__"].__get__(type(error))[:80]  # not that of a metaclass
    if isinstance(error, watch.Blocked):
        return {"code": error.code, "reason": f"Line {error.line} {error.reason}.", "line": error.line}
    if place is not None:
        return {"code": "module_raised", "reason": f"Line {place[0]}: {place[1]} raised {kind}.", "line": place[0]}
    import traceback

    traceback.print_exc()
    try:
        text = str.__str__(str(error))
    except Exception:
        text = "an error without a message"
    return {"code": "internal", "reason": f"{kind}: {text}"[:500], "line": None}


def _fork() -> tuple[int, int | None]:
    """Return (own process id, None) in the copy and, in the first process after the copy's end, (own id, wait
    status)."""
    import ctypes

    dumpable = ctypes.CDLL(None).prctl
    dumpable(4, 0)  # PR_SET_DUMPABLE: keep the copy from this process's memory in /proc
    pid = os.fork()
    if pid == 0:
        dumpable(4, 1)
        return os.getpid(), None
    _, status = os.waitpid(pid, 0)
    for folder in {os.environ.get("HOME", "/scratch"), "/dev/shm"} & {"/scratch", "/dev/shm"}:
        for entry in os.scandir(folder):
            with contextlib.suppress(OSError):
                shutil.rmtree(entry.path) if entry.is_dir(follow_symlinks=False) else os.unlink(entry.path)
    return os.getpid(), os.waitstatus_to_exitcode(status)


if __name__ == "__main__":
    main(sys.argv[1:])
