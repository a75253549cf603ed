"""Trace a pasted PyTorch module to its op graph in the sandbox. Bad input raises one clear SessionRefused."""

from engine.trace.parent import PRELOAD, Traced, refuse, trace, warm

__all__ = ["PRELOAD", "Traced", "refuse", "trace", "warm"]
