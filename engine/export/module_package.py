"""The files of an exported module: its programs, the PyTorch operations between them, README, ModelNew and check.py."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from engine.export import composition, package
from engine.export.composition import Whole
from engine.session.titles import in_markdown
from engine.words import class_name, count

RUNTIME = {
    "__init__.py": "whole.py", "_drop_in.py": "drop_in.py", "_compose.py": "compose.py",
    "_operators.py": "operators.py", "_aten.py": "aten_calls.py", "_graph.py": "graph.py",
    "_captured.py": "captured_call.py", "_fused.py": "fused.py", "_fused_calls.py": "fused_calls.py",
}  # fmt: skip


def inside(whole: Whole) -> tuple[dict[str, str], dict[str, package.Built]]:
    """(the files below the package's own folder, each program as built by its name). Raises ExportError."""
    built = {p.name: package.build(p.program) for p in whole.placed}
    name = f"ucutlass_{whole.stem}"
    files = {path: package.shipped(source) for path, source in RUNTIME.items()}
    files["__init__.py"] = files["__init__.py"].replace("ucutlass_NAME", name)
    described = composition.to_json(whole, {part: one.compiled.digest for part, one in built.items()})
    files["composition.json"] = json.dumps(described, ensure_ascii=False) + "\n"
    for part, one in built.items():
        files |= {f"{part}/{path}": text.replace("ucutlass_NAME", f"{name}.{part}") for path, text in one.files.items()}
    return files, built


def backends(built: dict[str, package.Built]) -> tuple[str, ...]:
    """The back ends of all programs, in the order of requirements."""
    return tuple(b for b in package.NEEDS if any(b in one.facts["backends"] for one in built.values()))


def files(whole: Whole, model_new: str | None = None) -> dict[str, str]:
    """{path in the zip: text}, all below one folder. `model_new`: the text of its ModelNew (engine.export.model_new).
    Raises ExportError."""
    own, built = inside(whole)
    name, root = f"ucutlass_{whole.stem}", f"ucutlass-{whole.stem.replace('_', '-')}"
    pinned = package.requirements(backends(built)) if built else []
    digest = hashlib.sha256("".join(own.values()).encode()).hexdigest()
    contents = {
        "_wheel.py": package.shipped("wheel.py"),
        "pyproject.toml": package.pyproject(root, name, f"{whole.stem} with uCUTLASS programs", digest, pinned),
        "requirements.txt": "".join(f"{line}\n" for line in pinned),
        "README.md": _readme(whole, root, name, built),
        **{f"{name}/{path}": text for path, text in own.items()},
    }
    for p in whole.placed:
        contents[f"{p.name}.ucutlass"] = p.program.text
    if whole.module is not None:
        contents["module.py"] = whole.module
        contents["check.py"] = package.shipped("check_module.py")
        contents["_checks.py"] = package.shipped("check.py")
    if model_new is not None:
        contents["model_new.py"] = model_new
    contents |= package.facts_of_session(whole.results, whole.figures, whole.title, "its best programs")
    return {f"{root}/{path}": text for path, text in contents.items()}


def words(whole: Whole) -> str:
    """For example `2 programs in class tf32, 1 operation in PyTorch`."""
    rest = len(whole.rest)
    stays = f", {count(rest, 'operation')} in PyTorch" if rest else ""
    return f"{count(len(whole.placed), 'program')} in class {whole.cls}{stays}"


def _readme(whole: Whole, root: str, name: str, built: dict[str, package.Built]) -> str:
    arch = next((one.facts["arch"] for one in built.values()), "sm_90a")
    used = backends(built)
    inputs = [whole.graph.tensors[n] for n in whole.graph.inputs]
    takes = ", ".join(f"{t.dtype}{list(t.shape)}" for t in inputs)
    lines = [
        f"# {root}",
        "",
        f"{in_markdown(whole.title)}: the whole module, with {words(whole)}. It takes {takes}.",
        "",
        f"The programs are CUDA kernels for {package.GPUS.get(arch, arch)} ({arch}). What stays PyTorch runs as in "
        f"{class_name(whole.cls)}{', under autocast' if whole.cls in ('f16', 'bf16') else ''}.",
        "",
        "## Install",
        "",
        f"On Linux, Python 3.11 or later, with {package.TORCH} for CUDA 13 and its driver:",
        "",
        "    pip install --no-deps -r requirements.txt   # the compilers, exact versions; nothing is taken along",
        "    pip install --no-deps .                     # needs no network and no build tool",
        "",
        "NVIDIA's wheels carry NVIDIA's own licence terms.",
        *(["A C++ compiler (g++) must be there too: nvcc calls it."] if "cpp" in used else []),
        "",
        "## Use",
        "",
        f"    import {name}",
        f"    fast = {name}.optimized(model)   # your model with its weights, in eval mode",
        "    y = fast(x)",
        "",
        "`fast` shares the parameters and buffers of `model`, and has its class and its `state_dict`. The programs are "
        f"built at the first call on a GPU, or by `{name}.build()`. It is for inference: results have no gradient.",
        "torch.compile, torch.export and CUDA graphs take it: each program is one operator of `torch.library`. On a "
        "CPU, PyTorch computes the programs' operations.",
        f"A process that loads what `torch.export.save` wrote calls `{name}.operators()` first.",
    ]
    if whole.captured:
        lines += [
            "",
            "Calls on a GPU replay one CUDA graph, because that was faster in the session. It is captured at the first "
            "call, and again after the module's tensors changed. Inputs and results are copied, so the results of each "
            "call are new tensors.",
        ]
    if whole.fused:
        lines += [
            "",
            "What stays PyTorch is compiled by Inductor at the first call on a GPU, because that was faster in the "
            "session. Where Inductor fails, its operations run one by one, and a warning says so.",
        ]
    if whole.graph.writes:
        paths = [whole.graph.tensors[n].path or f"input {n}" for n in whole.graph.writes]
        lines += ["", f"A call writes {', '.join(f'`{p}`' for p in paths)}, as the original does."]
    if whole.module is not None:
        lines += [
            "",
            "## Check",
            "",
            "    python check.py                             # --device cpu, --seed N, --json OUT",
            "",
            "It runs `module.py` (the original) and the exported module on fresh inputs and prints error and time. "
            "With `--device cpu` PyTorch computes the programs, so it checks what is around them.",
        ]
    lines += ["", "## Programs", "", *(_program(p, built[p.name]) for p in whole.placed)]
    lines += [f"- PyTorch: {_listed([op.op for op in whole.rest])}"] if whole.rest else []
    lines += ["", "## Files", "", "- `region_N.ucutlass` (or `program.ucutlass`): each program as written"]
    lines += ["- `module.py`: the original; `model_new.py`: both in one file, in the form of KernelBench's solutions"]
    lines += [f"- `{name}/`: the package; `{name}.code()` shows the composed forward as Python"]
    lines += ["- `results.json`: what the session recorded of the module and each program"] if whole.results else []
    lines += ["- `figures.html`: roofline, history and times of its session"] if whole.figures else []
    notes = [f"- {p.name}: {note}" for p in whole.placed for note in built[p.name].notes]
    return "\n".join([*lines, *(["", "## Note", "", *notes] if notes else [])]) + "\n"


def _program(placed: composition.Placed, built: package.Built) -> str:
    region: dict[str, Any] = dict(placed.program.region or {})
    what = region.get("words") or built.facts["program"]
    lines = region.get("lines") or []
    at = f", line{'s' if len(lines) > 1 else ''} {', '.join(map(str, lines))}" if lines else ""
    refused = [f"no `{n}`: {r.code} {r}" for n, r in built.compiled.refused.items() if n not in built.facts["backends"]]
    by = f"{' and '.join(built.facts['backends'])}{'; ' + '; '.join(refused) if refused else ''}"
    return f"- `{placed.name}` ({what}{at}): {by}"


def _listed(names: list[str]) -> str:
    counts = {name: names.count(name) for name in dict.fromkeys(names)}
    return ", ".join(name if n == 1 else f"{name} ({n} times)" for name, n in counts.items())


__all__ = ["backends", "files", "inside", "words"]
