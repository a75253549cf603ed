"""The state of the GPU beside a measurement, read through NVML. It is never set: clocks, power limits and modes belong
to the owner, and a harness that sets them measures another machine than the user has.
"""

from __future__ import annotations

import contextlib
import functools
import os
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from engine.build import toolchain

# The bits of NVML's clocks event reasons, in words.
THROTTLE = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "thermal (software)",
    0x40: "thermal (hardware)",
    0x80: "power brake",
    0x100: "display clocks",
}


def read(uuid: str | None = None) -> dict[str, Any] | None:
    """{name, driver, sm_mhz, memory_mhz, temperature_c, power_w, throttle} of one GPU, or None where NVML finds none.

    `uuid`: as CUDA reports it, with or without `GPU-`; without one, the first GPU that CUDA_VISIBLE_DEVICES allows. A
    value that this GPU or driver does not report is None. About 1 ms.
    """
    nvml = _library()
    handle = _handle(nvml, uuid) if nvml else None
    if handle is None:
        return None

    def ask(work: Callable[[], Any]) -> Any:
        with contextlib.suppress(nvml.NVMLError, AttributeError):
            return work()
        return None

    power = ask(lambda: nvml.nvmlDeviceGetPowerUsage(handle))
    reasons = ask(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(handle))
    if reasons is None:  # drivers before 530 have it under its old name
        reasons = ask(lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(handle))
    return {
        "name": _text(ask(lambda: nvml.nvmlDeviceGetName(handle))),
        "driver": _text(ask(nvml.nvmlSystemGetDriverVersion)),
        "sm_mhz": ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM)),
        "memory_mhz": ask(lambda: nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_MEM)),
        "temperature_c": ask(lambda: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU)),
        "power_w": None if power is None else power / 1000,
        "throttle": words(reasons),
    }


def visible() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them; [] where NVML finds none."""
    nvml = _library()
    if nvml is None:
        return []
    names = os.environ.get("CUDA_VISIBLE_DEVICES")
    if names is not None:
        return [name.strip() for name in names.split(",") if name.strip() not in ("", "-1")]
    with contextlib.suppress(nvml.NVMLError):
        return [str(i) for i in range(nvml.nvmlDeviceGetCount())]
    return []


def free_bytes(uuid: str | None = None) -> int | None:
    """Bytes of one GPU's memory that nobody holds now. `uuid`: as for `read`."""
    nvml = _library()
    handle = _handle(nvml, uuid) if nvml else None
    if handle is None:
        return None
    with contextlib.suppress(nvml.NVMLError):
        return int(nvml.nvmlDeviceGetMemoryInfo(handle).free)
    return None


def about(command: str, gpu: dict[str, Any] | None) -> dict[str, Any]:
    """The header of a file of results: {date, gpu, driver, toolchain, command}. `gpu`: of `read`; None or empty if
    nothing was measured on one. `command`: the command that a reader would type."""
    gpu = gpu or {}
    return {
        "date": datetime.now(UTC).date().isoformat(), "gpu": gpu.get("name"), "driver": gpu.get("driver"),
        "toolchain": toolchain.find().versions(), "command": command,
    }  # fmt: skip


@functools.cache
def _library() -> Any:
    """NVML, opened once per process and left open (opening takes 20 ms); None if it is not installed."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml


def words(reasons: int | None) -> list[str] | None:
    """NVML's bits in words. An empty list means that nothing limits the clocks."""
    if reasons is None:
        return None
    return [word for bit, word in THROTTLE.items() if reasons & bit]


def _handle(nvml: Any, uuid: str | None) -> Any:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    wanted = uuid or (visible.split(",")[0].strip() if visible is not None else "0")
    if not wanted or wanted == "-1":
        return None
    try:
        if wanted.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(wanted))
        name = wanted if wanted.startswith(("GPU-", "MIG-")) else f"GPU-{wanted}"
        return nvml.nvmlDeviceGetHandleByUUID(name)
    except nvml.NVMLError:
        if uuid is not None:
            return _handle(nvml, None)
        return None


def _text(value: Any) -> str | None:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
