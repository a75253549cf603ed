"""Problems with a group of shapes: each module at each shape computes what it says, and its naive source compiles."""

import re
import subprocess

import pytest

torch = pytest.importorskip("torch")
import torch.nn.functional as F  # noqa: E402

from engine.evaluate.integrity.process import compiler, nvcc_unit  # noqa: E402
from engine.evaluate.integrity.texts import static_cuda  # noqa: E402
from engine.session.kernel_text import complaint, language_of  # noqa: E402
from engine.suite.cases import PROBLEMS  # noqa: E402
from engine.suite.shape_groups import DTYPES, GROUPS, group_of  # noqa: E402

SMALL = {"merge_attention_states": (6, 4, 8), "cross_entropy": (6, 50)}


def wide(function):
    """The same function on f32 copies of its inputs."""
    return lambda *inputs: function(*(x.float() if x.is_floating_point() else x for x in inputs))


@wide
def merged(a, lse_a, b, lse_b):
    """As one softmax over both parts, in f64."""
    both = torch.stack([lse_a, lse_b]).double()
    return (torch.softmax(both, 0).unsqueeze(-1) * torch.stack([a, b])).sum(0), torch.logsumexp(both, 0)


MEANT = {
    "silu_and_mul": wide(lambda x: F.silu(x[:, : x.shape[1] // 2]) * x[:, x.shape[1] // 2 :]),
    "gelu_and_mul": wide(lambda x: F.gelu(x[:, : x.shape[1] // 2], approximate="tanh") * x[:, x.shape[1] // 2 :]),
    "relu_squared": wide(lambda x: x.clamp(min=0) ** 2),
    "add_rms_norm": wide(lambda x, r, w: (F.rms_norm(x + r, x.shape[1:], w, 1e-6), x + r)),
    "merge_attention_states": merged,
    "cross_entropy": wide(lambda x, t: -torch.log_softmax(x, 1).gather(1, t.unsqueeze(1)).squeeze(1)),
}


def loaded(text):
    names = {}
    exec(compile(text, "module", "exec"), names)
    torch.manual_seed(0)
    return names["Model"](), names["get_inputs"]()


@pytest.mark.parametrize("cls", DTYPES)
@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda g: g.name)
def test_a_module_computes_what_its_name_says(group, cls):
    model, inputs = loaded(group.module(SMALL.get(group.name, (6, 16)), cls))
    assert inputs[0].dtype == getattr(torch, DTYPES[cls]) and inputs[0].shape[0] == 6
    outputs, meant = model(*inputs), MEANT[group.name](*inputs)
    for one, other in zip(*((o,) if torch.is_tensor(o) else o for o in (outputs, meant)), strict=True):
        torch.testing.assert_close(one.double(), other.double(), rtol=0.03 if cls == "bf16" else 4e-3, atol=2e-2)


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda g: g.name)
def test_shapes_are_all_different_and_each_is_written_into_the_module(group):
    shapes = [*group.tuned, *group.unseen]
    assert len(set(shapes)) == len(shapes) and len(group.tuned) >= 4 and len(group.unseen) >= 4
    assert not [s for s in group.unseen if s[0] & (s[0] - 1) == 0]
    for shape in shapes:
        assert re.search(rf"^ROWS, [A-Z, ]+ = {', '.join(map(str, shape))}$", group.module(shape), re.MULTILINE)
    assert group.module() == (PROBLEMS / f"{group.name}.py").read_text()


@pytest.mark.parametrize("shape", [(4,), (4, 4, 4), (0, 4), (4, -1)])
def test_a_shape_that_does_not_fit_is_refused_by_name(shape):
    with pytest.raises(ValueError, match="silu_and_mul takes ROWS, WIDTH, each at least 1"):
        GROUPS["silu_and_mul"].module(shape)


def test_another_class_is_refused_by_name():
    with pytest.raises(ValueError, match="silu_and_mul comes in f16 and bf16, not in f32"):
        GROUPS["silu_and_mul"].module(cls="f32")


def test_the_groups_are_the_problems_that_say_so():
    marked = {p.stem for p in PROBLEMS.glob("*.py") if p.read_text().partition("\n")[0].endswith('(group)."""')}
    assert marked == set(GROUPS) == {p.stem for p in (PROBLEMS / "naive").glob("*.cu")}


@pytest.mark.parametrize("group", GROUPS.values(), ids=lambda g: g.name)
def test_a_naive_source_is_a_kernel_that_the_judge_takes(group):
    text = group.naive()
    assert language_of(text) == "cuda" and complaint(text, "cuda") is None
    assert static_cuda.bad_include(text) is None


def renamed(text, name):
    """A source without its includes, whose entry is called run_NAME."""
    return re.sub("^#include.*$", "", text, flags=re.MULTILINE).replace("int run(", f"int run_{name}(")


@pytest.mark.toolchain
def test_the_naive_sources_compile_without_a_spill(tmp_path, monkeypatch):
    """All in one unit, each in a name space of its own: one start of nvcc."""
    texts = {g.name: g.naive() for g in GROUPS.values()}
    includes = sorted({line for t in texts.values() for line in t.splitlines() if line.startswith("#include")})
    parts = [f"namespace group_{name} {{\n{renamed(text, name)}\n}}" for name, text in texts.items()]
    monkeypatch.chdir(tmp_path)
    log = nvcc_unit.nvcc_library("\n".join([*includes, *parts]), "all.so", compiler.find(), "sm_90a")
    kernels = nvcc_unit.resources(log)
    assert len(kernels) == 2 * len(texts) and {k["spill_bytes"] for k in kernels} == {0}
    symbols = subprocess.run(["nm", "-D", "--defined-only", "all.so"], capture_output=True, text=True).stdout
    assert not [name for name in texts if f" T run_{name}\n" not in symbols]


def test_a_module_is_of_its_group_at_every_shape_and_class():
    group = GROUPS["silu_and_mul"]
    for source in (group.module(), group.module((48, 13824), "bf16"), group.module().replace("\n", " \r\n")):
        assert group_of(source) is group
    assert group_of(group.module().replace("silu", "gelu")) is None and group_of("") is None
