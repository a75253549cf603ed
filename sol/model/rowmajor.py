"""The time of a convolution that reads x and w as they lie (nchw) on the tensor cores, by mma.sync.

A block's clocks are those of dsl.rules.rowmajor, at this device's rates. Blocks stay and take tile after tile, loading
ahead; x, w and the result each meet device memory once, whatever lies around a tile being found in L2. Work, loads and
memory wait for each other in part, which the norm that joins them says.
"""

from __future__ import annotations

from math import ceil

from dsl import ir
from dsl.rules import legal, rowmajor
from sol.hardware import Hardware
from sol.model.tiles import GAP_MS, LAUNCH_MS, PROLOGUE_CLOCKS, Product, TileTime

L2_SHARE = 0.81  # of the L2's rate that boxes get beside the results that pass
PACK_MS = 0.002  # the launch before, which orders the weights


def rowmajor_time(program: ir.Program, stage: ir.Conv, p: Product, hw: Hardware) -> TileTime:
    """Predicted time of one launch of a checked row-major convolution with a tile; `p`: its implicit product.

    Raises HardwareError when the device has no units of its class, ValueError where the tile is no legal one.
    """
    problem, c = legal.program_problem(program, stage), stage.config
    stages = c.stages or rowmajor.auto_stages(problem, c.tile, None) or rowmajor.MIN_STAGES
    made = rowmajor.fitted(problem, c.tile, stages)
    clock = hw.tensor_mhz * 1e6
    l2 = L2_SHARE * hw.l2_bandwidth / hw.sms / clock  # bytes a clock of one multiprocessor
    peak = hw.peak(p.cls) / hw.sms / clock
    flops = rowmajor.MMA_SHARE * peak
    of = rowmajor.clocks(made, flops_clock=flops, l2_clock=l2, watched=problem.watched)
    tiles = made.layout.tiles
    waves, share = ceil(tiles / (hw.sms * made.blocks)), rowmajor.shared_out(made, hw.sms)
    # The epilogue's functions, before a block's next products (every tile's alike: dsl.rules.rowmajor leaves them out).
    functions = max(p.extra_flops / 128.0, p.extra_special * hw.sms * hw.boost_mhz * 1e6 / hw.sfu)
    busy = of.busy + made.layout.m * made.layout.n * functions
    tensor_ms, l2_ms = share * busy / clock * 1e3, share * of.load / clock * 1e3
    waiting = share * of.rest / made.blocks / clock * 1e3
    full = p.l * p.m * p.n
    x, w = program.type_of(stage.x.name), program.type_of(stage.w.name)
    written = full * p.out_bytes
    hbm = x.bytes + w.bytes + written + full * p.extra_bytes
    memory_ms = hbm / hw.copy_rate * 1e3
    main_ms = rowmajor.joined(tensor_ms + waiting, l2_ms, memory_ms)
    resources = {"tensor": tensor_ms + waiting, "l2": l2_ms, "memory": memory_ms}
    fill_ms = PROLOGUE_CLOCKS / clock * 1e3
    launch_ms = LAUNCH_MS + PACK_MS + GAP_MS
    by = max(resources, key=lambda r: resources[r])
    if launch_ms + fill_ms > main_ms:
        by = "launch"
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
        tiles * made.layout.chunks * made.stage_words * 4.0 + written,
        tiles,
        waves,
        full / (c.tile[0] * c.tile[1]) / (waves * hw.sms * made.blocks),
        by,
    )
