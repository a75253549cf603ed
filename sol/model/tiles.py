"""The tile and wave model of one matrix product: the time of a tiled kernel beyond its FLOPs and bytes.

A product L x M x N x K is cut into output tiles; each SM computes its share one tile after another. Time is

    launch + prologue + waves x (main loop + exposed epilogue) + last epilogue

where a main loop is bound by the tensor cores (with a fixed cost per iteration, so small tiles reach less of the
peak), by the L2 (every tile fetches its two panels; a cluster shares them by multicast) or by device memory (the part
of a wave's panels, in raster order, that is not in L2). Quantisation counts in full: tiles that cross the edge of the
matrix, SMs without a tile and clusters that do not fit the chip's SM count.

The constants were fitted to recorded H200 times: cuBLAS and quack products of 1024x8192x8192 and 4096 cubed (f16 and
tf32), the 59-problem suite's GEMM half, and 8192-cube products. They scale to other chips by peak and clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

from sol.hardware import Hardware

LAUNCH_MS = 0.004  # a launch between two CUDA events on an otherwise idle stream
GAP_MS = 0.0015  # from the end of a kernel to the start of the next when launches are queued ahead
PROLOGUE_CLOCKS = 3000.0  # descriptor fetch, and the first pipeline stages filled from device memory
ITERATION_CLOCKS = {"wgmma": 30.0, "mma": 60.0, "simt": 40.0}  # barriers and address work per step
ISSUE_FRACTION = {"wgmma": 0.875, "mma": 0.88, "simt": 0.82}  # best share of the peak that real data sustains
TF32_ISSUE_FRACTION = 0.90  # half the switching per clock: throttles later
SM_L2_BYTES_CLOCK = 64.0  # one SM's rate from the L2
# Clocks of im2col TMA per pixel, times its bytes (4 to 16 channels in tf32, suite convolutions on an H200).
PIXEL_BYTES_CLOCKS = 184.0
EPILOGUE_ELEMENTS_CLOCK = 16.0  # output elements per clock and SM: convert, stage in shared memory, store
BOTH_ACROSS = 1.3  # tf32 with neither operand along K: the second is transposed in shared memory too
# Loads and conversions beside the products: 1024 x 8192 x 8192 on an H200, seven tiles, 0.26 to 0.37 ms (1.08 to 1.40).
CAST_STALLS = 1.33
L2_FIT = 0.7  # share of the L2 that can keep panels across waves
# Order of the p-norm over the resources: close to the maximum where loads, products and stores are asynchronous; close
# to the sum for SIMT kernels, whose epilogue stores while nothing multiplies.
OVERLAP = {"wgmma": 8.0, "mma": 4.0, "simt": 1.1}


@dataclass(frozen=True)
class Product:
    """The product. Sizes in bytes per element; `extra_*`: the epilogue's work per output element."""

    l: int  # noqa: E741 - the usual name of the batch size
    m: int
    n: int
    k: int
    cls: str
    in_bytes: float
    out_bytes: float
    extra_bytes: float = 0.0  # further tensors that the epilogue reads, bytes per output element
    extra_flops: float = 0.0
    extra_special: float = 0.0
    shared_b: bool = False  # a 2-D B against a batched A: read once
    across: str = ""  # tf32 operands that are not contiguous along K: a | b | ab
    triangle: bool = False  # the program keeps one triangle of a square result
    again: float = 1.0  # uses of an element of a convolution's x in the product, all but one from L2
    run: int = 0  # channels at one window position of a convolution: no step of K crosses it
    cast_bytes: float = 0.0  # of an element of B that is cast as it is read; 0: as `in_bytes`

    @property
    def b_bytes(self) -> float:
        return self.cast_bytes or self.in_bytes

    @property
    def flops(self) -> float:
        """FLOPs of the result that is kept: of a triangle with its diagonal."""
        return 2.0 * self.l * self.m * self.n * self.k * ((self.m + 1) / (2 * self.m) if self.triangle else 1.0)


@dataclass(frozen=True)
class Tiling:
    """How a product is cut: tile and cluster in (m, n[, k]); `scheduler`: persistent | stream_k | split_k."""

    tile: tuple[int, int, int]
    cluster: tuple[int, int] = (1, 1)
    schedule: str = "cooperative"
    scheduler: str = "persistent"
    splits: int = 1
    swizzle: int = 1


@dataclass(frozen=True)
class TileTime:
    """A predicted time. Times in ms; the parts of `ms` are `launch + fill + main + epilogue + reduction`.

    `tensor_ms`, `l2_ms`, `memory_ms` are the times of each resource alone over the whole product; `hbm_bytes` and
    `l2_bytes` the traffic; `tiles`, `waves` and `busy` (share of SM-waves that hold real work) the quantisation.
    """

    ms: float
    launch_ms: float
    fill_ms: float
    main_ms: float
    epilogue_ms: float
    reduction_ms: float
    tensor_ms: float
    l2_ms: float
    memory_ms: float
    hbm_bytes: float
    l2_bytes: float
    tiles: int
    waves: int
    busy: float
    work_by: str  # tensor | l2 | memory | epilogue: what binds its work, apart from launch and fill
    launches: int = 1


def engine_of(hw: Hardware, cls: str) -> str:
    """The instruction that multiplies: wgmma (asynchronous, Hopper and later), mma, or simt for f32 and f64."""
    if cls in ("f32",) or hw.kind == "cpu":
        return "simt"
    return "wgmma" if hw.arch.startswith(("sm_90", "sm_100")) and cls != "f64" else "mma"


@lru_cache(maxsize=4096)
def _usable_sms(sms: int, cluster: int) -> int:
    """SMs that clusters of this size can occupy: a cluster stays inside one GPC of at most 18 SMs (H100: 7 or 8
    GPCs with 16 or 18), so odd SMs of each GPC stay idle."""
    if cluster <= 1:
        return sms
    gpc = 18 if sms > 120 else 16
    full, rest = divmod(sms, gpc)
    return max(cluster, (full * (gpc // cluster) + rest // cluster) * cluster)


def tiles_of(p: Product, t: Tiling) -> int:
    """Output tiles of one product of the batch, in whole clusters. For a triangle, only the tiles that touch it, if the
    kernel skips the others (dsl.lower.cpp.gemm.gemm_3x: square steps that cover it evenly)."""
    (bm, bn), (cm, cn) = t.tile[:2], (max(1, c) for c in t.cluster[:2])
    rows, columns = ceil(ceil(p.m / bm) / cm), ceil(ceil(p.n / bn) / cn)
    able = p.cls == "tf32" or t.scheduler == "stream_k"  # only `cpp` writes these
    if p.triangle and able and bm * cm == bn * cn and p.m % (2 * bm * cm) == 0:
        return rows * (rows + 1) // 2 * cm * cn
    return rows * columns * cm * cn


def _across(p: Product, t: Tiling) -> float:
    """The factor on a step's time for a tf32 operand that passes through registers, 64 rows at a time: reading single
    elements takes five times as long as along K. The instruction's width is that of the other operand's tile."""
    if not p.across or p.cls != "tf32":
        return 1.0
    width = t.tile[0] if p.across == "b" else t.tile[1]
    return max(1.0, (5 * 64 + width) / (2 * width)) * (BOTH_ACROSS if p.across == "ab" else 1.0)


def _cast_clocks(p: Product, t: Tiling) -> float:
    """Clocks of shared memory, 128 bytes each, for a step whose B is cast as it is read: TMA writes both panels, the
    threads load B once, and each warp group of 64 columns reads all of A."""
    bm, bn, bk = t.tile
    a, b = bm * bk * p.in_bytes, bn * bk * p.cast_bytes
    return CAST_STALLS * (a + b + b + max(1, bn // 64) * a) / 128.0


def tile_time(p: Product, t: Tiling, hw: Hardware) -> TileTime:
    """Predicted time of one launch. Raises HardwareError when the device has no units of this class."""
    bm, bn, bk = t.tile
    cm, cn = max(1, t.cluster[0]), max(1, t.cluster[1])
    clock = hw.tensor_mhz * 1e6
    engine = engine_of(hw, p.cls)
    peak_sm = max(hw.peak(p.cls), hw.vector_peak("f32") if engine == "simt" else 0) / hw.sms  # FLOP/s of one SM

    tiles_m = ceil(ceil(p.m / bm) / cm) * cm
    tiles_n = ceil(ceil(p.n / bn) / cn) * cn
    tiles = tiles_of(p, t) * p.l
    splits = max(1, t.splits) if t.scheduler == "split_k" else 1
    units = tiles * splits
    sms = _usable_sms(hw.sms, cm * cn)
    k_steps = ceil((p.k // p.run * ceil(p.run / bk) if p.run else ceil(p.k / bk)) / splits)

    # One step of the main loop on one SM, in clocks of the tensor units.
    issue = TF32_ISSUE_FRACTION if engine == "wgmma" and p.cls == "tf32" else ISSUE_FRACTION[engine]
    mma = 2.0 * bm * bn * bk / peak_sm * clock / issue
    if engine == "wgmma":  # operands come from shared memory at 128 bytes a clock; narrow N starves the unit
        rows = min(bm, 64)
        fed = (rows * bk + bn * bk) * p.in_bytes / 128.0 * (bm / rows)
        mma = max(mma, fed, _across(p, t) * mma)
    if p.cast_bytes:
        mma = max(mma, _cast_clocks(p, t))
    if p.run:
        mma = max(mma, bm * PIXEL_BYTES_CLOCKS / (min(p.run, bk) * p.in_bytes))
    step = mma + ITERATION_CLOCKS[engine] * (0.7 if t.schedule == "pingpong" else 1.0)
    tile_clocks = k_steps * step

    # The epilogue of every tile. Pingpong overlaps it with the other warp group's main loop; the last one is exposed.
    lanes = 128.0  # FMA lanes an SM
    per_element = max(
        1.0 / EPILOGUE_ELEMENTS_CLOCK,
        p.extra_flops / lanes,
        p.extra_special * hw.sms * hw.boost_mhz * 1e6 / hw.sfu,
        (p.out_bytes + p.extra_bytes) * hw.sms * clock / hw.l2_bandwidth,
    )
    epilogue_clocks = bm * bn * per_element
    # cooperative: the next tile's loads continue, and the writes drain meanwhile
    hidden = min(0.85, 0.5 * tile_clocks / max(1.0, epilogue_clocks)) if t.schedule == "pingpong" else 0.35
    if engine == "simt" and bm * bn <= 128 * 128:  # two blocks per SM overlap
        hidden = 0.6

    waves = ceil(units / sms)
    # Stream-K distributes k-steps, at least one per SM: no idle wave, but shared tiles need a fix-up.
    busy_waves = max(units / sms, 1.0 / k_steps) if t.scheduler == "stream_k" else float(waves)
    main_clocks = busy_waves * tile_clocks
    epilogue_total = (busy_waves - 1 if busy_waves > 1 else 0) * epilogue_clocks * (1 - hidden) + epilogue_clocks

    tensor_ms = main_clocks / clock * 1e3
    panel = bm / cn * p.in_bytes + bn / cm * p.b_bytes  # of one step along K
    l2_bytes = tiles * p.k * panel + p.l * p.m * p.n * (p.out_bytes + p.extra_bytes)
    panels = busy_waves * k_steps * bk * panel  # of the busiest SM
    l2_ms = max(l2_bytes / hw.l2_bandwidth, panels / (SM_L2_BYTES_CLOCK * clock)) * 1e3
    hbm = _device_traffic(p, t, hw, tiles_m, tiles_n, sms, splits)
    written = p.l * p.m * p.n * p.out_bytes
    # Write-heavy traffic reaches a smaller share of the copy rate than reads.
    heavy = written / hbm if hbm else 0.0
    memory_ms = hbm / (hw.copy_rate * (0.93 - 0.17 * heavy)) * 1e3
    resources = {"tensor": tensor_ms, "l2": l2_ms, "memory": memory_ms}
    order = OVERLAP[engine]
    if engine == "simt":  # its L2 traffic is hidden by the other block of the SM
        resources["l2"] = min(l2_ms, 0.02 * tensor_ms)
    # An SM multiplies, then finishes its tile; memory and L2 work during both. So the epilogue is hidden where memory
    # binds, and adds to the time where the tensor cores bind.
    main_ms = _joined(resources.values(), order)
    exposed = resources["tensor"] + epilogue_total / clock * 1e3
    epilogue_ms = _joined((exposed, resources["l2"], resources["memory"]), order) - main_ms

    reduction_ms = 0.0
    if splits > 1:  # partial sums go to memory in f32 and come back once
        reduction_ms = 2 * splits * p.l * p.m * p.n * 4 / hw.l2_bandwidth * 1e3 + 0.5 * LAUNCH_MS
    elif t.scheduler == "stream_k":
        reduction_ms = 2 * min(sms, tiles) * bm * bn * 4 / hw.l2_bandwidth * 1e3 + 0.002
        # Blocks that share a tile add their sums one after another: 64 blocks take 0.2 ms on an H200.
        reduction_ms += max(0.0, sms / tiles - 1) * 2 * bm * bn * 4 / (SM_L2_BYTES_CLOCK * clock) * 1e3
    fill_ms = PROLOGUE_CLOCKS / clock * 1e3
    ms = LAUNCH_MS + fill_ms + main_ms + epilogue_ms + reduction_ms
    by = "epilogue" if epilogue_ms > main_ms else max(resources, key=lambda r: resources[r])
    real = p.l * p.m * p.n / (bm * bn) * splits
    return TileTime(
        ms,
        LAUNCH_MS,
        fill_ms,
        main_ms,
        epilogue_ms,
        reduction_ms,
        tensor_ms,
        l2_ms,
        memory_ms,
        hbm,
        l2_bytes,
        tiles,
        waves,
        real / (busy_waves * hw.sms),
        by,
    )


def _joined(times: Iterable[float], order: float) -> float:
    return sum(v**order for v in times) ** (1 / order)


def _device_traffic(p: Product, t: Tiling, hw: Hardware, tiles_m: int, tiles_n: int, sms: int, splits: int) -> float:
    """Bytes from and to device memory: panels of a wave that are not in L2, plus outputs.

    A wave of P tiles walked with swizzle s covers about s columns by P / s rows (or the other way, whichever the
    kernel's raster heuristic finds cheaper). An operand that fits in the L2 as a whole is fetched once.
    """
    bm, bn, _ = t.tile
    row_a, row_b = p.k * p.in_bytes / p.again, p.k * p.b_bytes
    a, b = p.m * row_a, p.n * row_b
    room = L2_FIT * hw.l2_bytes
    concurrent = max(1, sms // splits)
    per_product = tiles_m * tiles_n
    best = float("inf")
    for major, minor, panel_major, panel_minor, whole_major, whole_minor in (
        (tiles_m, tiles_n, bm * row_a, bn * row_b, a, b),
        (tiles_n, tiles_m, bn * row_b, bm * row_a, b, a),
    ):
        band = min(minor, max(1, t.swizzle) * max(t.cluster))
        rows = min(major, ceil(concurrent / band))
        columns = min(minor, max(band, ceil(concurrent / rows)))
        waves = max(1.0, per_product / (rows * columns))
        fetch_major = whole_major if whole_major <= room else rows * panel_major * waves
        fetch_minor = whole_minor if whole_minor <= room else columns * panel_minor * waves
        # A walk down a band reuses the band's panel while it fits.
        if columns * panel_minor <= room:
            fetch_minor = min(fetch_minor, whole_minor)
        if whole_major <= room:
            fetch_major = whole_major
        best = min(best, max(whole_major, fetch_major) + max(whole_minor, fetch_minor))
    operands = p.l * best - ((p.l - 1) * b if p.shared_b and b <= room else 0)
    return operands + p.l * p.m * p.n * (p.out_bytes + p.extra_bytes)
