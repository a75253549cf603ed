"""The typed IR: the form in which every module after the checker sees a program.

A Program is data (frozen dataclasses): equal programs are equal values, and spans are not compared. Shapes are tuples
of positive ints; a scalar has shape (). An attribute that the author left out is None and means `auto`; `dsl.resolve`
fills each in from the architecture and the shapes.
"""

from dsl.ir.expression import Acc, Also, Call, Expr, Let, Load, Number, Ref, loads, reads_second
from dsl.ir.program import GemmShape, Param, Program, conv_shape, gemm_shape
from dsl.ir.rewrites import inlined, shifted
from dsl.ir.stages import (
    CELLS,
    NORMALIZATIONS,
    ORDERS,
    REDUCTIONS,
    SCANS,
    STATES,
    Attention,
    Collective,
    Concat,
    Config,
    Conv,
    Gemm,
    GroupedGemm,
    Map,
    Normalize,
    Operand,
    Pool,
    Recurrent,
    Reduce,
    Scan,
    Scheduler,
    Stage,
    StageBase,
    Transform,
    expressions,
    reads,
)
from dsl.ir.types import NCHW, NHWC, NOWHERE, DType, Span, TensorType

__all__ = [
    "CELLS", "NCHW", "NHWC", "NORMALIZATIONS", "NOWHERE", "ORDERS", "REDUCTIONS", "SCANS", "STATES", "Acc", "Also",
    "Attention", "Call", "Collective", "Concat", "Config", "Conv", "DType", "Expr", "Gemm", "GemmShape", "GroupedGemm",
    "Let", "Load", "Map", "Normalize", "Number", "Operand", "Param", "Pool", "Program", "Recurrent", "Reduce", "Ref",
    "Scan", "Scheduler", "Span", "Stage", "StageBase", "TensorType", "Transform", "conv_shape", "expressions",
    "gemm_shape", "inlined", "loads", "reads", "reads_second", "shifted",
]  # fmt: skip
