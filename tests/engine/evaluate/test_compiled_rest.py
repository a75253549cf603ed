"""What stays PyTorch beside programs becomes one call for each run of operations. The compiler is the real one only in
tests/engine/devices/test_compiled_rest_on_cpu.py; here its place has the run as it is."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.candidate.faults import Wrong  # noqa: E402
from engine.evaluate.candidate.region_runtime import Place, RegionRuntime  # noqa: E402
from engine.evaluate.compiled_rest import CompiledRest  # noqa: E402
from engine.evaluate.fused_calls import Fused  # noqa: E402
from sol.graph import Op, OpGraph, Tensor  # noqa: E402

SHAPES = {"x": (6, 4), "t": (4, 6), "a": (4, 6), "b": (4, 6), "left": (4, 2), "right": (4, 4), "y": (4, 2)}


def graph():
    """x -> t = x.T -> a = exp t -> [program] b = tanh a -> split into left and right -> y = left cumulated, right."""
    tensors = {n: Tensor(n, s, "f32", "input" if n == "x" else "intermediate") for n, s in SHAPES.items()}
    ops = (
        Op("t", "transpose", ("x",), ("t",), {"dim0": 0, "dim1": 1}),
        Op("s", "neg", ("t",), ("s",)),
        Op("a", "exp", ("s",), ("a",)),
        Op("b", "tanh", ("a",), ("b",)),
        Op("c", "neg", ("b",), ("c",)),
        Op("lr", "split_with_sizes", ("c",), ("left", "right"), {"split_sizes": [2, 4], "dim": 1}),
        Op("y", "cumsum", ("left",), ("y",), {"dim": 0}),
    )
    tensors |= {n: Tensor(n, (4, 6), "f32", "intermediate") for n in "sc"}
    return OpGraph(tensors, ops, ("x",), ("y", "right"))


def runtime(strides=None):
    def run(inputs, outputs):
        if strides is not None:
            strides.append(inputs[0].stride())
        torch.tanh(inputs[0], out=outputs[0])

    one = {"name": "a", "tensor": "a", "shape": [4, 6]}
    out = {"name": "b", "tensor": "b", "shape": [4, 6], "dtype": "f32"}
    return RegionRuntime(graph(), [Place(frozenset({"b"}), [one], [out], run=run)], "cpu", "tf32")


@pytest.fixture
def compiler(monkeypatch):
    """The examples of each compilation; the run itself is what comes of it."""
    seen = []

    def compile_(self, examples, **options):
        seen.append([(tuple(x.shape), x.stride()) for x in examples])
        module = self.module()
        return lambda tensors: list(module(*tensors))

    monkeypatch.setattr(Fused, "compile", compile_)
    return seen


def test_the_results_are_those_of_the_operations(compiler):
    x = torch.randn(6, 4)
    plain, fused = runtime(), runtime()
    answer = CompiledRest().into(fused)
    assert (answer.runs, answer.operations, answer.refused) == (2, 6, ())
    assert len(fused.steps) == 3 < len(plain.steps)
    wanted = plain.run({"x": x})
    for name, result in fused.run({"x": x}).items():
        assert torch.equal(result, wanted[name])


def test_examples_have_the_strides_of_a_real_call(compiler):
    CompiledRest().into(runtime())
    assert compiler == [[((6, 4), (4, 1))], [((4, 6), (6, 1))]]  # a program's results are dense


def test_a_run_is_compiled_once_for_all_programs_of_the_problem(compiler):
    rest = CompiledRest()
    rest.into(runtime())
    rest.into(runtime())
    assert len(compiler) == 2


def test_equal_blocks_of_a_module_share_one_compilation(compiler):
    """x -> neg, exp -> [program] tanh -> neg, exp -> [program] tanh -> neg, sigmoid."""
    kinds = ["neg", "exp", "tanh", "neg", "exp", "tanh", "neg", "sigmoid"]
    names = ["x", *(f"v{i}" for i in range(len(kinds)))]
    tensors = {n: Tensor(n, (4,), "f32", "input" if n == "x" else "intermediate") for n in names}
    ops = tuple(Op(names[i + 1], kind, (names[i],), (names[i + 1],)) for i, kind in enumerate(kinds))
    places = [
        Place(
            frozenset({f"v{at}"}), [{"name": "a", "tensor": f"v{at - 1}", "shape": [4]}],
            [{"name": "b", "tensor": f"v{at}", "shape": [4], "dtype": "f32"}],
            run=lambda inputs, outputs: torch.tanh(inputs[0], out=outputs[0]),
        )
        for at in (2, 5)
    ]  # fmt: skip
    fused = RegionRuntime(OpGraph(tensors, ops, ("x",), ("v7",)), places, "cpu", "tf32")
    answer = CompiledRest().into(fused)
    assert (answer.runs, len(compiler)) == (3, 2)  # the last run ends in another operation
    x = torch.randn(4)
    block = lambda x: torch.tanh(torch.exp(-x))  # noqa: E731
    assert torch.equal(fused.run({"x": x})["v7"], torch.sigmoid(-block(block(x))))


def test_calls_with_other_values_are_compiled_apart(compiler):
    """x -> exp, leaky by 0.1 -> [program] tanh -> exp, leaky by 0.2."""
    tensors = {n: Tensor(n, (4,), "f32", "input" if n == "x" else "intermediate") for n in "xabcde"}
    ops = (
        Op("a", "exp", ("x",), ("a",)),
        Op("b", "leaky_relu", ("a",), ("b",), {"negative_slope": 0.1}),
        Op("c", "tanh", ("b",), ("c",)),
        Op("d", "exp", ("c",), ("d",)),
        Op("e", "leaky_relu", ("d",), ("e",), {"negative_slope": 0.2}),
    )
    one, out = {"name": "b", "tensor": "b", "shape": [4]}, {"name": "c", "tensor": "c", "shape": [4], "dtype": "f32"}
    place = Place(frozenset({"c"}), [one], [out], run=lambda inputs, outputs: torch.tanh(inputs[0], out=outputs[0]))
    fused, x = RegionRuntime(OpGraph(tensors, ops, ("x",), ("e",)), [place], "cpu", "tf32"), torch.randn(4)
    CompiledRest().into(fused)
    assert len(compiler) == 2
    leaky = torch.nn.functional.leaky_relu
    assert torch.equal(fused.run({"x": x})["e"], leaky(torch.exp(torch.tanh(leaky(torch.exp(x), 0.1))), 0.2))


def test_what_the_compiler_refuses_runs_as_it_is(monkeypatch):
    def compile_(self, examples, **options):
        if len(self.rows) == 3 and self.reads == ("x",):
            raise RuntimeError("no\nmore lines")
        module = self.module()
        return lambda tensors: list(module(*tensors))

    monkeypatch.setattr(Fused, "compile", compile_)
    fused, x = runtime(), torch.randn(6, 4)
    answer = CompiledRest().into(fused)
    assert answer.runs == 1 and answer.refused == ("RuntimeError: no",)
    wanted = runtime().run({"x": x})
    assert all(torch.equal(result, wanted[name]) for name, result in fused.run({"x": x}).items())


def test_a_compiler_that_takes_nothing_ends_the_trial_with_its_reason(monkeypatch):
    def compile_(self, examples, **options):
        raise NotImplementedError("there is no compiler here")

    monkeypatch.setattr(Fused, "compile", compile_)
    with pytest.raises(Wrong, match="NotImplementedError: there is no compiler here") as e:
        CompiledRest().into(runtime())
    assert e.value.code == "not_compiled"


def test_programs_read_what_a_run_made(compiler):
    strides, x = [], torch.randn(6, 4)
    fused = runtime(strides)
    CompiledRest().into(fused)
    fused.run({"x": x})
    assert strides == [(6, 1)]


def test_a_run_whose_sizes_depend_on_values_is_left(compiler):
    tensors = {n: Tensor(n, (6,), "f32", "input" if n == "x" else "intermediate") for n in ("x", "a", "b", "c", "y")}
    tensors |= {"i": Tensor("i", (6, 1), "i64", "intermediate")}
    ops = (
        Op("a", "exp", ("x",), ("a",)),
        Op("b", "neg", ("a",), ("b",)),
        Op("c", "tanh", ("b",), ("c",)),
        Op("y", "neg", ("c",), ("y",)),
        Op("i", "nonzero", ("y",), ("i",)),
    )
    one = {"name": "b", "tensor": "b", "shape": [6]}
    out = {"name": "c", "tensor": "c", "shape": [6], "dtype": "f32"}
    place = Place(frozenset({"c"}), [one], [out], run=lambda inputs, outputs: torch.tanh(inputs[0], out=outputs[0]))
    fused = RegionRuntime(OpGraph(tensors, ops, ("x",), ("i",)), [place], "cpu", "tf32")
    answer = CompiledRest().into(fused)
    assert answer.runs == 1 and answer.refused == ("its sizes depend on values",)
    assert fused.run({"x": torch.ones(6)})["i"].shape == (6, 1)
