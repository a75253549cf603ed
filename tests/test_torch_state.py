"""What a test leaves changed in torch is named and restored, so that no later test of the process sees it."""

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from tests import torch_state  # noqa: E402


def contradict() -> None:
    """`precision` cannot be read afterwards: torch raises RuntimeError."""
    torch.set_float32_matmul_precision("high")
    torch.backends.cuda.matmul.allow_tf32 = False


LEFT = {
    "grad": lambda: torch.set_grad_enabled(False),
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "threads": lambda: torch.set_num_threads(torch.get_num_threads() + 1),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "cudnn_tf32": lambda: setattr(torch.backends.cudnn, "allow_tf32", False),
    "dispatch_modes": lambda: FakeTensorMode().__enter__(),
    "function_modes": lambda: torch.set_default_device("meta"),
    "precision": contradict,
}


@pytest.mark.parametrize("name", LEFT)
def test_a_setting_that_was_left_changed_is_named_and_restored(name):
    before = torch_state.settings()
    LEFT[name]()
    assert name in torch_state.restore(before)
    assert torch_state.settings() == before
    assert torch.get_float32_matmul_precision() == before["precision"]
    assert torch.zeros(1).device.type == "cpu" and type(torch.zeros(1)) is torch.Tensor


def test_the_same_arithmetic_by_its_other_name_is_no_change():
    before = torch_state.settings()
    torch.set_float32_matmul_precision("highest")
    assert torch_state.restore(before) == {}
    assert torch_state.settings() == before
