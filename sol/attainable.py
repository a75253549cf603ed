"""t_attainable: what a program (or PyTorch) can be expected to take on a device, for steering and for prediction.

Never a bound and never evidence: integrity and gaps use `sol.bounds`. A program's stages run one after another, so
its time is their sum; each GEMM is priced by the tile and wave model of `sol.tiles`, each cast by its bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from dsl import ir
from dsl.functions import TABLE
from sol.hardware import Hardware
from sol.tiles import GAP_MS, LAUNCH_MS, Product, Tiling, tile_time

# The median relative error of `predict` against recorded runs; None until sweeps are recorded.
KNOWN_ERROR: float | None = None

CLASS_OF_COMPUTE = {
    ir.DType.F64: "f64",
    ir.DType.F32: "f32",
    ir.DType.TF32: "tf32",
    ir.DType.F16: "f16",
    ir.DType.BF16: "bf16",
    ir.DType.E4M3: "fp8",
    ir.DType.E5M2: "fp8",
    ir.DType.I8: "int8",
}
_DEFAULT_TILE = (128, 128, 32)


@dataclass(frozen=True)
class StageTime:
    """One launch. `parts`: where its ms go (launch, fill, main, epilogue, ...); they sum to `ms`."""

    name: str
    kind: str  # gemm | transform | library | pointwise | ...
    ms: float
    bound_by: str  # tensor | l2 | memory | epilogue | launch | special | vector
    parts: dict[str, float] = field(hash=False, default_factory=dict)
    flops: float = 0.0
    bytes: float = 0.0  # to and from device memory, re-reads included
    note: str = ""


@dataclass(frozen=True)
class Attainable:
    """A prediction. `bound_by`: what binds the stage that takes longest. `notes`: for a person."""

    ms: float
    stages: tuple[StageTime, ...]
    bound_by: str
    notes: tuple[str, ...] = ()

    @property
    def rate(self) -> float:
        """FLOP/s over the whole run."""
        return sum(s.flops for s in self.stages) / (self.ms * 1e-3)

    @property
    def intensity(self) -> float:
        """FLOP/byte with the traffic that the model expects."""
        moved = sum(s.bytes for s in self.stages)
        return sum(s.flops for s in self.stages) / moved if moved else 0.0


def stream_ms(read: float, written: float, hw: Hardware, *, launch_ms: float = LAUNCH_MS) -> float:
    """A bandwidth-bound kernel in ms: its traffic at the measured copy rate, through L2 where all of it fits."""
    moved = read + written
    rate = 0.9 * hw.copy_rate
    if moved <= 0.6 * hw.l2_bytes:  # the producer left it there; a store-bound kernel still sees about twice memory
        rate = min(0.5 * hw.l2_bandwidth, 1.6 * rate)
    return launch_ms + moved / rate * 1e3


def queued(stages: Iterable[StageTime]) -> tuple[StageTime, ...]:
    """Stages launched without waiting: from the second on, a launch hides behind its predecessor but for the gap."""
    out: list[StageTime] = []
    for s in stages:
        hidden = min(s.parts.get("launch", 0.0), LAUNCH_MS) - GAP_MS
        if any(o.ms for o in out) and hidden > 0:
            s = replace(s, ms=s.ms - hidden, parts={**s.parts, "launch": s.parts["launch"] - hidden})
        out.append(s)
    return tuple(out)


def _epilogue_cost(e: ir.Expr, program: ir.Program) -> tuple[float, float, float]:
    """Vector FLOPs, special functions and full-size operand bytes an output element."""
    if isinstance(e, ir.Call):
        fn = TABLE.get(e.fn)
        flops, special = (float(fn.flops), float(fn.special)) if fn else (1.0, 0.0)
        if e.fn == "div" and isinstance(e.args[1], ir.Number):
            flops, special = 1.0, 0.0
        moved = 0.0
        for arg in e.args:
            f, s, b = _epilogue_cost(arg, program)
            flops, special, moved = flops + f, special + s, moved + b
        return flops, special, moved
    if isinstance(e, ir.Load) and {"m", "n"} <= set(e.axes):
        kind = program.type_of(e.name)
        return 0.0, 0.0, kind.dtype.bits / 8 if kind else 4.0
    return 0.0, 0.0, 0.0


def product_of(program: ir.Program, stage: ir.Gemm) -> Product:
    """The matrix product that a checked GEMM stage poses, its epilogue's work included."""
    shape = ir.gemm_shape(program, stage)
    operand = program.type_of(stage.a.name).dtype
    compute = stage.config.compute or (ir.DType.TF32 if operand is ir.DType.F32 else operand)
    flops, special, extra = _epilogue_cost(stage.epilogue, program)
    stored = stage.store or (stage.type.dtype if stage.type else operand)
    return Product(
        shape.l,
        shape.m,
        shape.n,
        shape.k,
        CLASS_OF_COMPUTE[compute],
        operand.bits / 8,
        stored.bits / 8,
        extra,
        flops,
        special,
        shared_b=len(program.type_of(stage.b.name).shape) == 2 and shape.l > 1,
    )


def tiling_of(stage: ir.Gemm) -> Tiling:
    """The stage's configuration as the model reads it; what is still auto gets a plain default."""
    c = stage.config
    tile = c.tile or _DEFAULT_TILE
    cluster = c.cluster or (1, 1, 1)
    scheduler = c.scheduler or ir.Scheduler("persistent")
    return Tiling(
        tile,
        (cluster[0], cluster[1]),
        c.schedule or "cooperative",
        scheduler.kind,
        scheduler.splits,
        c.swizzle or 1,
    )


def _gemm(program: ir.Program, stage: ir.Gemm, hw: Hardware) -> StageTime:
    p, t = product_of(program, stage), tiling_of(stage)
    time = tile_time(p, t, hw)
    note = (
        f"{time.tiles} tiles in {time.waves} wave{'s' if time.waves > 1 else ''}, {time.busy:.0%} of the SMs' time used"
    )
    parts = {
        "launch": time.launch_ms,
        "fill": time.fill_ms,
        "main": time.main_ms,
        "epilogue": time.epilogue_ms,
        "reduction": time.reduction_ms,
    }
    return StageTime(stage.name, "gemm", time.ms, time.bound_by, parts, p.flops, time.hbm_bytes, note)


def _transform(program: ir.Program, stage: ir.Transform, hw: Hardware) -> StageTime:
    x = program.type_of(stage.x.name)
    to = stage.to or x.dtype
    if stage.prepack:
        return StageTime(stage.name, "transform", 0.0, "launch", {}, note="prepacked once a weight version, not timed")
    read, written = float(x.bytes), x.elements * to.bits / 8
    ms = stream_ms(read, written, hw)
    return StageTime(
        stage.name,
        "transform",
        ms,
        "memory" if ms > 2 * LAUNCH_MS else "launch",
        {"launch": LAUNCH_MS, "main": ms - LAUNCH_MS},
        0.0,
        read + written,
        f"{x.dtype.value} to {to.value}",
    )


def predict(program: ir.Program, hw: Hardware) -> Attainable:
    """The expected time of a checked (best: resolved) program on a device, stage by stage. Takes well under 1 ms.

    Raises HardwareError when the device has no units of a stage's compute type.
    """
    stages = queued(
        _gemm(program, s, hw) if isinstance(s, ir.Gemm) else _transform(program, s, hw) for s in program.stages
    )
    longest = max(stages, key=lambda s: s.ms)
    notes = [f"{s.name}: {s.note}" for s in stages if s.note]
    return Attainable(sum(s.ms for s in stages), stages, longest.bound_by, tuple(notes))


from sol.eager import predict_eager  # noqa: E402 - eager builds on the types above; callers find both here

__all__ = ["KNOWN_ERROR", "Attainable", "StageTime", "predict", "predict_eager", "product_of", "queued", "tiling_of"]
