"""Make a PyTorch module fast from Python: programs of the μCUTLASS language in place of its operations.

    import torch, ucutlass
    fast = ucutlass.optimize(model, [x], seconds=120)     # a module; print(fast.report)
    y = fast(x)

    model = torch.compile(model, backend="ucutlass")      # the same search at the first call

Both run a session as the playground does: the same search, checks and measurements. Without a GPU the times are
predicted, the report says so, and PyTorch computes.
"""

from . import _engine  # noqa: F401 - puts the engine on the path, before anything imports it
from .dynamo import backend, register
from .errors import OptimizeError
from .report import Report
from .search import optimize

register()

__all__ = ["OptimizeError", "Report", "backend", "optimize"]
