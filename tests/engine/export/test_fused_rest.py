"""An exported module whose rest was compiled: its forward calls each run of PyTorch's operations at once. Programs have
their meaning on the CPU here, and the compiler's place has the run as it is; tests/gpu/test_exported.py has both."""

import sys
import warnings

import pytest

torch = pytest.importorskip("torch")

from tests.engine.export.packages import TWO_REGIONS, exported  # noqa: E402

GLUE = TWO_REGIONS.replace("torch.logcumsumexp(", "torch.roll(torch.logcumsumexp(").replace(", 1)\n", ", 1), 1, 0)\n")


def launching(package, monkeypatch, compile_):
    """(the forward that launches programs, its text); `compile_` in the place of Inductor."""
    part = {name: sys.modules[f"{package.__name__}.{name}"] for name in ("_compose", "_drop_in", "_fused_calls")}
    monkeypatch.setattr(part["_fused_calls"].Fused, "compile", compile_)

    def load(operator):
        def run(inputs, outputs):
            results = operator(inputs)
            for out, result in zip(outputs, results if isinstance(results, list | tuple) else [results], strict=True):
                out.copy_(result)

        return lambda: run

    known = part["_drop_in"].programs()
    programs = {name: part["_compose"].Program(load(one.operator)) for name, one in known.items()}
    text, names = part["_compose"].Writer(part["_drop_in"].WHOLE, programs, direct=True).forward()
    return part["_compose"].function(text, names, "<tested>"), text


@pytest.mark.parametrize("cls", ["tf32", "f16"])
def test_a_run_is_compiled_once_for_each_form_of_its_tensors(cls, tmp_path, monkeypatch):
    package, original = exported(GLUE, tmp_path, (cls,), fused=True)
    compiled = []

    def compile_(self, examples, **options):
        compiled.append([x.stride() for x in examples])
        module = self.module()
        return lambda tensors: list(module(*tensors))

    forward, text = launching(package, monkeypatch, compile_)
    model, x = original.Model().eval(), original.get_inputs()[0]
    with torch.no_grad():
        fast, wanted = package.optimized(model), model(x)
        for _ in range(3):
            (y,) = forward(fast, x)
            assert torch.allclose(y.float(), wanted, atol=3e-3)
    assert len(compiled) == 1 and "# logcumsumexp, roll" in text


def test_where_inductor_fails_the_operations_run_one_by_one_with_one_warning(tmp_path, monkeypatch):
    package, original = exported(GLUE, tmp_path, ("tf32",), fused=True)

    def compile_(self, examples, **options):
        raise RuntimeError("no compiler\nat all")

    forward, _ = launching(package, monkeypatch, compile_)
    model, x = original.Model().eval(), original.get_inputs()[0]
    with torch.no_grad(), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        fast = package.optimized(model)
        for _ in range(2):
            (y,) = forward(fast, x)
            assert torch.allclose(y, model(x), atol=3e-3)
    (one,) = [str(w.message) for w in seen if "Inductor" in str(w.message)]
    assert "PyTorch runs logcumsumexp, roll one by one here" in one and "RuntimeError: no compiler" in one


def test_the_forward_for_torch_compile_has_the_operations_themselves(tmp_path, monkeypatch):
    package, _ = exported(GLUE, tmp_path, ("tf32",), fused=True)
    _, launches = launching(package, monkeypatch, None)
    operators = package.code(direct=False)
    assert "fused_" in launches and "fused_" not in operators and "roll" in operators


def test_a_run_is_compiled_again_for_other_types_and_in_the_callers_autocast(tmp_path, monkeypatch):
    package, _ = exported(GLUE, tmp_path, ("tf32",), fused=True)
    compiled = []

    def compile_(self, examples, **options):
        compiled.append([x.dtype for x in examples])
        return list

    later = sys.modules[f"{package.__name__}._fused"].Later
    monkeypatch.setattr(sys.modules[f"{package.__name__}._fused_calls"].Fused, "compile", compile_)
    run = later({"fused": [], "reads": ["x"], "makes": ["x"]}, {}, (), None)
    x = torch.randn(4, 4)
    for _ in range(2):
        for one in (x, x.double()):
            run([one])
        with torch.autocast("cpu", torch.bfloat16):
            run([x])
    assert compiled == [[torch.float32], [torch.float64], [torch.float32]]
