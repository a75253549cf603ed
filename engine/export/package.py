"""The files of an exported program, by their paths in the zip: texts, the pip package, README and check.py."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dsl.check.program import check
from dsl.compile import Compiled
from dsl.compile import compile as generate
from dsl.ir import Program
from dsl.lower import Source
from engine.export import Exported, ExportError
from sol.figures import Figure, page

SHIPPED = Path(__file__).parent / "shipped"
# What sessions run PyTorch's operations and a module's CUDA graph by; these files import nothing of ours.
_EVALUATE = Path(__file__).resolve().parents[1] / "evaluate"
OWN_FILES = {
    Path(name).name: _EVALUATE / name for name in ("candidate/aten_calls.py", "captured_call.py", "fused_calls.py")
}
REQUIREMENTS = Path(__file__).resolve().parents[2] / "requirements-gpu.txt"
# The packages of requirements-gpu.txt that each back end needs at run time. PyTorch (with its triton) is not among
# them: the user has a PyTorch that fits the driver.
NEEDS = {
    "cute": (
        "nvidia-cutlass-dsl", "nvidia-cutlass-dsl-libs-base", "nvidia-cutlass-dsl-libs-core",
        "nvidia-cutlass-dsl-libs-cu13", "cuda-bindings", "cuda-pathfinder", "quack-kernels", "flash-attn-4",
        "apache-tvm-ffi", "torch-c-dlpack-ext", "einops",
    ),
    "cpp": (
        "nvidia-cuda-nvcc", "nvidia-cuda-crt", "nvidia-nvvm", "nvidia-cuda-runtime", "nvidia-cuda-cccl",
        "nvidia-cutlass",
    ),
}  # fmt: skip
TORCH = "torch>=2.11"
GPUS = {"sm_80": "an A100", "sm_89": "an L4 or RTX 40", "sm_90a": "an H100 or H200", "sm_100a": "a B200"}


@dataclass(frozen=True)
class Built:
    """A program as a Python package: `files` below its folder (`cute_kernel.py`), `facts` of its facts.json, and notes
    for a person."""

    compiled: Compiled
    resolved: str
    facts: dict[str, Any]
    files: dict[str, str]
    notes: list[str]


def build(what: Exported) -> Built:
    """The program's own package. Raises ExportError for a program that cannot be built."""
    compiled = _compile(what)
    program = compiled.resolved
    sources, notes = _sources(what, compiled)
    order = [what.backend] if what.backend in sources else []
    order += [b for b in sources if b not in order]
    resolved = what.recorded.get("resolved", compiled.text)
    facts = {
        "program": program.name,
        "digest": compiled.digest,
        "arch": _arch(resolved),
        "class": what.cls,
        "backends": order,
        "parameters": [[p.name, list(p.type.shape), p.type.dtype.value] for p in program.params],
        "results": [
            [n, list(t.shape), t.dtype.value] for n, t in zip(program.results, program.result_types, strict=True)
        ],
        "tensors": dict(sorted(what.tensors.items())),
        "inputs": dict(sorted(what.inputs.items())),
        "swapped": sorted(what.swapped),
        **({"region": dict(what.region)} if what.region else {}),
    }
    inside = {
        "__init__.py": shipped("binding.py"),
        "facts.json": json.dumps(facts, indent=1, ensure_ascii=False) + "\n",
        "program.ucutlass": resolved,
    }
    if "cute" in sources:
        inside["cute_kernel.py"] = sources["cute"].text
    if "cpp" in sources:
        inside["cpp_kernel.cu"] = sources["cpp"].text
        inside["cpp_kernel.py"] = sources["cpp"].binding
        inside["_nvcc.py"] = shipped("nvcc.py")
    return Built(compiled, resolved, facts, inside, notes)


def files(what: Exported) -> dict[str, str]:
    """{path in the zip: text}, all below one folder. Raises ExportError for a program that cannot be built."""
    built = build(what)
    program, facts = built.compiled.resolved, built.facts
    stem = _stem(program.name) + _region_stem(what.region)
    package, root = f"ucutlass_{stem}", f"ucutlass-{stem.replace('_', '-')}"
    pinned = requirements(tuple(facts["backends"]))
    contents = {
        "program.ucutlass": what.text,
        "resolved.ucutlass": built.resolved,
        "check.py": shipped("check.py"),
        "_wheel.py": shipped("wheel.py"),
        "pyproject.toml": pyproject(
            root, package, f"The uCUTLASS program {program.name} on PyTorch tensors", built.compiled.digest, pinned
        ),
        "requirements.txt": "\n".join(pinned) + "\n",
        "README.md": _readme(what, facts, root, package, built.compiled, built.notes),
        **{f"{package}/{name}": text.replace("ucutlass_NAME", package) for name, text in built.files.items()},
    }
    if what.module is not None:
        contents["module.py"] = what.module
    contents |= facts_of_session(what.results, what.figures, program.name, f"trial {(what.results or {}).get('trial')}")
    return {f"{root}/{name}": text for name, text in contents.items()}


def facts_of_session(
    results: Mapping[str, Any] | None, figures: Mapping[str, Figure], title: str, holds: str
) -> dict[str, str]:
    """The files with what a session recorded. `holds`: what of it the package holds."""
    contents = {}
    if results is not None:
        contents["results.json"] = json.dumps(results, indent=1, ensure_ascii=False, sort_keys=True) + "\n"
    if figures:
        contents["figures.html"] = page.html(f"{title}: its session", figures, _from(results, holds))
    return contents


def region_words(region: Mapping[str, Any]) -> str:
    """For example `region 2 of 3`."""
    return f"region {region['number']} of {region['of']}" if region["number"] else f"one of {region['of']} regions"


def _region_stem(region: Mapping[str, Any] | None) -> str:
    return "_" + region_words(region).replace(" ", "_") if region else ""


def _from(results: Mapping[str, Any] | None, holds: str) -> str:
    """Where the numbers of the figures are from."""
    if results is None:
        return ""
    session = results["session"]
    device = session["device"].get("title") or session["device"].get("name", "")
    kind = session["device"].get("kind", "")
    return f"{session['title']} on {device}{f' ({kind})' if kind else ''}; the package holds {holds}."


def _stem(name: str) -> str:
    return re.sub(r"_+", "_", name).strip("_").lower() or "program"


def _compile(what: Exported) -> Compiled:
    checked = check(what.text)
    if checked.program is None:
        first = checked.diagnostics[0]
        raise ExportError(f"the program does not pass its checks: line {first.span.line}: {first.code} {first.message}")
    compiled = generate(checked.program, what.sms)
    if not compiled.sources:
        why = "; ".join(f"{name}: {r.code} {r}" for name, r in compiled.refused.items())
        raise ExportError(f"no back end takes the program: {why}")
    return compiled


def _sources(what: Exported, compiled: Compiled) -> tuple[dict[str, Source], list[str]]:
    """Each back end's source, and notes for a person. A recorded text replaces the generated one if they differ and it
    needs no separate binding."""
    sources, notes = dict(compiled.sources), []
    for name, text in what.recorded.items():
        if name == "resolved" or (name in sources and sources[name].text == text):
            continue
        if name == "cute":  # its text is its own binding
            sources[name] = replace(sources.get(name, Source(name, "python", "", "", "", ())), text=text, binding=text)
            notes.append(
                "`cute` is the text that the trial ran; this version of the compiler generates a different one."
            )
        else:
            notes.append(f"`{name}` was generated again: the trial ran the text of an earlier version of the compiler.")
    return {name: sources[name] for name in ("cute", "cpp") if name in sources}, notes


def _arch(resolved: str) -> str:
    match = re.search(r"^\s*arch\s+(sm_\w+)", resolved, re.MULTILINE)
    return match[1] if match else "sm_90a"


@cache
def shipped(name: str) -> str:
    """A file that every package contains unchanged."""
    return OWN_FILES.get(name, SHIPPED / name).read_text(encoding="utf-8")


@cache
def requirements(backends: tuple[str, ...]) -> list[str]:
    """The pinned requirements of these back ends, in the order of requirements-gpu.txt."""
    wanted = {name for b in backends for name in NEEDS[b]}
    lines = REQUIREMENTS.read_text(encoding="utf-8").splitlines()
    pins = [line for line in lines if line.partition("==")[0] in wanted]
    assert len(pins) == len(wanted), "requirements-gpu.txt lost a package that exports need"
    return pins


def pyproject(root: str, package: str, about: str, digest: str, pinned: Iterable[str]) -> str:
    """The text of pyproject.toml, which _wheel.py builds by."""
    listed = "".join(f'    "{line}",\n' for line in (TORCH, *pinned))
    return f"""[build-system]
requires = []
build-backend = "_wheel"
backend-path = ["."]

[project]
name = "{root}"
version = "1.0+{digest[:12]}"
description = "{about}"
requires-python = ">=3.11"
dependencies = [
{listed}]

[tool.ucutlass]
package = "{package}"
"""


def _region_section(region: Mapping[str, Any] | None) -> list[str]:
    """What part of the module the program is, and the time of that part alone."""
    if not region:
        return []
    what = f": {region['words']}" if region.get("words") else ""
    lines = region.get("lines") or []
    at = f" (line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))} of the module)" if lines else ""
    text = f"This program is {region_words(region)} of the module{what}{at}. It computes that part alone"
    if region.get("inputs") and region.get("outputs"):
        text += f": it reads {', '.join(region['inputs'])} and gives {', '.join(region['outputs'])}"
    section = ["", "## Region", "", f"{text}. The rest of the module runs in other programs or in PyTorch."]
    if region.get("ms") is not None:
        time = f"Alone it takes {region['ms']:.3g} ms ({region['kind']})"
        theirs = region.get("pytorch_ms")
        section += ["", f"{time}; PyTorch takes {theirs:.3g} ms for the same operations." if theirs else f"{time}."]
    return section


def _signature(program: Program) -> str:
    params = ", ".join(f"{p.name}: {p.type}" for p in program.params)
    return f"{program.name}({params}) -> {', '.join(map(str, program.result_types))}"


def _readme(what: Exported, facts: dict, root: str, package: str, compiled: Compiled, notes: list[str]) -> str:
    names = ", ".join(p[0] for p in facts["parameters"])
    whole = f", of which this program is {region_words(what.region)}" if what.region else ""
    times = ": `region` is this program alone, `whole_module` the module with it in place" if what.region else ""
    lines = [
        f"# {root}",
        "",
        f"`{_signature(compiled.resolved)}`",
        "",
        f"A μCUTLASS program as CUDA kernels for {GPUS.get(facts['arch'], facts['arch'])} ({facts['arch']}), with a "
        f"PyTorch package. Back ends: {', '.join(facts['backends'])}; the first is used where none is named.",
        *_region_section(what.region),
        "",
        "## Install",
        "",
        f"On Linux, Python 3.11 or later, with {TORCH} for CUDA 13 and its driver:",
        "",
        "    pip install --no-deps -r requirements.txt   # the compilers, exact versions; nothing is taken along",
        "    pip install --no-deps .                     # needs no network and no build tool",
        "",
        "`pip install .` does both and lets pip resolve NVIDIA's own (floating) requirements. NVIDIA's wheels carry "
        "NVIDIA's own licence terms.",
        *(
            ["A C++ compiler (g++) must be there too: nvcc calls it. The kernel is built on first use, once."]
            if "cpp" in facts["backends"]
            else []
        ),
        "",
        "## Check",
        "",
        "    python check.py                             # --backend, --seed, --json OUT",
        "",
        (
            "The program is a part of the module, so its back ends are held against each other."
            if what.region
            else "It runs `module.py` (the original) and each back end on fresh zero-mean inputs and prints error and "
            "time."
            if what.module is not None
            else "No module came with this program, so its back ends are held against each other. Put the original as "
            "`module.py` here (class Model, get_inputs(), get_init_inputs()) to hold them against it."
        ),
        "",
        "## Use",
        "",
        "    import torch",
        f"    import {package}",
        *(f"    # {n}: {t}{s}, contiguous, on the GPU" for n, s, t in facts["parameters"]),
        f"    y = {package}.call({names})",
        f"    {package}.run([{names}], [y])  # into tensors of yours",
        "",
        "## Files",
        "",
        "- `program.ucutlass`: the program as written; `resolved.ucutlass`: with every choice made",
        *(["- `module.py`: the original PyTorch module" + whole] if what.module is not None else []),
        *(["- `results.json`: what the recorded trial gave" + times] if what.results is not None else []),
        *(["- `figures.html`: roofline, history and times of its session, with their tables"] if what.figures else []),
        *([f"- `{package}/cute_kernel.py`: CuTe DSL"] if "cute" in facts["backends"] else []),
        *(
            [f"- `{package}/cpp_kernel.cu`: CUTLASS C++, and its binding beside it"]
            if "cpp" in facts["backends"]
            else []
        ),
        *(f"- no `{n}`: {r.code} {r}" for n, r in compiled.refused.items() if n not in facts["backends"]),
    ]
    if notes:
        lines += ["", "## Note", "", *notes]
    return "\n".join(lines) + "\n"
