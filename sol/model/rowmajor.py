"""The time of a convolution on the tensor cores (mma.sync) that reads x and w in their NCHW layout.

A block's clocks are those of dsl.rules.rowmajor, at this device's rates. Blocks are persistent and load ahead from tile
to tile. x, w and the result each cross device memory once; the halo of a tile comes from L2. Work, loads and memory
overlap in part, so a norm combines their times.
"""

from __future__ import annotations

from math import ceil

from dsl import ir
from dsl.rules import legal, rowmajor
from dsl.rules.problem import checks_before
from sol.hardware import Hardware
from sol.model.tiles import GAP_MS, LAUNCH_MS, PROLOGUE_CLOCKS, Product, TileTime

L2_SHARE = 0.81  # share of the L2's rate for boxes, while results pass too
PACK_MS = 0.002  # the launch before, which reorders the weights


def rowmajor_time(program: ir.Program, stage: ir.Conv, p: Product, hw: Hardware) -> TileTime:
    """Predicted time of one launch of a checked row-major convolution with a tile; `p`: its implicit product.

    Raises HardwareError when the device has no units of its class, ValueError when the tile is not legal.
    """
    problem, c = legal.program_problem(program, stage), stage.config
    stages = c.stages or rowmajor.auto_stages(problem, c.tile, None) or rowmajor.MIN_STAGES
    plan = rowmajor.fitted(problem, c.tile, stages)
    clock = hw.tensor_mhz * 1e6
    l2 = L2_SHARE * hw.l2_bandwidth / hw.sms / clock  # bytes a clock of one multiprocessor
    peak = hw.peak(p.cls) / hw.sms / clock
    flops = rowmajor.MMA_SHARE * peak
    clocks = rowmajor.clocks(plan, flops_clock=flops, l2_clock=l2, watched=problem.watched)
    tiles = plan.layout.tiles
    waves, share = ceil(tiles / (hw.sms * plan.blocks)), rowmajor.shared_out(plan, hw.sms)
    # The epilogue's functions delay a block's next products. dsl.rules.rowmajor omits them: all tiles have the same.
    functions = max(p.extra_flops / 128.0, p.extra_special * hw.sms * hw.boost_mhz * 1e6 / hw.sfu)
    busy = clocks.busy + plan.layout.m * plan.layout.n * functions
    tensor_ms, l2_ms = share * busy / clock * 1e3, share * clocks.load / clock * 1e3
    waiting = share * clocks.rest / plan.blocks / clock * 1e3
    full = p.l * p.m * p.n
    x, w = program.type_of(stage.x.name), program.type_of(stage.w.name)
    written = full * p.out_bytes
    hbm = x.bytes + w.bytes + written + full * p.extra_bytes
    memory_ms = hbm / hw.copy_rate * 1e3
    main_ms = rowmajor.joined(tensor_ms + waiting, l2_ms, memory_ms)
    resources = {"tensor": tensor_ms + waiting, "l2": l2_ms, "memory": memory_ms}
    fill_ms = PROLOGUE_CLOCKS / clock * 1e3
    launch_ms = LAUNCH_MS + PACK_MS + GAP_MS
    before = checks_before(program, stage)  # a kernel that reads x
    launch_ms += before * (GAP_MS + x.bytes / hw.copy_rate * 1e3)
    by = max(resources, key=lambda r: resources[r])
    return TileTime(
        launch_ms + fill_ms + main_ms,
        launch_ms,
        fill_ms,
        main_ms,
        0.0,
        0.0,
        tensor_ms,
        l2_ms,
        memory_ms,
        hbm,
        tiles * plan.layout.chunks * plan.stage_words * 4.0 + written,
        tiles,
        waves,
        full / (c.tile[0] * c.tile[1]) / (waves * hw.sms * plan.blocks),
        by,
        2 + before,
    )
