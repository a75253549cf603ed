"""Build the kernels with nvcc and the host code with g++ at the same time: 21 s instead of 36 to 43 s.

The kernels of a program of many stages are built in parts, each a cubin of a few stages: a network's whole unit would
take nvcc minutes and more memory than a build may have.

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dsl.lower import Source
from dsl.lower.cpp.emit import parts
from engine.build.cuda_toolchain import Toolchain, facts, flags, runtime
from engine.build.host_check import write_prelude
from engine.build.limited import BuildError, Ended, Limits, nvcc_place

AT_ONCE = 8  # parts of one unit
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
    mark, many = f"{source.namespace}.{os.getpid()}", parts(source.text)
    cubins = [folder / f"{mark}.{part}.cubin" for part in range(many)]
    launcher, embed = (folder / f"{mark}.{kind}" for kind in ("o", "s"))
    failed: list[BuildError] = []

    def stop() -> bool:
        return bool(failed) or limits.cancelled()

    def run(args: list[str]) -> Ended:
        try:
            return dataclasses.replace(limits, cancelled=stop).run(args, folder)
        except BuildError as error:
            failed.append(error)  # stops the others
            raise

    def device(args: list[str]) -> Ended:
        with nvcc_place(stop):
            return run(args)

    unit = f"{source.namespace}.cu"
    cutlass = [f"-I{path}" for path in toolchain.includes[:2]]
    nvcc = [str(toolchain.nvcc), *flags(source.arch), "-cubin", "-DUCUTLASS_DEVICE_ONLY", *cutlass, unit]
    host = ["g++", "-std=c++17", "-O1", "-fpermissive", "-w", "-fPIC", "-DNDEBUG", "-DUCUTLASS_LAUNCHER"]
    host += [*(f"-I{path}" for path in toolchain.includes), "-include", write_prelude(folder).name]
    host += ["-x", "c++", "-c", unit, "-o", launcher.name]
    link = ["g++", "-shared", launcher.name, embed.name, "-o", target.name, f"-L{toolchain.libraries}"]
    link += [runtime(toolchain), f"-Wl,-rpath,{toolchain.libraries}"]
    try:
        with ThreadPoolExecutor(1 + AT_ONCE) as pool:
            launch = pool.submit(run, host)
            of_part = [[f"-DUCUTLASS_PART={part}"] if many > 1 else [] for part in range(many)]
            jobs = [pool.submit(device, [*nvcc, *of, "-o", c.name]) for of, c in zip(of_part, cubins, strict=True)]
        if failed:
            raise failed[0]
        kernels, launch = [job.result() for job in jobs], launch.result()
        names = [f"{source.namespace}_cubin" + (f"_{part}" if many > 1 else "") for part in range(many)]
        embed.write_text("".join(EMBED.format(name=n, file=c.name) for n, c in zip(names, cubins, strict=True)))
        linked = run(link)
        _agree([cubin.read_bytes() for cubin in cubins], facts(target, source.namespace), source)
    finally:
        for path in (*cubins, launcher, embed):
            path.unlink(missing_ok=True)
    seconds = max(one.seconds for one in (*kernels, launch)) + linked.seconds
    peak = sum(sorted(one.peak_bytes for one in kernels)[-AT_ONCE:]) + launch.peak_bytes
    log = "\n".join(one.log for one in kernels)
    return dataclasses.replace(kernels[0], seconds=seconds, peak_bytes=peak, log=log)


def _agree(cubins: Sequence[bytes], stages: tuple[dict, ...], source: Source) -> None:
    """Raise BuildError if host and device disagree on the size or alignment of the parameters."""
    declared = {name: size for cubin in cubins for name, size in constant_bank(cubin).items()}
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
