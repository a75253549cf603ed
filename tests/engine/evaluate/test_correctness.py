"""What counts as right, and what each tolerance lets through and what it does not."""

import math

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.correctness.oracle import truncate_tf32  # noqa: E402
from engine.evaluate.correctness.tolerance import (  # noqa: E402
    FLOOR,
    TOLERANCES,
    TWICE,
    UNIT_ROUNDOFF,
    WORST,
    Comparison,
    PyTorchError,
    bound,
    compare,
    says_nothing,
    verdict,
)


def product(cls, k=2048, offset=0.0, seed=0):
    """A zero-mean product computed as a correct kernel of the class does, and its exact value."""
    g = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(64, k, generator=g) + offset, torch.randn(k, 96, generator=g))
    exact = a.double() @ b.double()
    if cls == "tf32":
        return truncate_tf32(a) @ truncate_tf32(b), exact
    dtype = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}[cls]
    return a.to(dtype).float() @ b.to(dtype).float(), exact


@pytest.mark.parametrize("cls", ["f32", "tf32", "f16", "bf16"])
@pytest.mark.parametrize("k", [32, 2048, 32768])
def test_an_honest_product_passes_whatever_its_depth(cls, k):
    out, exact = product(cls, k)
    assert verdict(cls, compare(out, exact)) is None


@pytest.mark.parametrize("claimed, done", [("f32", "tf32"), ("f32", "f16"), ("tf32", "bf16"), ("f16", "bf16")])
def test_a_lower_precision_than_claimed_is_found_out(claimed, done):
    out, exact = product(done)
    assert "tolerance" in verdict(claimed, compare(out, exact))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda x: x + 0.25 * x.std(),  # a forgotten bias
        lambda x: x * 1.01,  # a scale that is one percent off
        lambda x: torch.where(torch.arange(96) == 5, 0.0, x),  # a column never written
        lambda x: x.roll(1, 0),  # rows in the wrong place
        lambda x: x.clone().index_put_((torch.tensor(3), torch.tensor(4)), torch.tensor(0.0)),  # one element lost
    ],
    ids=["bias", "scale", "column", "rows", "element"],
)
def test_small_lies_are_found_out(spoil):
    out, exact = product("f16")
    out[3, 4] = exact[3, 4] = 80.0
    assert verdict("f16", compare(out, exact)) is None
    assert verdict("f16", compare(spoil(out), exact))


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_nan_or_inf_that_the_reference_lacks_fails(value):
    out, exact = product("f16")
    out[0, 0] = value
    assert "1 of 6,144 elements are NaN or Inf" in verdict("f16", compare(out, exact))


def test_a_nan_or_inf_that_the_reference_has_too_is_right():
    out, exact = product("f16")
    for i, value in enumerate((math.nan, math.inf, -math.inf)):
        out[i, 0] = exact[i, 0] = value
    assert verdict("f16", compare(out, exact)) is None
    out[1, 0] = -math.inf
    assert compare(out, exact).unexpected == 1
    out[1, 0] = 7.0
    assert compare(out, exact).unexpected == 1


def test_twice_pytorchs_own_error_is_the_stricter_rule_where_it_is_known():
    fine = Comparison(3e-4, 1e-3)
    assert verdict("f16", fine, PyTorchError(2e-4, 1e-3)) is None
    assert "twice PyTorch's own" in verdict("f16", fine, PyTorchError(1e-4, 1e-3))


def test_where_pytorch_is_exact_a_rounding_of_f32_is_no_mistake():
    assert verdict("f16", Comparison(5e-7, 1e-6), PyTorchError(0.0, 0.0)) is None


def test_a_module_that_amplifies_rounding_is_held_to_twice_pytorchs_own_error():
    """A clamp leaves most elements at +-2; the few between carry the error of sums of around 100."""
    g = torch.Generator().manual_seed(3)
    a, b = 128 * torch.randn(64, 2048, generator=g), torch.randn(2048, 4096, generator=g) / 2048**0.5
    right = (a.double() @ b.double()).clamp(-2, 2)
    ours = (a.half().float() @ b.half().float()).clamp(-2, 2)
    pytorch = (a.half().double() @ b.half().double()).half().double().clamp(-2, 2)
    own = PyTorchError(*(getattr(compare(pytorch, right), n) for n in ("error", "max_error")))
    assert own.max_error > TOLERANCES["f16"].max_error
    assert verdict("f16", compare(ours, right)) and verdict("f16", compare(ours, right), own) is None
    low = (a.bfloat16().float() @ b.bfloat16().float()).clamp(-2, 2)
    assert "PyTorch's own is" in verdict("f16", compare(low, right), own)


def test_beside_nan_of_its_own_pytorchs_finite_elements_loosen_the_table_and_never_tighten_it():
    """Some rows of scores leave f16 before a softmax, so that they are NaN in PyTorch; the others amplify rounding."""
    own = PyTorchError(0.02, 0.3, unexpected=3)
    assert verdict("f16", Comparison(0.03, 0.5), own) is None and "above" in verdict("f16", Comparison(0.05, 0.5), own)
    exact = PyTorchError(1e-4, 1e-3, unexpected=3)
    assert verdict("f16", Comparison(5e-4, 1e-3), exact) is None


def test_noise_beside_nan_says_nothing_but_how_many_are_nan():
    """A mask by a comparison after a product: a row that rounding leaves without a score is NaN, and others change."""
    noise = PyTorchError(0.4, 2.0, unexpected=3)
    assert says_nothing(noise) and verdict("f16", Comparison(0.5, 2.0, 6, 100), noise) is None
    assert "7 of 100 elements are NaN" in verdict("f16", Comparison(0.5, 2.0, 7, 100), noise)


TABLE = TOLERANCES["f16"].error


@pytest.mark.parametrize(
    ("own", "largest", "why"),
    [
        (None, TABLE, ""),
        (PyTorchError(1.5 * TABLE, 1e-3), 3 * TABLE, TWICE),
        (PyTorchError(TABLE / 8, 1e-3), TABLE / 4, TWICE),
        (PyTorchError(TABLE / 1.5, 1e-3), TABLE, ""),
        (PyTorchError(0.0, 0.0), FLOOR, "what the order of f32 sums leaves"),
        (PyTorchError(1.5 * TABLE, 1e-3, unexpected=1), 3 * TABLE, TWICE),
        (PyTorchError(0.5 * TABLE, 1e-3, unexpected=1), TABLE, ""),
    ],
)
def test_the_bound_that_is_named_is_the_one_that_decides(own, largest, why):
    assert bound("f16", own) == (pytest.approx(largest), why)
    assert verdict("f16", Comparison(0.999 * largest, 0.0), own) is None
    assert verdict("f16", Comparison(1.001 * largest, 0.0), own)


def test_an_all_zero_reference_compares_absolutely():
    zero = torch.zeros(4, 4)
    assert verdict("f16", compare(zero, zero)) is None
    assert verdict("f16", compare(zero + 0.1, zero))


def test_shapes_must_agree():
    with pytest.raises(ValueError, match="shape"):
        compare(torch.zeros(2, 3), torch.zeros(3, 2))


def test_the_table_follows_from_the_significant_bits():
    for cls in ("tf32", "f16", "bf16"):
        assert TOLERANCES[cls].error == 4 * UNIT_ROUNDOFF[cls]
        assert TOLERANCES[cls].max_error == WORST * TOLERANCES[cls].error
    assert TOLERANCES["f32"].error < TOLERANCES["tf32"].error == TOLERANCES["f16"].error < TOLERANCES["bf16"].error


def test_where_pytorch_leaves_the_class_s_range_a_program_may_too():
    """SwiGLU on large activations: autocast's product of two of them is beyond f16."""
    beyond = PyTorchError(1e-4, 1e-3, unexpected=40)
    assert verdict("f16", Comparison(1e-4, 1e-3, unexpected=80, elements=1000), beyond) is None
    wrong = verdict("f16", Comparison(0.5, 2.0, unexpected=40, elements=1000), beyond)
    assert wrong.startswith("relative error 0.5")  # the others are held
    reason = verdict("f16", Comparison(1e-4, 1e-3, unexpected=81, elements=1000), beyond)
    assert reason == "81 of 1,000 elements are NaN or Inf where the reference is not (PyTorch's own in class f16: 40)"
    assert verdict("f16", Comparison(1e-4, 1e-3, unexpected=1, elements=1000), PyTorchError(1e-4, 1e-3))


def test_where_pytorch_leaves_the_range_with_every_element_no_error_is_judged():
    nothing = PyTorchError(0.0, 0.0, unexpected=1000)
    assert says_nothing(nothing) and verdict("f16", Comparison(0.04, 0.5, elements=1000), nothing) is None
    assert not says_nothing(PyTorchError(1e-4, 1e-3, unexpected=999))
