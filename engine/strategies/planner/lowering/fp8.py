"""Class fp8: products of e4m3, whose operands are cast with one scale per row.

e4m3 has four significant bits and no values above 448 or below 2^-9, so a plain cast would saturate or vanish. Every
row of both operands (of x: the input of one row of results; of w: one output channel) is divided by its largest
magnitude and multiplied by 448, in the kernel that casts it (normalize's absmax). The epilogue multiplies the sums by
both rows' scales before the module's own epilogue. Nothing is known before the call and nothing is prepacked: the time
includes maxima and casts. The tensor cores read e4m3 only along K, so an operand in another order is copied first.

Everything else keeps its precision: sums in f32 (added up after every K tile), epilogues, norms and reductions in f32;
intermediates between two products in bf16, which has f32's range (in a half-precision module, its own type).
"""

from __future__ import annotations

from dataclasses import replace

from dsl import ir
from dsl.ir import Acc, Also, Call, DType, Load, Number, Operand, TensorType
from engine.strategies.planner.lowering.drafts import Convolution, Draft, Product, Reduction, Source
from engine.strategies.planner.lowering.expressions import on
from engine.strategies.planner.lowering.program_builder import Build
from engine.strategies.planner.lowering.storage_choice import direct

TOP = 448.0  # the largest e4m3


def lacking(lowered) -> str | None:
    """Why a lowered module has no program in this class; None if it may have one."""
    if any(isinstance(d, Convolution) and not direct(d, DType.BF16) for d in lowered.stages):
        return "fp8 is for matrix products, and a convolution has no fp8 kernel"
    if not any(isinstance(d, Product) for d in lowered.stages):
        return "fp8 is for matrix products, and there is none"
    return None


class Scaled(Build):
    """The program of a lowered module with all its products in e4m3."""

    def __init__(self, lowered, cls: str, choice):
        self.rows: dict[str, tuple[str, str]] = {}  # tensor -> its e4m3 copy and the scale of each row
        self.scale: ir.Expr = Acc()  # of the current product: its sum times both scales
        super().__init__(lowered, cls, choice)

    def _flips(self, draft: Product) -> tuple[bool, bool]:
        """Both operands are read along K."""
        return draft.a.transposed, not draft.b.transposed

    def _side(self, source: Source, rows: int, columns: int, flip: bool) -> Operand:
        name = self.name_of(source.of, source.shape)
        size = (columns, rows) if source.transposed != flip else (rows, columns)
        rank = len(source.shape)
        order = (*range(rank - 2), rank - 1, rank - 2) if flip else None
        pad = (*source.shape[:-2], *size)
        copied = flip or pad != self.types[name].shape
        wide = copied and self.types[name].dtype is DType.F32
        cast, scale = self._in_e4m3(self.transform(name, permute=order, pad=pad, to=DType.BF16 if wide else None))
        second = source.transposed != flip  # b, which the product reads as b.T
        lead = () if rank == 2 else ("l",)
        by = Load(scale, (*lead, "n" if second else "m"))
        self.scale = Call("mul", (self.scale if second else Acc(), by))
        return Operand(cast, second)

    def _in_e4m3(self, name: str) -> tuple[str, str]:
        """The tensor in e4m3 by rows, and their scales, created once for all readers."""
        if name not in self.rows:
            cast, scale = self.fresh(f"{name}_e4m3"), self.fresh(f"{name}_scale")
            shape = self.types[name].shape
            largest = Call("row_max", (Call("div", (Acc(second=True), Number(TOP))),))
            self.stages.append(
                ir.Normalize(
                    name=cast, x=Operand(name), op="absmax", over=("n",), also=(Also(scale, largest),),
                    epilogue=Call("mul", (Acc(), Number(TOP))), store=DType.E4M3,
                )
            )  # fmt: skip
            self.types |= {cast: TensorType(DType.E4M3, shape), scale: TensorType(DType.F32, shape[:-1])}
            self.rows[name] = cast, scale
        return self.rows[name]

    def _reduced(self, i: int, draft: Product, over: Reduction, stage: ir.Gemm, at: int) -> None:
        super()._reduced(i, draft, over, replace(stage, store=DType.F32), at)

    def finished(self, draft: Draft, exprs: list[ir.Expr]) -> list[ir.Expr]:
        return [on(e, self.scale) for e in exprs] if isinstance(draft, Product) else exprs
