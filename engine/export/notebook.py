"""A trial as a notebook: what came of it, the program as a ModelNew, a check against the module and a timing."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from engine.export import model_new, module_package, package
from engine.export.composition import Whole
from engine.session.titles import in_markdown
from engine.words import baseline_name, class_name

LOAD = """\
import copy
import importlib
import types
from pathlib import Path

import _checks
import torch

DEVICE = "cuda"
torch.manual_seed(0)
torch.set_grad_enabled(False)
package = importlib.import_module("model_new")._package()
about = types.SimpleNamespace(FACTS={"class": package.CLASS})
module = _checks.Original(torch, about, Path("model_new.py"), DEVICE)

def called(model):
    inputs, named = _checks.mapped(torch, (module.inputs, module.named), lambda x: x.clone())
    return module.results(model, model(*inputs, **named), (inputs, named))

if package.FIRST_CALL:  # what every call but the first computes
    called(module.model)
module.writes = package.WRITES
module.run()
program = package.optimized(copy.deepcopy(module.model))
if package.FIRST_CALL:
    called(program)
    program.load_state_dict(module.model.state_dict())
"""
CHECK = """\
each = [_checks.compare(torch, mine, right) for mine, right in zip(called(program), module.right, strict=True)]
error, largest, unexpected = _checks.worst(each)
print(f"relative error {error:.2e} against the module in {module.right_as}; PyTorch's own {module.own_text()}")
"""
TIME = """\
def median_ms(call, runs=30):
    times = []
    for _ in range(runs):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record(); call(); end.record(); torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[runs // 2]

def run(model):
    return model(*module.inputs, **module.named)

for _ in range(3):
    run(module.model), run(program)
ours, theirs = median_ms(lambda: run(program)), median_ms(lambda: run(module.model))
print(f"program {ours:.4f} ms, PyTorch eager {theirs:.4f} ms: {theirs / ours:.2f} times as fast")
"""


def text(what: Whole) -> str:
    """The notebook as JSON (nbformat 4.5). Raises ExportError as model_new.text does."""
    file = model_new.text(what)
    pinned = package.requirements(module_package.backends(module_package.inside(what)[1]))
    cells = [
        _cell("markdown", _about(what)),
        _cell("code", "%pip install --no-deps " + " ".join(pinned)),
        _cell("markdown", "The module with its programs, in the form of KernelBench's solutions."),
        _cell("code", f"%%writefile model_new.py\n{file}"),
        _cell("markdown", "How a module, its inputs and its results are read: as in every exported package."),
        _cell("code", f"%%writefile _checks.py\n{package.shipped('check.py')}"),
        _cell("code", LOAD),
        _cell("markdown", "Against the module in float64, or float32 where it has convolutions:"),
        _cell("code", CHECK),
        _cell("markdown", "A simple timing. The playground's own also flushes the L2 cache and alternates both."),
        _cell("code", TIME),
    ]
    if what.results is not None:
        recorded = json.dumps(what.results, indent=1, ensure_ascii=False, sort_keys=True)
        cells += [_cell("markdown", "What was recorded, as JSON:"), _cell("code", f"recorded = r'''{recorded}'''")]
    for number, cell in enumerate(cells):
        cell["id"] = hashlib.sha256(f"{number}{cell['source']}".encode()).hexdigest()[:12]
    about = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    about["language_info"] = {"name": "python"}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": about, "cells": cells}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def _cell(kind: str, source: str) -> dict[str, Any]:
    cell: dict[str, Any] = {"cell_type": kind, "id": "", "metadata": {}, "source": source.splitlines(keepends=True)}
    return cell | ({"execution_count": None, "outputs": []} if kind == "code" else {})


def _about(what: Whole) -> str:
    results = what.results
    if results is None:
        about = f"# {in_markdown(what.title)}\n\nWith {module_package.words(what)}."
        return f"{about} The programs are the planner's first, and nothing was timed."
    session, judged = results["session"], results.get("judged")
    device = session["device"].get("title") or session["device"].get("name", "")
    lines = [f"# {in_markdown(session['title'])}", "", f"Trial {results['trial']} of a session on {device}."]
    if judged is not None:
        over = f"{judged['speedup']:.2f} times as fast as {baseline_name(judged['baseline'])}"
        lines += ["", f"**{judged['ms']:.4g} ms {judged['kind']}**, {over}, in {class_name(judged['cls'])}."]
        if judged["kind"] == "predicted":
            lines += ["", "The time is a prediction of a model. No kernel ran for it."]
    return "\n".join([*lines, "", "This notebook needs an NVIDIA GPU and PyTorch for CUDA 13."])
