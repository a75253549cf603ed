"""Each program of an exported module is one operator, which torch.compile, torch.export and fake tensors see whole."""

import io
import os
import shutil
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from engine.export.shipped import operators as shipped  # noqa: E402
from tests.engine.export.packages import NESTED, TWO_REGIONS, WRITES, exported  # noqa: E402


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """(module, its drop-in, its input, their result)"""
    package, original = exported(TWO_REGIONS, tmp_path_factory.mktemp("two") / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    with torch.no_grad():
        return model, package.optimized(model), x, model(x)


@pytest.fixture(autouse=True)
def compiling(compiles):
    pass


def operators(graph):
    return [str(n.target) for n in graph.nodes if "ucutlass" in str(n.target)]


COMPILER = pytest.mark.skipif(shutil.which("g++") is None, reason="inductor needs a C++ compiler")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", pytest.param("inductor", marks=COMPILER)])
def test_torch_compile_takes_it_in_one_graph(two, backend):
    _, fast, x, right = two
    torch._dynamo.reset()
    compiled = torch.compile(fast, backend=backend, fullgraph=True)
    assert torch.allclose(compiled(x), right, atol=1e-5)


def test_torch_compile_takes_it_inside_another_module(two):
    _, fast, x, right = two
    torch._dynamo.reset()
    graphs = []

    def keep(graph, inputs):
        graphs.append(graph)
        return graph.forward

    both = torch.nn.Sequential(fast, torch.nn.Softmax(-1))
    with torch.no_grad():
        out = torch.compile(both, backend=keep, fullgraph=True)(x)
    assert torch.allclose(out, right.softmax(-1), atol=1e-5)
    assert len(graphs) == 1 and len(operators(graphs[0].graph)) == 2


def test_torch_export_keeps_the_operators_and_the_parameters_names(two):
    model, fast, x, right = two
    program = torch.export.export(fast, (x,))
    assert len(operators(program.graph)) == 2 and set(program.state_dict) == set(model.state_dict())
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    assert torch.allclose(torch.export.load(file).module()(x), right, atol=1e-5)


def test_a_fresh_process_loads_what_torch_export_saved(tmp_path):
    package, original = exported(TWO_REGIONS, tmp_path / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    torch.export.save(torch.export.export(package.optimized(model), (x,)), tmp_path / "saved.pt2")
    with torch.no_grad():
        torch.save({"x": x, "right": model(x)}, tmp_path / "data.pt")
    code = (
        f"import torch, {package.__name__} as package; package.operators();"
        "data = torch.load('data.pt'); out = torch.export.load('saved.pt2').module()(data['x']);"
        "assert torch.allclose(out, data['right'], atol=1e-5)"
    )
    environ = os.environ | {"PYTHONPATH": str(tmp_path / "out")}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_fake_tensor_gets_the_shape_without_a_computation(two):
    _, fast, x, right = two
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        out = fast(mode.from_tensor(x))
    assert out.shape == right.shape and out.dtype == right.dtype and type(out) is not torch.Tensor


def test_each_operator_keeps_the_contract_of_torch_library(two):
    _, fast, x, _ = two
    first, *_ = (n.target for n in torch.export.export(fast, (x,)).graph.nodes if "ucutlass" in str(n.target))
    inputs = [torch.randn(32, 64), torch.randn(128, 64), torch.randn(128)]
    torch.library.opcheck(first, (inputs,), test_utils=("test_schema", "test_faketensor"))


def test_a_program_may_read_more_tensors_than_a_schema_has_arguments():
    many = [torch.full((4,), float(i)) for i in range(100)]
    operator = shipped.operator("tested_many", [((4,), torch.float32)], None, lambda *x: (sum(x),))
    compiled = torch.compile(lambda *x: operator(list(x)) * 2, backend="aot_eager", fullgraph=True)
    assert torch.equal(compiled(*many), torch.full((4,), 9900.0))


def test_what_forward_writes_is_written_under_torch_compile(tmp_path):
    package, original = exported(WRITES, tmp_path / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    fast = package.optimized(model)
    torch._dynamo.reset()
    own = original.Model().eval()
    own.load_state_dict(model.state_dict())
    compiled = torch.compile(fast, backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        for _ in range(3):
            assert torch.allclose(compiled(x), own(x), atol=1e-4)
    assert torch.allclose(fast.h, own.h, atol=1e-4) and torch.allclose(fast.seen, own.seen, atol=1e-4)


def test_a_dictionary_of_results_passes_torch_compile(tmp_path):
    package, original = exported(NESTED, tmp_path / "out")
    model, inputs = original.Model().eval(), original.get_inputs()
    torch._dynamo.reset()
    ids, bias, scale = inputs
    compiled = torch.compile(package.optimized(model), backend="aot_eager", fullgraph=True)
    with torch.no_grad():
        right = model(*inputs)["y"]
        assert torch.allclose(compiled(*inputs)["y"], right, atol=1e-4)
        assert torch.allclose(compiled(bias=bias, ids=ids, scale=scale)["y"], right, atol=1e-4)
