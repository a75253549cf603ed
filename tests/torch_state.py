"""torch's global settings of a process: read, compared and restored."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import overrides
from torch.utils import _python_dispatch

# torch keeps how it multiplies float32 twice: by one name for all (`get_float32_matmul_precision`, `cudnn.allow_tf32`)
# and for each library. Where the two contradict each other, the first can no longer be read.
BACKENDS = {
    "cuda.matmul": torch.backends.cuda.matmul,
    "cudnn.conv": torch.backends.cudnn.conv,
    "cudnn.rnn": torch.backends.cudnn.rnn,
    "mkldnn.matmul": torch.backends.mkldnn.matmul,
    "mkldnn.conv": torch.backends.mkldnn.conv,
    "mkldnn.rnn": torch.backends.mkldnn.rnn,
}
SAME = {"none": "ieee"}  # what torch ships, and the same arithmetic by its name


def settings() -> dict[str, Any]:
    """The settings by name. `precision` and `cudnn_tf32` are None where the libraries' settings contradict them."""
    return {
        "grad": torch.is_grad_enabled(),
        "dtype": torch.get_default_dtype(),
        "threads": torch.get_num_threads(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "cudnn": (torch.backends.cudnn.enabled, torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic),
        "dispatch_modes": torch._C._len_torch_dispatch_stack(),
        "function_modes": torch._C._len_torch_function_stack(),  # torch.set_default_device is one
        "precision": _read(torch.get_float32_matmul_precision),
        "cudnn_tf32": _read(lambda: torch.backends.cudnn.allow_tf32),
        "fp32": {name: backend.fp32_precision for name, backend in BACKENDS.items()},
    }


def restore(before: dict[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Bring `settings()` back to `before`. What had changed: name -> (before, after)."""
    after = settings()
    if after == before:
        return {}
    while torch._C._len_torch_dispatch_stack() > before["dispatch_modes"]:
        _python_dispatch._pop_mode()
    while torch._C._len_torch_function_stack() > before["function_modes"]:
        overrides._pop_mode()
    torch.set_grad_enabled(before["grad"])
    torch.set_default_dtype(before["dtype"])
    if after["threads"] != before["threads"]:
        torch.set_num_threads(before["threads"])
    torch.use_deterministic_algorithms(before["deterministic"])
    cudnn = torch.backends.cudnn
    cudnn.enabled, cudnn.benchmark, cudnn.deterministic = before["cudnn"]
    torch.set_float32_matmul_precision(before["precision"] or "highest")  # first: these two set the libraries' own
    cudnn.allow_tf32 = before["cudnn_tf32"] is not False
    for name, backend in BACKENDS.items():
        backend.fp32_precision = before["fp32"][name]
    return {k: (before[k], after[k]) for k in before if _meaning(before[k]) != _meaning(after[k])}


def _read(setting: Callable[[], Any]) -> Any:
    try:
        return setting()
    except RuntimeError:
        return None


def _meaning(value: Any) -> Any:
    return {k: SAME.get(v, v) for k, v in value.items()} if isinstance(value, dict) else value


def random() -> torch.Tensor:
    """The state of the CPU's generator."""
    return torch.get_rng_state()


def restore_random(state: torch.Tensor) -> None:
    torch.set_rng_state(state)
