"""The probe itself: `python -m engine.devices.ceilings_main cuda|cpu` prints one JSON object. Imports torch.

A large copy and a large product of random data in each class, each timed alone, the best of a few runs of a few hundred
milliseconds (a ceiling is the machine's best, not its average; zeros would be 13% faster and are never used).
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable

SECONDS = 0.35  # per rate
SIZES = {"cuda": 8192, "cpu": 768}
COPY_BYTES = {"cuda": 2 << 30, "cpu": 256 << 20}


def main(device: str, each: float = SECONDS) -> dict:
    """{name, rates: {copy: bytes/s, f32: FLOP/s, ...}, refused: {class: why}, torch, seconds}."""
    import torch

    started = time.perf_counter()
    gpu = device == "cuda"
    generator = torch.Generator(device).manual_seed(0)
    name = torch.cuda.get_device_name() if gpu else "cpu"
    rates, refused = {}, {}

    def best(call: Callable[..., object], *args: object) -> float:
        """Seconds of one call, the best of those that fit into `each` after one warm-up; at least three quick ones, or
        one slow one."""
        call(*args)
        least, until, runs = float("inf"), time.perf_counter() + each, 0
        while not runs or (runs < 3 and least < each) or time.perf_counter() < until:
            if gpu:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                torch.cuda.synchronize()
                start.record()
                call(*args)
                end.record()
                torch.cuda.synchronize()
                least = min(least, start.elapsed_time(end) / 1e3)
            else:
                t = time.perf_counter()
                call(*args)
                least = min(least, time.perf_counter() - t)
            runs += 1
        return least

    source = torch.rand(COPY_BYTES[device] // 4, device=device, generator=generator)
    target = torch.empty_like(source)
    rates["copy"] = 2 * source.numel() * 4 / best(target.copy_, source)
    del source, target
    n = SIZES[device]
    kinds = {"f32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
    kinds |= {"f64": torch.float64} | ({"fp8": torch.float8_e4m3fn} if gpu else {})
    before = torch.get_float32_matmul_precision()
    for cls, dtype in kinds.items():
        if not gpu and cls in ("tf32", "f16"):
            continue
        try:
            torch.set_float32_matmul_precision("high" if cls == "tf32" else "highest")
            size = n // 2 if cls in ("f32", "f64") and gpu else n
            as_drawn = {"device": device, "dtype": torch.float32, "generator": generator}
            a, b = (torch.rand(size, size, **as_drawn).to(dtype) for _ in range(2))
            if cls == "fp8":
                one = torch.ones((), device=device)
                seconds = best(torch._scaled_mm, a, b.t(), one, one, None, None, torch.bfloat16)
            else:
                seconds = best(torch.mm, a, b)
            rates[cls] = 2 * size**3 / seconds
        except Exception as e:  # a class that this device or this torch does not have
            refused[cls] = str(e).split("\n")[0][:200]
        finally:
            torch.set_float32_matmul_precision(before)
    return {"name": name, "rates": rates, "refused": refused, "torch": torch.__version__,
            "seconds": round(time.perf_counter() - started, 2)}  # fmt: skip


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1])))
