"""Back ends: they generate source text from a resolved Program. The same program always gives the same bytes.

`lower(program)` of each back end (dsl.lower.cute, dsl.lower.cpp) returns a Source, or raises Refusal if that back end
cannot express the program; the other one may.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """Generated code of one back end for one whole program.

    text     the code to compile: Python (CuTe DSL and quack) for `cute`, CUDA C++ (CUTLASS 3.x) for `cpp`.
    binding  a Python module that runs the built program on PyTorch tensors. It defines
             `load(artifact: str | None) -> run`, `run(inputs: list[Tensor], outputs: list[Tensor]) -> None`:
             inputs in parameter order, outputs allocated by the caller in result order, work on the current
             CUDA stream. For `cute` text and binding are one module and artifact is None; for `cpp` artifact is
             the path of the built shared library.
             A `cute` module also defines `build() -> None`: compile every kernel. Without a GPU
             the caller replaces what quack asks of the device (engine.build.cute_worker.plan_without_device).
    line_map (line in the printed program, first and last line in `text`), 1-based and inclusive.
    arch     the architecture to compile for.
    """

    backend: str
    language: str  # python | cuda
    text: str
    binding: str
    namespace: str
    line_map: tuple[tuple[int, int, int], ...]
    arch: str = "sm_90a"


class Refusal(Exception):
    """A back end cannot express the program: a stable code, the reason, and what to write instead."""

    def __init__(self, code: str, message: str, help: str | None = None):
        super().__init__(message)
        self.code, self.message, self.help = code, message, help
