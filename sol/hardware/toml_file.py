"""Read a device from the text of a TOML file, and name the first field that is wrong."""

from __future__ import annotations

import tomllib
from typing import Any

from sol.hardware.device import PRECISIONS, Hardware, HardwareError

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
            problem = f"not {raw[key]!r}" if key in raw else "it is missing"
            raise bad(f"{key} must be a positive number ({unit}); {problem}")
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
        # Without a figure, L2 has twice the bandwidth of memory, the least ratio in any of our files.
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
