"""What each GPU can do, read from the TOML beside this module: one file a GPU, each number with its source.

Rates inside a Hardware are plain per-second numbers (FLOP/s, bytes/s); the files hold TFLOP/s and TB/s because that
is how data sheets print them. A file of the user's own has the same fields and is loaded by its path.
"""

from __future__ import annotations

import os
import tomllib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

PRECISIONS = ("f64", "f32", "f16_vector", "tf32", "f16", "bf16", "fp8", "int8")
CLASSES = ("f64", "f32", "tf32", "f16", "bf16", "fp8", "i8")
_FOLDER = Path(__file__).parent


class HardwareError(ValueError):
    """A name or a file that is no hardware; the message says which field and what it should be."""


@dataclass(frozen=True)
class Hardware:
    """One device.

    `peaks`: precision -> dense FLOP/s (OP/s for `i8`, which the files call int8). `f32` is the FMA pipes,
    `f16_vector` packed halves on them, the rest matrix rates. `measured`: what our own runs reached, same keys plus
    `copy` in bytes/s; may be empty. `sfu`: special functions (exp2, log2, rcp, rsqrt, tanh) a second. `bandwidth`:
    bytes/s to device memory. `shared_block`, `shared_sm`: bytes. `source`: what is published where.
    """

    name: str
    title: str
    arch: str
    sms: int
    boost_mhz: float
    tensor_mhz: float
    bandwidth: float
    memory_bytes: float
    l2_bytes: int
    l2_bandwidth: float
    shared_block: int
    shared_sm: int
    registers_sm: int
    sfu: float
    peaks: dict[str, float] = field(hash=False)
    measured: dict[str, float] = field(hash=False, default_factory=dict)
    source: dict[str, str] = field(hash=False, default_factory=dict)
    kind: str = "gpu"

    def peak(self, cls: str) -> float:
        """Matrix FLOP/s of a precision class. Raises HardwareError when the chip has no such unit."""
        try:
            return self.peaks[cls]
        except KeyError:
            has = ", ".join(c for c in CLASSES if c in self.peaks)
            raise HardwareError(f"{self.title} has no {cls} units; its classes are {has}") from None

    def vector_peak(self, cls: str) -> float:
        """FLOP/s of the ordinary pipes when the class allows halves (two a lane) or not."""
        if cls == "f64":
            return self.peaks["f64"]
        return self.peaks["f16_vector" if cls in ("f16", "bf16", "fp8") else "f32"]

    def ceiling(self, cls: str) -> float:
        """Matrix FLOP/s that was measured on such a device; its peak where nothing was."""
        return self.measured.get(cls, self.peak(cls))

    @property
    def copy_rate(self) -> float:
        """Bytes/s of a large copy, reads plus writes, as measured; the published bandwidth where nothing was."""
        return self.measured.get("copy", self.bandwidth)

    def classes(self) -> tuple[str, ...]:
        """The precision classes that this device has a peak for."""
        return tuple(c for c in CLASSES if c in self.peaks)

    def ridge(self, cls: str) -> float:
        """FLOP/byte where the roof of this class meets the memory roof."""
        return self.peak(cls) / self.bandwidth

    def at_clock(self, mhz: float) -> Hardware:
        """The same device at another SM clock: peaks are proportional to it, memory bandwidth is not."""
        if mhz <= 0:
            raise HardwareError(f"a clock of {mhz} MHz: give the SM clock in MHz, e.g. {self.boost_mhz:.0f}")
        vector, tensor = mhz / self.boost_mhz, mhz / self.tensor_mhz
        peaks = {k: v * (vector if k in ("f32", "f64", "f16_vector") else tensor) for k, v in self.peaks.items()}
        return replace(self, peaks=peaks, sfu=self.sfu * vector, boost_mhz=mhz, tensor_mhz=mhz)


_NUMBERS = {
    "sms": "streaming multiprocessors",
    "boost_mhz": "MHz",
    "memory_tb_s": "TB/s",
    "memory_gb": "GB",
    "l2_mib": "MiB",
    "shared_block": "bytes",
    "shared_sm": "bytes",
    "registers_sm": "32-bit registers",
    "sfu_per_clock_sm": "special functions a clock and SM",
}
_WHOLE = ("sms", "shared_block", "shared_sm", "registers_sm")
_OPTIONAL_NUMBERS = {"tensor_mhz": "MHz", "l2_tb_s": "TB/s"}
_TEXTS = ("name", "title", "arch")
_TABLES = ("peaks", "measured", "source")


def from_toml(text: str, origin: str) -> Hardware:
    """A Hardware from a file's text. Raises HardwareError that names `origin`, the field and what it should hold."""

    def bad(what: str) -> HardwareError:
        return HardwareError(f"{origin}: {what}")

    try:
        raw: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as e:
        raise bad(f"not TOML: {e}") from None
    known = {*_NUMBERS, *_OPTIONAL_NUMBERS, *_TEXTS, *_TABLES}
    for key in raw:
        if key not in known:
            raise bad(f"unknown field {key!r}; the fields are {', '.join(sorted(known))}")
    for key in _TEXTS:
        if not isinstance(raw.get(key), str) or not raw[key]:
            raise bad(f"{key} must be a text, e.g. {key} = {'sm_90a' if key == 'arch' else 'my-gpu'!r}")
    for key, unit in {**_NUMBERS, **_OPTIONAL_NUMBERS}.items():
        if key not in raw and key in _OPTIONAL_NUMBERS:
            continue
        if not _positive(raw.get(key)):
            found = f"not {raw[key]!r}" if key in raw else "it is missing"
            raise bad(f"{key} must be a positive number ({unit}); {found}")
        if key in _WHOLE and raw[key] != int(raw[key]):
            raise bad(f"{key} must be a whole number ({unit}); not {raw[key]!r}")
    for key in _TABLES:
        if not isinstance(raw.get(key, {}), dict):
            raise bad(f"[{key}] must be a table")
    for table, unit in (("peaks", PRECISIONS), ("measured", (*PRECISIONS, "copy_tb_s"))):
        for key, value in raw.get(table, {}).items():
            if key not in unit:
                raise bad(f"[{table}] {key} is unknown; it may have {', '.join(unit)}")
            if not _positive(value):
                raise bad(f"[{table}] {key} must be a positive number (TFLOP/s dense), not {value!r}")
    if "f32" not in raw.get("peaks", {}):
        raise bad("[peaks] needs at least f32, in TFLOP/s")
    for key in ("peaks", "memory"):
        if not isinstance(raw.get("source", {}).get(key), str):
            raise bad(f"[source] {key} must say where the number is published")
    peaks = {k.replace("int8", "i8"): v * 1e12 for k, v in raw["peaks"].items()}
    peaks.setdefault("f16_vector", peaks["f32"])
    bandwidth = raw["memory_tb_s"] * 1e12
    return Hardware(
        name=raw["name"],
        title=raw["title"],
        arch=raw["arch"],
        sms=int(raw["sms"]),
        boost_mhz=float(raw["boost_mhz"]),
        tensor_mhz=float(raw.get("tensor_mhz", raw["boost_mhz"])),
        bandwidth=bandwidth,
        memory_bytes=raw["memory_gb"] * 1e9,
        l2_bytes=int(raw["l2_mib"] * 2**20),
        # Without a figure: an L2 about twice as fast as memory, the least that any of our files shows.
        l2_bandwidth=raw["l2_tb_s"] * 1e12 if "l2_tb_s" in raw else 2 * bandwidth,
        shared_block=int(raw["shared_block"]),
        shared_sm=int(raw["shared_sm"]),
        registers_sm=int(raw["registers_sm"]),
        sfu=raw["sfu_per_clock_sm"] * raw["sms"] * raw["boost_mhz"] * 1e6,
        peaks=peaks,
        measured={k.removesuffix("_tb_s").replace("int8", "i8"): v * 1e12 for k, v in raw.get("measured", {}).items()},
        source=dict(raw.get("source", {})),
    )


def _positive(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < float("inf")


def available() -> tuple[str, ...]:
    """Names that `load` knows, the CPU last."""
    return (*sorted(p.stem for p in _FOLDER.glob("*.toml")), "cpu")


@lru_cache(maxsize=64)
def _shipped(name: str) -> Hardware:
    return from_toml((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"), f"{name}.toml")


def load(name: str | os.PathLike) -> Hardware:
    """A device by name (`h200`, `cpu`) or a user's own file by its path (`./my-gpu.toml`).

    Raises HardwareError: an unknown name with the list of known ones, or a file's first bad field.
    """
    text = os.fspath(name)
    if text == "cpu":
        from sol.hardware.cpu import this_machine

        return this_machine()
    if text in available():
        return _shipped(text)
    if text.endswith(".toml") or os.sep in text:
        try:
            return from_toml(Path(text).read_text(encoding="utf-8"), Path(text).name)
        except (OSError, UnicodeDecodeError) as e:
            raise HardwareError(f"cannot read {text}: {getattr(e, 'strerror', None) or e}") from None
    raise HardwareError(f"no GPU is called {text!r}; choose from {', '.join(available())}, or give a path to a .toml")
