"""How likely a guarded program trips on the module's own inputs, and what its time is then.

Each product of a network whose weights are as PyTorch draws them makes activations smaller, some 1.7 to 2.4 times where
a relu follows. A norm over the values themselves ends that; a batch norm with its first statistics does not. So it is
the deepest chain of products between norms that decides. Of KernelBench's networks with eight such products (AlexNet)
none tripped on an H200; SqueezeNet, ShuffleNet, MobileNetV1 and EfficientNet-B1, with 10 to 40 in a region, did.

    depth(program)               # products one after the other, whose results a guard watches
    rescue_ms(program, hw)       # what a call takes longer whose guard trips
    expected_ms(ms, program, hw) # ms, and the rescue by how likely it is
"""

from __future__ import annotations

from dsl.ir import Attention, Collective, Normalize, Program, reads
from dsl.lower.plan.rescue import chosen, leaves_out, leaves_out_own, simt_ms
from sol.attainable import predict
from sol.hardware import Hardware, HardwareError

SAFE = 8  # products in a chain that have not tripped
BY_DEPTH, AT_MOST = 0.05, 0.5  # chance for each further one


def depth(program: Program) -> int:
    """The most products on one way through the program since its inputs or a norm."""
    at: dict[str, int] = {}
    for s in program.stages:
        before = max((at.get(name, 0) for name in reads(s)), default=0)
        fresh = isinstance(s, Attention) or (isinstance(s, Normalize) and s.op != "batchnorm")
        here = 0 if fresh else before
        here += isinstance(s, Collective)
        for name in (s.name, *(a.name for a in getattr(s, "also", ()))):
            at[name] = here
    return max(at.values(), default=0)


def chance(program: Program) -> float:
    """That the guard of a program trips on inputs of an ordinary size; 0 without a guard."""
    return min(AT_MOST, BY_DEPTH * max(0, depth(program) - SAFE)) if program.guard else 0.0


def rescue_ms(program: Program, hw: Hardware) -> float:
    """The ms that a tripped guard adds to a call: those of the pipeline that computes all again, less those of the
    stages that are left out then. Raises HardwareError."""
    again = chosen(program)
    on_cuda_cores = {s.name: simt_ms(again, s) for s in again.stages}
    added = sum(max(s.ms, on_cuda_cores[s.name]) for s in predict(again, hw).stages)
    left_out = {s.name for s in program.stages if leaves_out(program, s) or leaves_out_own(program, s)}
    return added - sum(s.ms for s in predict(program, hw).stages if s.name in left_out)


def expected_ms(ms: float, program: Program, hw: Hardware) -> float:
    """The mean of a program's time in ms with and without its rescue."""
    risk = chance(program)
    if not risk:
        return ms
    try:
        return ms + risk * rescue_ms(program, hw)
    except HardwareError:
        return ms


__all__ = ["chance", "depth", "expected_ms", "rescue_ms"]
