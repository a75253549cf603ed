"""All 59 modules of the suite and those outside it, traced and lowered by rules alone, mean what they meant: on the
CPU, at small sizes."""

import copy
import json

import pytest

torch = pytest.importorskip("torch")

from dsl.check.program import check  # noqa: E402
from dsl.printer import to_text  # noqa: E402
from engine.devices import SessionRefused  # noqa: E402
from engine.evaluate.correctness import oracle  # noqa: E402
from engine.evaluate.correctness.tolerance import PyTorchError, verdict  # noqa: E402
from engine.strategies.planner.lowering.choice import Choice  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from engine.strategies.planner.lowering.pipeline import program  # noqa: E402
from engine.suite.cases import PROBLEMS, beside, module_ids  # noqa: E402
from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from tests.engine.small_modules import Instance, compare  # noqa: E402

CHOICES = {
    "tf32": (Choice(), Choice(along_k=True, fuse=True), Choice(rows=True)),
    "f16": (Choice(), Choice(fuse=True, narrow=True), Choice(rows=True)),
}


def traced(problem):
    """The op graph of a small instance, and the values of its tensors."""
    with torch.no_grad():
        graph = Capture(export(problem.model, tuple(problem.inputs))).graph()
    trace = OpGraph.from_json(json.dumps(graph))
    values = dict(zip(trace.inputs, problem.inputs, strict=True))
    state = problem.model.state_dict()
    return trace, values | {t.name: state[t.path] for t in trace.tensors.values() if t.path in state}


def in_class(problem, cls):
    """PyTorch's own error with everything in the class's type, or (tf32) with operands rounded."""
    if cls != "f16":
        return problem.rounded_error(cls)
    with torch.no_grad():
        out = copy.deepcopy(problem.model).half()(*(x.half() for x in problem.inputs))
    return PyTorchError(*(getattr(compare(out, problem.right), n) for n in ("error", "max_error", "unexpected")))


UNCOVERED = {"moe_layer": "slice"}


def test_what_is_not_covered_outside_the_suite_is_named():
    for name, op in UNCOVERED.items():
        graph, _ = traced(Instance.make(PROBLEMS / f"{name}.py", 7))
        with pytest.raises(SessionRefused, match=f"aten.{op}"):
            lower(graph)


@pytest.mark.parametrize("name", sorted({**module_ids(), **beside("outside")}.keys() - UNCOVERED))
def test_module(name):
    problem = Instance.make(PROBLEMS / f"{name}.py", 7)
    problem.prepare()
    graph, values = traced(problem)
    lowered = lower(graph, name)
    seen = set()
    for cls, choices in CHOICES.items():
        for choice in choices:
            text = to_text(program(lowered, cls, choice))
            if text in seen:
                continue
            seen.add(text)
            checked = check(text)
            assert checked.ok, checked.diagnostics[0].render(text)
            inputs = [values[b.tensor].reshape(b.shape) for b in lowered.inputs]
            (out,) = oracle.run(checked.program, inputs)
            comparison = compare(out.reshape(problem.right.shape), problem.right)
            wrong = verdict(cls, comparison)
            if wrong:  # perhaps the module amplifies rounding
                wrong = verdict(cls, comparison, in_class(problem, cls))
            assert wrong is None, f"{wrong}\n{text}"
