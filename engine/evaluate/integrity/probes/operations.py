"""PyTorch's record of the operators in one call, and the proof that it recorded all of the call.

A candidate can switch the record off while PyTorch computes for it. So the record must hold operations of ours, under
names that nobody knows before, and while the call runs each of Python's calls and returns asks PyTorch whether it
records. The functions that switch it off do nothing meanwhile but count.
"""

from __future__ import annotations

import contextlib
import ctypes
import glob
import os
import secrets
import sys
import threading
from collections.abc import Callable
from typing import Any

from engine.evaluate.integrity.process.entries import Entries
from engine.evaluate.integrity.texts.symbols import plain_name

# Of the operators that PyTorch brings.
NAMESPACES = (
    "aten::", "mkldnn::", "onednn::", "quantized::", "_quantized::", "mkldnn_prepacked::", "prepacked::", "xnnpack::",
    "fbgemm::", "sparse::", "inductor::", "mkl::", "prims::",
)  # fmt: skip
# By their names in libtorch_cpu: enableRecordFunction, set_record_function_tls_, clearCallbacks and the like.
SWITCHES = (
    "_ZN2at20enableRecordFunctionEb", "_ZN2at24set_record_function_tls_ERKNS_17RecordFunctionTLSE",
    "_ZN2at14clearCallbacksEv", "_ZN2at20clearGlobalCallbacksEv", "_ZN2at25clearThreadLocalCallbacksEv",
    "_ZN2at14removeCallbackEm", "_ZN2at15disableCallbackEm",
    "_ZN5torch8autograd8profiler23toggleCollectionDynamicEb"
    "RKSt3setINS_8profiler4impl12ActivityTypeESt4lessIS5_ESaIS5_EE",
)  # fmt: skip
ASKED = ("_ZN2at23isRecordFunctionEnabledEv", "_ZN2at12hasCallbacksEv")
MOST = 2000  # names in an answer


class OpLog:
    """PyTorch's operators in a call and their counts: [[name, count]] in `ops`, after the call. Those of ATen have no
    prefix. On a CPU those of all threads. On a GPU those of the calling one: the others take Kineto, which would be
    CUPTI's second user in this process. `unrecorded`: how it shows that the record was off for a part of the call.

    Uses PyTorch's own profiler, because a dispatch mode would import torch._dynamo, which takes seconds."""

    def __init__(self, device: str) -> None:
        import torch

        how: dict[str, Any] = {"use_kineto": False}
        if device == "cpu":
            config = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
            how = {"use_kineto": True, "experimental_config": config}
        self._all_threads = device == "cpu"
        self._profile = torch.autograd.profiler.profile(**how)
        self._mark = torch.autograd.profiler.record_function
        self._switches = Entries(SWITCHES)
        self._recording = _questions()
        self._names: list[str] = []  # of our own operations
        self.ops: list[list] = []
        self.unrecorded: list[str] = []

    def __enter__(self) -> OpLog:
        self._profile.__enter__()
        self._own_operation()
        self._switches.__enter__()
        self._hook, self._inside, self._off = self._look, False, 0
        if self._all_threads:
            threading.setprofile(self._hook)
        sys.setprofile(self._hook)
        return self

    def __exit__(self, *error: Any) -> None:
        # Read the hook first: who replaces it has calls that nobody looks at.
        hook = sys.getprofile()
        sys.setprofile(None)
        if self._all_threads:
            threading.setprofile(None)
        self._switches.__exit__()
        recording = self._is_on()
        if recording:
            self._own_operation()
        counts: dict[str, int] = {}
        with contextlib.suppress(RuntimeError, AssertionError):  # of a candidate that ended the record itself
            self._profile.__exit__(*error)
            for event in self._profile.function_events:
                counts[event.name] = counts.get(event.name, 0) + 1
        missing = [name for name in self._names if counts.get(name) != 1]
        if missing or not recording:
            self.unrecorded.append("an operation of the judge's own is not in it")
        if self._off:
            self.unrecorded.append("PyTorch said within the call that it records nothing")
        if hook is not self._hook:
            self.unrecorded.append("the function that asks for it was replaced")
        called = [name.split(" of ")[0] for name in self._switches.counts]
        self.unrecorded += [f"{plain_name(name)} was called" for name in called]
        own = [(n.removeprefix("aten::"), c) for n, c in counts.items() if n.startswith(NAMESPACES)]
        self.ops = [[n, c] for n, c in own[:MOST]]

    def _own_operation(self) -> None:
        self._names.append(f"judge {secrets.token_hex(8)}")
        with self._mark(self._names[-1]):
            pass

    def _is_on(self) -> bool:
        return all(ask() for ask in self._recording)

    def _look(self, frame: Any, event: str, argument: Any) -> None:
        """At each call and return of Python, on each thread: the record must be on. One operation of ours stands within
        the first function of the text."""
        if not self._is_on():
            self._off += 1
        elif not self._inside:
            self._inside = True
            with contextlib.suppress(Exception):
                self._own_operation()


def _questions() -> list[Callable[[], bool]]:
    """PyTorch's own answers to whether the calling thread records; none where its library does not export them."""
    import torch

    paths = glob.glob(os.path.join(os.path.dirname(torch.__file__), "lib", "libtorch_cpu.*"))
    functions = []
    for path in paths[:1]:
        library = _REAL_PYDLL(path)
        for name in ASKED:
            if (function := getattr(library, name, None)) is not None:
                function.restype = ctypes.c_bool
                functions.append(function)
    return functions


_REAL_PYDLL = ctypes.PyDLL  # before native_calls.Native replaces it
