"""Under which settings PyTorch runs in a class: one place says it to baselines, to what stays PyTorch, to errors."""

import pytest

torch = pytest.importorskip("torch")

from engine.evaluate.reference.pytorch_classes import accumulating, as_class, casting, permitted  # noqa: E402


def settings():
    return torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32


@pytest.mark.parametrize("cls", ["f32", "tf32", "f16", "bf16", None])
def test_a_class_permits_what_it_is_called_and_leaves_the_settings_as_they_were(cls):
    shipped = settings()
    with permitted(cls):
        assert settings() == {"tf32": ("high", True), "f32": ("highest", False)}.get(cls, shipped)
    assert settings() == shipped


def test_settings_are_restored_where_a_module_raises():
    shipped = settings()
    with pytest.raises(RuntimeError), permitted("tf32"):
        raise RuntimeError
    assert settings() == shipped


@pytest.mark.parametrize(("cls", "dtype"), [("f16", torch.float16), ("bf16", torch.bfloat16), ("tf32", torch.float32)])
def test_half_classes_cast_the_operands_of_products(cls, dtype):
    x = torch.randn(8, 8)
    with casting(cls, "cpu"):
        assert (x @ x).dtype == dtype


def test_where_tf32_is_none_its_rounding_stands_for_it():
    x, one = torch.full((1, 1), 1 + 2.0**-13), torch.ones(1, 1)
    with as_class("tf32", "cpu"):
        assert (x @ one).item() == 1.0
    assert (x @ one).item() != 1.0
    with pytest.raises(KeyError), as_class("f64", "cpu"):
        pass


def test_of_fp8_the_error_is_that_of_operands_rounded_by_rows():
    x, w = torch.randn(64, 128), torch.randn(48, 128)
    x[0] *= 1e20
    right = x.double() @ w.double().T
    with as_class("fp8", "cpu"):
        result = torch.nn.functional.linear(x, w).double()
        assert torch.equal(torch.mv(w, x[1]), w @ x[1])  # no matrix product
    rows = (result - right).norm(dim=1) / right.norm(dim=1)
    assert rows.min() > 0.01 and rows.max() < 0.08 and casting("fp8", "cpu").__class__.__name__ == "nullcontext"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_products_are_summed_in_f32_and_rounded_once(dtype):
    x, w, b = torch.randn(16, 256).to(dtype), torch.randn(24, 256).to(dtype), torch.randn(24).to(dtype)
    image, filters = torch.randn(2, 8, 9, 9).to(dtype), torch.randn(4, 8, 3, 3).to(dtype)
    right = torch.nn.functional.linear(x.double(), w.double(), b.double())
    with accumulating():
        linear = torch.nn.functional.linear(x, w, b)
        conv = torch.nn.functional.conv2d(image, filters)
        assert (x.float() @ w.float().T).dtype == torch.float32, "other products are as they were"
    assert linear.dtype == conv.dtype == dtype
    close = torch.finfo(dtype).eps * 0.5 * right.abs() + 1e-5
    assert ((linear.double() - right).abs() <= close).all()
    assert torch.equal(conv, torch.nn.functional.conv2d(image.float(), filters.float()).to(dtype))


@pytest.mark.parametrize("net", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_the_products_of_a_recurrent_network_are_rounded_at_each_step(net):
    torch.manual_seed(0)
    module, x = net(16, 24).eval(), torch.randn(30, 4, 16)
    with torch.no_grad():
        right = module.double()(x.double())[0]
        module.float()
        plain = module(x)[0].double()
        with as_class("tf32", "cpu"):
            rounded = module(x)[0].double()
        assert torch.equal(module(x)[0].double(), plain)  # only within the class
    assert (plain - right).norm() / right.norm() < 1e-6
    assert 1e-4 < (rounded - right).norm() / right.norm() < 4e-3


def test_autocast_on_a_cpu_computes_an_encoder_layer_in_f16_as_on_a_gpu():
    """Without `unfused`, one operation of eval mode computes it in f32."""
    layer = torch.nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    x = torch.randn(2, 16, 64)
    with torch.no_grad():
        want = layer(x)
        with as_class("f16", "cpu"):
            have = layer(x)
    assert torch.backends.mha.get_fastpath_enabled()
    assert (have.float() - want).norm() > 1e-5 * want.norm()
