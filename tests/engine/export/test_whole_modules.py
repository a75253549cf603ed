"""A module is exported whole: its programs, PyTorch between them, and what forward leaves behind. On this machine
PyTorch computes the programs' operations; what is tested is all that lies around the programs."""

import copy
import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from engine.export import command, forms, write  # noqa: E402
from tests.engine.export import forked, packages  # noqa: E402
from tests.engine.export.packages import MODULES, NESTED, TWO_REGIONS, WRITES, exported  # noqa: E402


@pytest.fixture(scope="module")
def checks():
    with forked.serving() as checks:
        yield checks


@pytest.fixture(scope="module")
def two(tmp_path_factory):
    """(package, module.py) of a module with two programs and PyTorch between them."""
    return exported(TWO_REGIONS, tmp_path_factory.mktemp("two") / "out")


@pytest.fixture(scope="module")
def nested(tmp_path_factory):
    return exported(NESTED, tmp_path_factory.mktemp("nested") / "out")


def close(a, b):
    return torch.allclose(a, b, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", sorted(MODULES))
def test_its_own_check_says_right(name, tmp_path, checks):
    write(forms.files(command.of_module(MODULES[name], ("f16",), name)), tmp_path / "out")
    status, output = checks.run(tmp_path / "out", "--device", "cpu", "--json", tmp_path / "x.json")
    assert status == 0, output
    report = json.loads((tmp_path / "x.json").read_text())
    assert report["ok"] and report["error"] < 1e-3 and report["gpu"] is None


def test_its_check_finds_a_wrong_operation(tmp_path):
    write(forms.files(command.of_module(WRITES, ("f16",), "spoiled")), tmp_path / "out")
    path = tmp_path / "out" / "ucutlass_spoiled" / "composition.json"
    text = path.read_text()
    assert '"op": "tanh"' in text
    path.write_text(text.replace('"op": "tanh"', '"op": "sin"'))  # of what is written, not of what is returned
    done = subprocess.run(
        [sys.executable, "check.py", "--device", "cpu"],
        cwd=tmp_path / "out", capture_output=True, text=True, env=os.environ | {"PYTHONPATH": ""},
    )  # fmt: skip
    assert done.returncode == 1 and "WRONG" in done.stdout


def test_the_rest_of_the_module_stands_between_its_programs(two):
    package, _ = two
    lines = package.code(direct=False).splitlines()
    order = [
        next(i for i, line in enumerate(lines) if word in line) for word in ("region_1(", "logcumsumexp", "region_2(")
    ]
    assert order == sorted(order) and package.PROGRAMS == ("region_1", "region_2")
    assert "self._modules['a']._parameters['weight']" in _direct(package)


def _direct(package):
    """The text for a GPU, without building its programs."""
    compose, drop_in = sys.modules[f"{package.__name__}._compose"], sys.modules[f"{package.__name__}._drop_in"]
    programs = {name: compose.Program(lambda: None) for name in package.PROGRAMS}
    return compose.Writer(drop_in.WHOLE, programs, True).forward()[0]


def test_it_takes_the_state_dict_of_the_original_and_shares_its_memory(two):
    package, original = two
    model, other, (x,) = original.Model().eval(), original.Model().eval(), original.get_inputs()
    fast = package.optimized(model)
    assert isinstance(fast, original.Model) and list(fast.state_dict()) == list(model.state_dict())
    assert fast.a.weight is model.a.weight
    with torch.no_grad():
        assert close(fast(x), model(x)) and not close(fast(x), other(x))
        fast.load_state_dict(other.state_dict())
        assert close(fast(x), other(x)) and close(model(x), other(x))


def test_a_copy_has_weights_of_its_own(two):
    package, original = two
    model, (x,) = original.Model().eval(), original.get_inputs()
    fast = package.optimized(model)
    with torch.no_grad():
        fast(x)
        twin = copy.deepcopy(fast)
        twin.a.weight.zero_()
        assert close(fast(x), model(x)) and not close(twin(x), model(x))


def test_state_is_written_as_the_original_writes_it(tmp_path):
    package, original = exported(WRITES, tmp_path / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    fast = package.optimized(copy.deepcopy(model))
    assert list(fast.state_dict()) == list(model.state_dict())
    with torch.no_grad():
        for _ in range(3):
            assert close(fast(x), model(x)) and close(fast.seen, model.seen) and close(fast.h, model.h)


def test_the_first_call_may_make_what_later_ones_read(tmp_path):
    package, original = exported(packages.FIRST_CALL, tmp_path / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    fast = package.optimized(copy.deepcopy(model))
    with torch.no_grad():
        assert all(close(fast(x), model(x)) for _ in range(2))


def test_results_keep_their_structure_and_arguments_their_names(nested):
    package, original = nested
    model, (ids, bias, scale) = original.Model().eval(), original.get_inputs()
    fast = package.optimized(model)
    with torch.no_grad():
        right, out = model(ids, bias, scale), fast(scale=scale, bias=bias, ids=ids)
    assert list(out) == ["y", "more"] and close(out["y"], right["y"]) and torch.equal(out["more"][0], right["more"][0])


def test_tensors_in_a_list_arrive_and_results_in_a_dictionary_return(tmp_path):
    package, original = exported(packages.LISTED, tmp_path / "out")
    model, (parts, gain) = original.Model().eval(), original.get_inputs()
    fast = package.optimized(model)
    with torch.no_grad():
        right = model(parts, gain)
        for out in (fast(parts, gain), fast(gain=gain, parts=parts)):
            assert list(out) == ["0", "1"] and all(close(out[key], right[key]) for key in right)


def test_results_in_a_dataclass_return_beside_plain_values(tmp_path):
    package, original = exported(packages.STRUCTURED, tmp_path / "out")
    model, (x,) = original.Model().eval(), original.get_inputs()
    fast = copy.deepcopy(package.optimized(model))
    with torch.no_grad():
        (right, _, (h, _)), (out, nothing, (same, word)) = model(x), fast(x)
    assert type(out) is type(right) and (out.hidden, out.steps, nothing, word) == (None, 32, None, "h")
    assert close(out.y, right.y) and close(same, h)


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda f, i, b: f(i, b, 2.0), ValueError, r"other arguments \[0.5\], not \[2.0\]"),
        (lambda f, i, b: f(i, b), ValueError, r"not \[\]"),
        (lambda f, i, b: f(i, scale=0.5), TypeError, "optimised for 2 tensors, not 1"),
        (lambda f, i, b: f(i, b, 0.5, ids=i), TypeError, "got 'ids' twice"),
        (lambda f, i, b: f(i, b, 0.5, idx=i), TypeError, "got 'idx' and has no such argument"),
        (lambda f, i, b: f(i[:32], b, 0.5), ValueError, r"int64\[32\]; this module was optimised for int64\[64\]"),
        (lambda f, i, b: f(i, b.double(), 0.5), ValueError, "bias is float64"),
        (lambda f, i, b: f(i, b.clone().requires_grad_(), 0.5), RuntimeError, "call the original"),
        (lambda f, i, b: f.train()(i, b, 0.5), RuntimeError, r"call .eval\(\)"),
    ],
)
def test_what_it_was_not_optimised_for_is_one_message(nested, call, error, words):
    package, original = nested
    ids, bias, _ = original.get_inputs()
    with pytest.raises(error, match=words):
        call(package.optimized(original.Model().eval()), ids, bias)


def test_no_gradient_is_recorded(two):
    package, original = two
    fast, (x,) = package.optimized(original.Model().eval()), original.get_inputs()
    assert not fast(x).requires_grad and torch.is_grad_enabled()


def test_a_package_of_several_programs_installs_with_all_of_them(tmp_path):
    write(forms.files(command.of_module(TWO_REGIONS, ("f16",), "installed")), tmp_path / "out")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--no-compile", "--no-cache-dir"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", tmp_path / "site", tmp_path / "out"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "site/ucutlass_installed/region_2/facts.json").exists()
    code = "import sys, ucutlass_installed as p; print(p.PROGRAMS, p.INPUTS, 'torch' in sys.modules)"
    output = subprocess.check_output([sys.executable, "-c", code], cwd=tmp_path, text=True, env={"PYTHONPATH": "site"})
    assert output == "('region_1', 'region_2') (('x', (32, 64), 'f32'),) False\n"
