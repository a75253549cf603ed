"""What this very machine reaches: a short probe that runs once, kept beside the builds by device and driver.

`t_ceiling`, the page's second roof, uses these rates where there are any, and otherwise those of the hardware file
(our own runs on such a device) or the published peaks. The probe takes about five seconds in a process of its own.
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
from sol.hardware import Hardware, load

TIMEOUT = 180.0
_REPOSITORY = Path(__file__).resolve().parents[2]


class ProbeError(RuntimeError):
    """The probe could not run; the message says why, in one line."""


def machine() -> tuple[str, dict[str, Any]]:
    """(cuda | cpu, what the rates depend on: the device's name and driver, or the processor and its cores)."""
    found = gpu_condition.read()
    if found and found["name"]:
        return "cuda", {"name": found["name"], "driver": found["driver"]}
    return "cpu", _processor()


def _processor() -> dict[str, Any]:
    cpu = load("cpu")
    return {"name": cpu.title, "cores": cpu.sms, "system": platform.release()}


def _hardware(device: str, about: dict[str, Any]) -> Hardware | None:
    """The published figures of this machine's device; None for a GPU that we have none of."""
    if device == "cpu":
        return load("cpu")
    try:
        return load(hardware_of(about["name"]))
    except SessionRefused:
        return None


def _file(about: dict[str, Any]) -> Path:
    return default_root() / "ceilings" / f"{content_key(json.dumps(about, sort_keys=True))[:24]}.json"


def kept(about: dict[str, Any]) -> dict[str, Any] | None:
    """What an earlier probe of this machine found; None where there was none."""
    try:
        found = json.loads(_file(about).read_text(encoding="utf-8"))
        return found if all(v > 0 for v in found["rates"].values()) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def probe(device: str, about: dict[str, Any], *, again: bool = False) -> dict[str, Any]:
    """The machine's rates, from the cache or by running the probe. Raises ProbeError."""
    if not again and (found := kept(about)):
        return found
    paths = os.pathsep.join([str(_REPOSITORY), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-m", "engine.devices.ceilings_main", device]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=TIMEOUT, env={**os.environ, "PYTHONPATH": paths}
        )
    except subprocess.TimeoutExpired:
        raise ProbeError(f"the probe took more than {TIMEOUT:.0f} s; is the device busy?") from None
    try:
        found = json.loads(done.stdout.splitlines()[-1])
    except (IndexError, ValueError):
        why = next((line for line in reversed(done.stderr.splitlines()) if line.strip()), "it printed nothing")
        raise ProbeError(f"the probe failed: {why[:300]}") from None
    found = {**about, **found, "name": about["name"], "date": time.strftime("%Y-%m-%d")}
    path = _file(about)
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic_write.write_text(path, json.dumps(found))
    return found


def applied(hw: Hardware, found: dict[str, Any]) -> Hardware:
    """The device with these rates as its ceilings. A rate above the published peak (a clock above the one that it
    is published at) is kept at the peak, so that a ceiling is never faster than the limit."""
    rates = {}
    for cls, rate in found["rates"].items():
        top = hw.bandwidth if cls == "copy" else hw.peaks.get(cls)
        if top:
            rates[cls] = min(rate, top)
    note = f"Measured on this machine, {found.get('date', 'undated')}: a large copy and large products of random data"
    return replace(hw, measured={**hw.measured, **rates}, source={**hw.source, "measured": note})


def known(hw: Hardware) -> Hardware:
    """`hw` with this machine's own ceilings when it is this machine's device and was probed before; else unchanged."""
    device, about = machine()
    mine = _hardware(device, about)
    found = kept(about) if mine is not None and mine.name == hw.name else None
    return applied(hw, found) if found else hw


def command(device: str | None, again: bool) -> str:
    """What `python -m engine ceilings` prints: each rate beside its published peak. Raises ProbeError."""
    here, about = machine()
    if device == "cuda" and here != "cuda":
        raise ProbeError("there is no NVIDIA GPU here; --device cpu probes the processor")
    if device == "cpu" and here == "cuda":
        here, about = "cpu", _processor()
    found = probe(here, about, again=again)
    hw = _hardware(here, about)
    lines = [f"{found['name']}, {found['date']}, {found['seconds']:.1f} s, torch {found['torch']}"]
    for cls, rate in found["rates"].items():
        top = None if hw is None else hw.bandwidth if cls == "copy" else hw.peaks.get(cls)
        share = f"  {rate / top:.0%} of {top / 1e12:.4g} {'published' if here == 'cuda' else 'expected'}" if top else ""
        lines.append(f"  {cls:5} {rate / 1e12:9.4g} {'TB/s   ' if cls == 'copy' else 'TFLOP/s'}{share}")
    lines += [f"  {cls:5} refused: {why}" for cls, why in found.get("refused", {}).items()]
    return "\n".join(lines)
