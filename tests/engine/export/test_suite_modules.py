"""Every module of the suite is exported whole and runs on the `meta` device, which has shapes and no memory: by its
operators, as torch.compile runs it, and by the text that launches programs."""

import importlib
import sys

import pytest

torch = pytest.importorskip("torch")

from dsl.printer import to_text  # noqa: E402
from engine.bench.studies.host_time import silent  # noqa: E402
from engine.export import Exported, forms, write  # noqa: E402
from engine.export.composition import Placed, Whole  # noqa: E402
from engine.strategies.planner.lowering.lower import lower  # noqa: E402
from tests.engine.export.packages import SUITE  # noqa: E402


@pytest.mark.parametrize("name", sorted(SUITE))
def test_a_module_of_the_suite_has_the_shapes_and_types_of_the_original(name, graphs, tmp_path, monkeypatch):
    graph = graphs[name]
    lowered = lower(graph, name)
    program = Exported(to_text(lowered.program("tf32")), "tf32")
    ops, outputs = tuple(op.name for op in graph.live), tuple(b.tensor for b in lowered.outputs)
    placed = Placed(program, ops, tuple(map(vars, lowered.inputs)), outputs)
    whole = Whole(f"suite {name}", "tf32", SUITE[name], graph, (placed,))
    write(forms.files(whole), tmp_path / "out")
    monkeypatch.syspath_prepend(tmp_path / "out")
    package = importlib.import_module(f"ucutlass_{whole.stem}")
    names: dict = {"__name__": "module"}
    exec(compile(SUITE[name], "module.py", "exec"), names)
    with torch.device("meta"), torch.no_grad():
        model = names["Model"](*names.get("get_init_inputs", list)()).eval()
        inputs = names["get_inputs"]()
        right = model(*inputs)
    with torch.no_grad():
        by_operators = package.optimized(model)(*inputs)
        with silent(package):
            by_launches = package.optimized(model)(*inputs)
    for out in (by_operators, by_launches):
        assert (out.shape, out.dtype, out.device) == (right.shape, right.dtype, right.device)
    for part in [n for n in sys.modules if n.startswith(package.__name__)]:
        del sys.modules[part]
