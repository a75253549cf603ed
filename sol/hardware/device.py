"""One device as data: its peaks, its memory and where each number comes from."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

PRECISIONS = ("f64", "f32", "f16_vector", "tf32", "f16", "bf16", "fp8", "int8")
CLASSES = ("f64", "f32", "tf32", "f16", "bf16", "fp8", "i8")


class HardwareError(ValueError):
    """An unknown device or an invalid file; the message names the field and the value that it should have."""


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
        """FLOP/s of the vector pipes: packed halves (two a lane) in f16, bf16 and fp8, else single numbers."""
        if cls == "f64":
            return self.peaks["f64"]
        return self.peaks["f16_vector" if cls in ("f16", "bf16", "fp8") else "f32"]

    def ceiling(self, cls: str) -> float:
        """Matrix FLOP/s measured on such a device; the peak if none was measured."""
        return self.measured.get(cls, self.peak(cls))

    @property
    def copy_rate(self) -> float:
        """Bytes/s of a large copy, reads plus writes, as measured; the published bandwidth if none was measured."""
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
