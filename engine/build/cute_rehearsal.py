"""Compile one product with CuTe DSL and quack, and throw it away: the next compilation takes a fifth less.

The first compilation in a process translates the texts of quack's kernels (40 functions, some 0.7 s of 5 s on two
cores) and warms Python and the compiler. A fork of a process that has done so has it already, so the fork server of
raw kernels does it once (engine.sandbox.forkserver.server). No text of a person has a part in it, nothing is stored,
and neither CUDA nor a thread is started: it ends before the machine code is loaded, and asks no GPU for its kind.
"""

from __future__ import annotations

from typing import Any

ARCH, CAPABILITY = "sm_90a", (9, 0)  # of engine.build.cute, whose imports no sandbox needs
TILE, CLUSTER = (128, 256, 64), (2, 1, 1)


class Compiled(BaseException):
    """Raised where the machine code would be loaded; not an Exception, which the compiler would explain."""


def before_forks() -> bool:
    """Rehearse. Returns True if machine code came out. May raise anything: quack's and CuTe DSL's insides move."""
    from cutlass.base_dsl.compiler import Compiler
    from cutlass.cutlass_dsl import CuTeDSL

    def stop(*_: Any, **__: Any) -> None:
        raise Compiled

    settings, load = CuTeDSL._get_dsl().envar, Compiler.jit
    settings.arch, Compiler.jit = ARCH, stop
    try:
        _product()
    except Compiled:
        return True
    finally:
        del settings.arch  # back to what the environment says, or the GPU when a fork asks it
        Compiler.jit = load
    return False


def _product() -> None:
    from cutlass import Float16, Float32
    from quack.epilogue.frontend import gemm_epilogue
    from quack.epilogue.ops import RowVecLoad
    from quack.gemm_runtime import host
    from quack.rounding import RoundingMode

    epilogue = gemm_epilogue(ops={"bias": RowVecLoad("bias")})(_biased)
    kind = epilogue._class_ref(((("bias", "row"),), CAPABILITY[0], False, False, (), RoundingMode.RN, (), False))
    host._compile_gemm_epi.__wrapped__(  # without quack's cache
        kind, CAPABILITY, Float16, Float16, Float32, None, "k", "k", "n", None, TILE, CLUSTER, False, True, False,
        False, False, False, False, (("bias", (Float32, 1)),),
    )  # fmt: skip


def _biased(acc: Any, bias: Any) -> dict[str, Any]:
    return {"D": acc + bias}
