"""Raw kernels as an agent reads of them: how to write one, its class, and what a device without a GPU does with it."""

from __future__ import annotations

from engine.session.fold.reduce import View
from engine.session.kernel_text import CUDA_ENTRY, EXAMPLES, NO_ENTRY
from playground import engines
from playground.models import Session

# What an engine does with a raw kernel, by the kind of its times.
ON_A_GPU = "verified and timed"
WITHOUT_GPU = {
    "cuda": "There is no GPU: CUDA C++ is compiled and not run, so nothing is known of its results, and the trial ends "
    "as `unverified`, without a time",
    "python": "There is no GPU: a kernel that launches Triton, CuTe or CUDA code cannot run, and its trial ends as "
    "`unverified`. One that computes with PyTorch alone is verified on the CPU. Neither gets a time",
}
WITHOUT_ANY = (
    "CUDA C++ is compiled and not run, and Triton or CuTe code cannot run: those trials end as `unverified`, without a "
    "time. Python that computes with PyTorch alone is verified and gets no time"
)
KERNELS = f"""A raw kernel replaces the whole module. It is CUDA C++ or Python (PyTorch with Triton or CuTe DSL).

Python: {NO_ENTRY["python"]}.
```
{EXAMPLES["python"]}```
CUDA C++: define `{CUDA_ENTRY}`. `in` holds the module's inputs, then its parameters and buffers. Write every result
into `out`, launch on `stream`, return 0. `struct Tensor {{ void* data; int64_t shape[8]; int rank; int dtype; }}` is
defined for you.
```
{EXAMPLES["cuda"]}```
A kernel declares a precision class (f32, tf32, f16 or bf16), is compared with the module in float64 on about 20 rounds
of inputs that it cannot know, and is timed beside PyTorch in that class. Without `precision_class` its class is the
first of the session's that has a limit (f16 for a module in f16; `limits_ms` in status). Calling a library (cuBLAS,
torch.matmul) is `library only` and counts as no speedup. Tricks (stored results, skipped work, lowered precision) are
found, and the trial is then `gaming`.
Without a GPU (devices() says which engine has one): {WITHOUT_ANY}.
A trial of a kernel costs one of the budget there too.
"""


def on(kind: str | None) -> str:
    """What an engine with times of this kind (measured | predicted) does with a raw kernel."""
    return ON_A_GPU if kind == "measured" else f"without a GPU: {WITHOUT_ANY}"


def warning(session: Session, view: View, language: str) -> str:
    """For a kernel that is handed in: why its trial can have no time on the session's device; "" on a GPU, or where
    the device is not known yet."""
    kind = view.device.get("kind")
    if kind is None and session.device.startswith("modelled"):
        kind = "predicted"
    if kind is None:
        kinds = {e.device.get("kind") for e in engines.alive() if session.device != "cuda" or e.serves == "cuda"}
        kind = kinds.pop() if len(kinds) == 1 else None
    if kind != "predicted":
        return ""
    return f"{WITHOUT_GPU[language]}. Programs are verified and get a predicted time here."
