"""The rates that this machine reaches: a short probe that runs once and is cached by device and driver.

`t_ceiling`, the page's second roof, uses these rates if they exist, otherwise those of the hardware file (our own runs
on such a device) or the published peaks. The probe takes about five seconds in its own process.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from engine import atomic_write
from engine.build.cache import content_key, default_root
from engine.devices import SessionRefused
from engine.devices.gpu_names import hardware_of
from engine.evaluate.timing import gpu_condition
from engine.jsonprocess import python_path
from sol.hardware import Hardware, load

TIMEOUT = 180.0


class ProbeError(RuntimeError):
    """The probe could not run; the message says why, in one line."""


def machine() -> tuple[str, dict[str, Any]]:
    """(cuda | cpu, the conditions of the rates: the device's name and driver, or the processor and its cores)."""
    gpu = gpu_condition.read()
    if gpu and gpu["name"]:
        return "cuda", {"name": gpu["name"], "driver": gpu["driver"]}
    return "cpu", _processor()


def _processor() -> dict[str, Any]:
    cpu = load("cpu")
    return {"name": cpu.title, "cores": cpu.sms, "system": platform.release()}


def _hardware(device: str, about: dict[str, Any]) -> Hardware | None:
    """The published figures of this machine's device; None for a GPU without figures."""
    if device == "cpu":
        return load("cpu")
    try:
        return load(hardware_of(about["name"]))
    except SessionRefused:
        return None


def _file(about: dict[str, Any]) -> Path:
    return default_root() / "ceilings" / f"{content_key(json.dumps(about, sort_keys=True))[:24]}.json"


def stored(about: dict[str, Any]) -> dict[str, Any] | None:
    """The result of an earlier probe of this machine; None if there was none."""
    try:
        result = json.loads(_file(about).read_text(encoding="utf-8"))
        return result if all(v > 0 for v in result["rates"].values()) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def probe(device: str, about: dict[str, Any], *, again: bool = False) -> dict[str, Any]:
    """The machine's rates, from the cache or by running the probe. Raises ProbeError."""
    if not again and (result := stored(about)):
        return result
    command = [sys.executable, "-m", "engine.devices.ceilings_main", device]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, "PYTHONPATH": python_path()}
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"the probe took more than {TIMEOUT:.0f} s; is the device busy?") from None
    try:
        result = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        why = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it printed nothing")
        raise ProbeError(f"the probe failed: {why[:300]}") from None
    result = {**about, **result, "name": about["name"], "date": time.strftime("%Y-%m-%d")}
    path = _file(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.write_text(path, json.dumps(result))
    return result


def applied(hw: Hardware, result: dict[str, Any]) -> Hardware:
    """The device with these rates as its ceilings. A rate above the published peak (at a clock above the published one)
    is limited to the peak, so that a ceiling is never faster than the limit."""
    rates = {}
    for cls, rate in result["rates"].items():
        top = hw.bandwidth if cls == "copy" else hw.peaks.get(cls)
        if top:
            rates[cls] = min(rate, top)
    note = f"Measured on this machine, {result.get('date', 'undated')}: a large copy and large products of random data"
    return replace(hw, measured={**hw.measured, **rates}, source={**hw.source, "measured": note})


def known(hw: Hardware) -> Hardware:
    """`hw` with this machine's own ceilings if it is this machine's device and was probed; else unchanged."""
    device, about = machine()
    mine = _hardware(device, about)
    result = stored(about) if mine is not None and mine.name == hw.name else None
    return applied(hw, result) if result else hw


def command(device: str | None, again: bool) -> str:
    """The output of `python -m engine ceilings`: each rate beside its published peak. Raises ProbeError."""
    here, about = machine()
    if device == "cuda" and here != "cuda":
        raise ProbeError("there is no NVIDIA GPU here; --device cpu probes the processor")
    if device == "cpu" and here == "cuda":
        here, about = "cpu", _processor()
    result = probe(here, about, again=again)
    hw = _hardware(here, about)
    lines = [f"{result['name']}, {result['date']}, {result['seconds']:.1f} s, torch {result['torch']}"]
    for cls, rate in result["rates"].items():
        top = None if hw is None else hw.bandwidth if cls == "copy" else hw.peaks.get(cls)
        share = f"  {rate / top:.0%} of {top / 1e12:.4g} {'published' if here == 'cuda' else 'expected'}" if top else ""
        lines.append(f"  {cls:5} {rate / 1e12:9.4g} {'TB/s   ' if cls == 'copy' else 'TFLOP/s'}{share}")
    lines += [f"  {cls:5} refused: {why}" for cls, why in result.get("refused", {}).items()]
    return "\n".join(lines)
