"""A pasted PyTorch module to its op graph, traced in the sandbox. Bad input ends in one clear SessionRefused."""

from engine.trace.parent import PRELOAD, Traced, refuse, trace, warm

__all__ = ["PRELOAD", "Traced", "refuse", "trace", "warm"]
