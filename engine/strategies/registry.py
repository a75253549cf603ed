"""Strategies by name: each module or package in this folder names one as `STRATEGY`.

Looking them up imports those modules, which is cheap; a strategy imports its heavy modules when it runs.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from engine import strategies
from engine.strategies.api import Strategy

DEFAULT = "planner"
NO_STRATEGIES = (
    "api",
    "memory_lines",
    "opinion",
    "problem",
    "registry",
    "state",
    "writing",
)  # modules here that define no strategy


@cache
def available() -> dict[str, type[Strategy]]:
    """Name -> strategy, the default first, then by name."""
    strategy_of: dict[str, type[Strategy]] = {}
    for module in pkgutil.iter_modules(strategies.__path__):
        if module.name in NO_STRATEGIES:
            continue
        declared = vars(import_module(f"{strategies.__name__}.{module.name}")).get("STRATEGY")
        if declared is not None:
            strategy_of[declared.name] = declared
    return dict(sorted(strategy_of.items(), key=lambda item: (item[0] != DEFAULT, item[0])))
