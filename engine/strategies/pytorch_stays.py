"""What a session runs whose module has no program in any part: nothing is searched, and PyTorch is the result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engine.strategies.api import Script, Strategy

if TYPE_CHECKING:
    from engine.strategies.problem import Prepared


class PyTorchStays(Strategy):
    """The session times PyTorch, and tries the kernels that its owner handed in (`kernels`: there are some). No module
    names it as `STRATEGY`, so nobody can choose it."""

    name, programs = "none", False

    def __init__(self, kernels: bool):
        super().__init__()
        self.kernels = kernels

    def run(self, problem: Prepared) -> Script:
        return "The kernels that the owner handed in were tried." if self.kernels else "Nothing was tried."
        yield


__all__ = ["PyTorchStays"]
