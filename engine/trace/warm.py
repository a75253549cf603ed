"""Run one small export at import, while a child waits, so that the first real export has all of torch loaded."""

import contextlib

import torch

from engine.trace import child, explain, fake, load  # noqa: F401


def _one_thread() -> None:
    """torch's interpreter shows a progress bar, and the first one of a process starts a thread; no process with
    another thread is forked (engine.sandbox.forkserver)."""
    with contextlib.suppress(ImportError):
        from tqdm import tqdm

        tqdm.monitor_interval = 0


def _once() -> None:
    with torch.no_grad(), fake.fake_tensors():
        model, x = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=True)).eval(), torch.randn(2, 2)
        model(x)
    child.exported.export(model, (x,))


_one_thread()
_once()
