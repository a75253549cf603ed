"""Build the kernels with nvcc and the host code with g++ at the same time: 21 s instead of 36 to 43 s.

nvcc spends most of its time on a whole unit on compiling the templates twice, for the device and then for the host.
Here nvcc builds a cubin (no host pass), g++ builds the launcher from the same text in seconds (it instantiates no
device code), and the cubin is linked in. Both compilers must agree on the layout of the kernel's
parameters, so their size is compared with what the cubin declares before the library is used.
"""

from __future__ import annotations

import dataclasses
import json
import os
import struct
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dsl.lower import Source
from engine.build.cuda_toolchain import Toolchain, facts, flags, runtime
from engine.build.host_check import write_prelude
from engine.build.limited import BuildError, Ended, Limits

# First offset of parameters in constant bank 0, rounded up to the alignment of the first parameter.
PARAMETERS_AT = {"sm_80": 0x160, "sm_89": 0x160, "sm_90a": 0x210, "sm_100a": 0x380}

EMBED = """\
  .section .rodata
  .global {name}
  .balign 64
{name}:
  .incbin "{file}"
  .section .note.GNU-stack,"",@progbits
"""


def build_halves(source: Source, folder: Path, target: Path, toolchain: Toolchain, limits: Limits) -> Ended:
    """Write the library to `target`. Return nvcc's Ended with the time and memory of all steps. Raises BuildError."""
    mark = f"{source.namespace}.{os.getpid()}"
    cubin, launcher, embed = (folder / f"{mark}.{kind}" for kind in ("cubin", "o", "s"))
    failed: list[BuildError] = []

    def stop() -> bool:
        return bool(failed) or limits.cancelled()

    def run(args: list[str]) -> Ended:
        try:
            return dataclasses.replace(limits, cancelled=stop).run(args, folder)
        except BuildError as error:
            failed.append(error)  # stops the other half
            raise

    unit = f"{source.namespace}.cu"
    cutlass = [f"-I{path}" for path in toolchain.includes[:2]]
    device = [
        str(toolchain.nvcc),
        *flags(source.arch),
        "-cubin",
        "-DUCUTLASS_DEVICE_ONLY",
        *cutlass,
        unit,
        "-o",
        cubin.name,
    ]
    host = ["g++", "-std=c++17", "-O1", "-fpermissive", "-w", "-fPIC", "-DNDEBUG", "-DUCUTLASS_LAUNCHER"]
    host += [*(f"-I{path}" for path in toolchain.includes), "-include", write_prelude(folder).name]
    host += ["-x", "c++", "-c", unit, "-o", launcher.name]
    link = ["g++", "-shared", launcher.name, embed.name, "-o", target.name, f"-L{toolchain.libraries}"]
    link += [runtime(toolchain), f"-Wl,-rpath,{toolchain.libraries}"]
    try:
        with ThreadPoolExecutor(2) as pool:
            halves = [pool.submit(run, device), pool.submit(run, host)]
        if failed:
            raise failed[0]
        kernels, launch = (half.result() for half in halves)
        embed.write_text(EMBED.format(name=f"{source.namespace}_cubin", file=cubin.name))
        linked = run(link)
        _agree(cubin.read_bytes(), facts(target, source.namespace), source)
    finally:
        for path in (cubin, launcher, embed):
            path.unlink(missing_ok=True)
    seconds = max(kernels.seconds, launch.seconds) + linked.seconds
    return dataclasses.replace(kernels, seconds=seconds, peak_bytes=kernels.peak_bytes + launch.peak_bytes)


def _agree(cubin: bytes, stages: tuple[dict, ...], source: Source) -> None:
    """Raise BuildError if host and device disagree on the size or alignment of the parameters."""
    declared = constant_bank(cubin)
    for stage in stages:
        name = f"{source.namespace}_stage_{stage['stage']}"
        start = -(-PARAMETERS_AT[source.arch] // stage["params_align"]) * stage["params_align"]
        have, want = declared.get(name), start + stage["params"]
        if have != want:
            raise BuildError(
                "compile_failed",
                f"g++ and nvcc lay out the parameters of {name} differently: {want} bytes against {have}",
                json.dumps(stages),
            )


def constant_bank(cubin: bytes) -> dict[str, int]:
    """Size in bytes of each kernel's constant bank 0, which ends with its parameters."""
    offset, count, names_at = struct.unpack_from("<Q", cubin, 40)[0], *struct.unpack_from("<HH", cubin, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", cubin, offset + i * 64) for i in range(count)]
    strings = sections[names_at][4]
    sizes = {}
    for section in sections:
        start = strings + section[0]
        name = cubin[start : cubin.index(b"\0", start)].decode()
        if name.startswith(".nv.constant0."):
            sizes[name.removeprefix(".nv.constant0.")] = section[5]
    return sizes
