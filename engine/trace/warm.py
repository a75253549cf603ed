"""Run one small export at import, while a child waits, so that the first real export has all of torch loaded."""

import torch

from engine.trace import child, explain, fake, load  # noqa: F401


def _once() -> None:
    with torch.no_grad(), fake.fake_tensors():
        model, x = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(inplace=True)).eval(), torch.randn(2, 2)
        model(x)
    child.capture.export(model, (x,))


_once()
