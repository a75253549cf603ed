"""The functions that a lesson's expressions may call. Each answer comes from `sol`, a recording or a bench.

`w` is a work block of the lesson, `p` a program block; times are in ms, sizes in bytes, rates in FLOP/s and bytes/s.
The first line of a docstring is shown to a teacher who calls a function wrongly, and in playground/lessons/README.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from dsl import ir
from dsl.check import check
from dsl.printer import to_text
from dsl.resolve import resolve
from playground.learn import recorded
from sol import attainable, budget, triage
from sol.bounds import Bound, as_stored, bounds, external_bytes, fused_bound, legal_classes
from sol.graph import OpGraph
from sol.hardware import Hardware, available, load
from sol.levers import levers
from sol.model.tiles import Product, TileTime, Tiling, tile_time

GPUS = tuple(name for name in available() if name != "cpu")
IN_BYTES = {"f64": 8, "f32": 4, "tf32": 4, "f16": 2, "bf16": 2, "fp8": 1, "i8": 1}
SIGNIFICANT_BITS = {"f64": 53, "f32": 24, "tf32": 11, "f16": 11, "bf16": 8, "fp8": 4}  # with the hidden one


class FactError(ValueError):
    """A function was called with something that it cannot take; one sentence for the lesson's author."""


def gpu(name: str) -> Hardware:
    """A GPU by the name of its file in sol/hardware."""
    if name not in GPUS:
        raise FactError(f"there is no GPU {name!r}; there are {', '.join(GPUS)}")
    return load(name)


def _shown(value: Any) -> str:
    """What a teacher wrote, for a message: never a whole work block."""
    return repr(value)[:60] if isinstance(value, (str, int, float, list)) else "this"


def _graph(w: Any) -> OpGraph:
    if not isinstance(w, OpGraph):
        raise FactError(f"{_shown(w)} is no work block of this lesson")
    return w


def bound(w: Any, cls: str, device: str) -> Bound:
    """The limit of a work block in a class on a GPU, with its four roofs. Raises FactError."""
    hw, graph = gpu(device), _graph(w)
    if cls not in legal_classes(graph, hw):
        raise FactError(f"class {cls!r} does not apply; use one of {', '.join(legal_classes(graph, hw))}")
    return fused_bound(graph, hw, cls)


# ---- the chip ----


def peak(device: str, cls: str) -> float:
    """peak(gpu, class): FLOP/s of the matrix units"""
    return gpu(device).peak(cls)


def bandwidth(device: str) -> float:
    """bandwidth(gpu): bytes/s of the device memory"""
    return gpu(device).bandwidth


def ridge(device: str, cls: str) -> float:
    """ridge(gpu, class): FLOP/byte where the two roofs meet"""
    return gpu(device).ridge(cls)


def sms(device: str) -> int:
    """sms(gpu): streaming multiprocessors"""
    return gpu(device).sms


# ---- the work ----


def flops(w: Any, cls: str = "f16", device: str = "h200") -> float:
    """flops(w, class): FLOPs that no kernel can skip"""
    return bound(w, cls, device).flops


def bytes_of(w: Any, cls: str = "f16", tensor: str = "") -> float:
    """bytes(w, class, tensor=""): bytes that must move, of all tensors or of one"""
    if cls not in IN_BYTES:
        raise FactError(f"there is no class {cls!r}; there are {', '.join(IN_BYTES)}")
    moved = external_bytes(as_stored(_graph(w), cls))
    if not tensor:
        return sum(moved.values())
    for name in (tensor, f"write:{tensor}"):
        if name in moved:
            return moved[name]
    raise FactError(f"no tensor {tensor!r} must move; {', '.join(n.removeprefix('write:') for n in moved)} do")


def size(w: Any, tensor: str) -> float:
    """size(w, tensor): bytes of a tensor of the work, also of one that need not reach memory"""
    tensors = _graph(w).tensors
    if tensor not in tensors:
        raise FactError(f"there is no tensor {tensor!r}; there are {', '.join(tensors)}")
    return tensors[tensor].bytes


def intensity(w: Any, cls: str = "f16", device: str = "h200") -> float:
    """intensity(w, class): FLOP/byte"""
    return bound(w, cls, device).intensity


def limit(w: Any, cls: str = "f16", device: str = "h200") -> float:
    """limit(w, class, gpu="h200"): ms of the speed of light of the work, fused"""
    return bound(w, cls, device).ms


def unfused(w: Any, cls: str = "f16", device: str = "h200") -> float:
    """unfused(w, class, gpu="h200"): ms of the sum of the operations' own limits"""
    return bounds(_graph(w), gpu(device), cls).unfused_ms


def binds(w: Any, cls: str = "f16", device: str = "h200") -> str:
    """binds(w, class, gpu="h200"): memory, matrix, vector or special, whichever roof is the limit"""
    return bound(w, cls, device).bound_by


def roof(w: Any, which: str, cls: str = "f16", device: str = "h200") -> float:
    """roof(w, which, class, gpu="h200"): ms of one roof alone: memory, matrix, vector or special"""
    times = bound(w, cls, device)
    if which not in ("memory", "matrix", "vector", "special"):
        raise FactError(f"there is no roof {which!r}")
    return getattr(times, f"{which}_ms")


def lever(w: Any, cls: str = "f16", device: str = "h200") -> str:
    """lever(w, class, gpu="h200"): the action of the lever that saves most, for example fuse_tail"""
    ranked = levers(_graph(w), gpu(device), cls)
    return ranked[0].action if ranked else "none"


# ---- tiles ----


def tiled(
    m: int, n: int, k: int, tile: str, cls: str = "f16", split: int = 1, device: str = "h200", out: int = 4
) -> TileTime:
    shape = tuple(map(int, tile.split("x"))) if re.fullmatch(r"\d{1,9}x\d{1,9}x\d{1,9}", str(tile)) else (0,)
    if min(shape) < 1:
        raise FactError(f'{_shown(tile)} is no tile; write for example "128x256x64"')
    if cls not in IN_BYTES or min(m, n, k, split) < 1 or max(m, n, k) > 1 << 24:
        raise FactError(f"sizes and splits are from 1, and the class one of {', '.join(IN_BYTES)}")
    product = Product(1, int(m), int(n), int(k), cls, IN_BYTES[cls], out)
    scheduler = "split_k" if split > 1 else "persistent"
    return tile_time(product, Tiling(shape, scheduler=scheduler, splits=int(split)), gpu(device))


def tiles(m: int, n: int, tile: str) -> int:
    """tiles(m, n, tile): output tiles of an m x n result, with tile as "128x256x64" """
    return tiled(m, n, 64, tile).tiles


def waves(m: int, n: int, tile: str, device: str = "h200", split: int = 1) -> int:
    """waves(m, n, tile, gpu="h200", split=1): rounds in which the SMs work through the tiles"""
    return tiled(m, n, 1 << 16, tile, split=split, device=device).waves


def busy(m: int, n: int, tile: str, device: str = "h200", split: int = 1) -> float:
    """busy(m, n, tile, gpu="h200", split=1): share of the SMs' time that holds work, from 0 to 1"""
    return tiled(m, n, 1 << 16, tile, split=split, device=device).busy


def tiled_ms(m: int, n: int, k: int, tile: str, cls: str = "f16", split: int = 1, device: str = "h200") -> float:
    """tiled_ms(m, n, k, tile, class="f16", split=1, gpu="h200"): predicted ms of a tiled product"""
    return tiled(m, n, k, tile, cls, split, device).ms


# ---- programs ----


def predicted(p: Any, device: str = "h200") -> float:
    """predicted(p, gpu="h200"): predicted ms of a program block"""
    if not isinstance(p, ir.Program):
        raise FactError(f"{_shown(p)} is no program block of this lesson")
    hw = gpu(device)
    return attainable.predict(resolve(p, hw.sms), hw).ms


def error_code(p: Any, old: str, new: str) -> str:
    """error_code(p, old, new): the first error code of a program block after a change of its text, or "none" """
    if not isinstance(p, ir.Program):
        raise FactError(f"{_shown(p)} is no program block of this lesson")
    text = to_text(p)
    if old not in text:
        raise FactError(f"the program has no text {old!r}")
    checked = check(text.replace(old, new))
    return "none" if checked.program is not None else checked.diagnostics[0].code


def stages(p: Any) -> int:
    """stages(p): kernel launches of a program block"""
    if not isinstance(p, ir.Program):
        raise FactError(f"{_shown(p)} is no program block of this lesson")
    return sum(not (isinstance(s, ir.Transform) and s.prepack) for s in p.stages)


# ---- search ----


def replayed(name: str, cls: str, eps: float, window: int, field: str = "trials") -> Any:
    """replayed(session, class, eps, window, field): trials, total, saved, ms, speedup, kept or efficiency"""
    run = budget.replay(recorded.session(name, cls), eps, int(window))
    values = {
        "trials": run.trials_run, "total": run.trials_total, "saved": run.trials_saved, "ms": run.best_ms,
        "speedup": run.speedup, "kept": run.speedup_kept, "efficiency": run.efficiency,
    }  # fmt: skip
    if field not in values:
        raise FactError(f"a replay has no {field!r}; it has {', '.join(values)}")
    return values[field]


def stops(eps: float, window: int, pytorch_ms: float, limit_ms: float, times: str) -> int:
    """stops(eps, w, pytorch, limit, "ms ms ..."): trials that run before the rule ends such a search"""
    try:
        trials = tuple(budget.Trial(float(ms)) for ms in str(times).split())
    except ValueError:
        raise FactError(f'{times!r} are no times; write for example "1.4 0.9 0.95"') from None
    return budget.replay(budget.Recorded("", trials, limit_ms, pytorch_ms), eps, int(window)).trials_run


def best(name: str, cls: str) -> float:
    """best(session, class): ms of the fastest trial that counts"""
    times = [t.ms for t in recorded.session(name, cls).trials if t.ms is not None]
    if not times:
        raise FactError(f"no trial of {name} in {cls} has a time")
    return min(times)


def benched(bench: str, name: str, cls: str, words: str = "") -> float:
    """benched(bench, problem, class, words=""): measured ms of the fastest right trial with these words"""
    return min(t["ms"] for t in recorded.bench_trials(bench, name, cls, words))


def pytorch(bench: str, name: str, baseline: str = "eager_tf32") -> float:
    """pytorch(bench, problem, baseline="eager_tf32"): measured ms of PyTorch in a bench"""
    rows = recorded.problem(bench, name)["baselines"]
    if baseline not in rows:
        raise FactError(f"{name} has no baseline {baseline!r}; it has {', '.join(rows)}")
    return rows[baseline]["ms"]


# ---- precision ----


def rounding(cls: str) -> float:
    """rounding(class): the largest relative error of rounding one number, 2 ** -bits"""
    if cls not in SIGNIFICANT_BITS:
        raise FactError(f"there is no class {cls!r}; there are {', '.join(SIGNIFICANT_BITS)}")
    return 2.0 ** -SIGNIFICANT_BITS[cls]


def bits(cls: str) -> int:
    """bits(class): significant bits, with the hidden one"""
    if cls not in SIGNIFICANT_BITS:
        raise FactError(f"there is no class {cls!r}; there are {', '.join(SIGNIFICANT_BITS)}")
    return SIGNIFICANT_BITS[cls]


# ---- choices ----


def largest(**values: float) -> str:
    """largest(a=1, b=2): the name of the largest value"""
    return max(values, key=lambda name: values[name])


def smallest(**values: float) -> str:
    """smallest(a=1, b=2): the name of the smallest value"""
    return min(values, key=lambda name: values[name])


def those(**tests: Any) -> list[str]:
    """those(a=1 < 2, b=False): the names whose test holds, for a question of kind multi"""
    return [name for name, test in tests.items() if test]


def use(name: str) -> tuple[str, str]:
    """How a function is called, and what it gives: from the first line of its docstring, or its signature."""
    doc = (FUNCTIONS[name].__doc__ or "").strip().split("\n")[0]
    called, colon, gives = doc.partition("): ")
    if colon and called.startswith(f"{name}("):
        return f"{called})", gives.strip()
    arguments = {"gap": "ms, limit", "score": "ms, limit, baseline", "exponent": "gap"}
    arguments["roi"] = "speedup, gap, risk of building, risk of gain"
    return f"{name}({arguments.get(name, 'a, ...')})", doc if name in arguments else "as in Python"


# Those that take longer count as more calls; two of them more for a long work or program, of which they compare pairs.
COSTS = {"predicted": 3, "lever": 3, "unfused": 2, "error_code": 15}
_OF_PAIRS = ("predicted", "lever")


def cost(name: str, values: Sequence[Any]) -> int:
    """As how many calls a call of a function counts."""
    sizes = [len(v.ops if isinstance(v, OpGraph) else v.stages) for v in values if isinstance(v, (OpGraph, ir.Program))]
    longer = 1 + max(sizes, default=0) // 8 if name in _OF_PAIRS else 1
    return COSTS.get(name, 1) * longer**2


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs, "max": max, "min": min, "round": round,
    "peak": peak, "bandwidth": bandwidth, "ridge": ridge, "sms": sms,
    "flops": flops, "bytes": bytes_of, "size": size, "intensity": intensity, "limit": limit, "unfused": unfused,
    "binds": binds, "roof": roof, "lever": lever,
    "tiles": tiles, "waves": waves, "busy": busy, "tiled_ms": tiled_ms, "predicted": predicted, "stages": stages,
    "error_code": error_code,
    "trial": recorded.trial, "baseline": recorded.baseline, "recorded_limit": recorded.sol_limit, "best": best,
    "replayed": replayed, "stops": stops, "benched": benched, "pytorch": pytorch,
    "gap": budget.gap, "score": budget.score, "roi": triage.roi, "exponent": triage.exponent,
    "rounding": rounding, "bits": bits, "largest": largest, "smallest": smallest, "those": those,
}  # fmt: skip
