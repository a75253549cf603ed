"""What a graph may hold that is no operation of ATen: constructs of torch.export, and operators of other libraries."""

from __future__ import annotations

from typing import Any

from engine.trace.load import Bad


def name_of(target: Any) -> str:
    """The name of a node without a schema: autocast of wrap_with_autocast."""
    return getattr(target, "__name__", str(target)).removeprefix("wrap_with_")


def construct(target: Any) -> str:
    """A description of a node without a schema, for a person, with a way out."""
    name = name_of(target)
    if str(getattr(target, "__module__", "")).startswith("torch._functorch"):
        return "torch.vmap or another of torch.func's transforms, which the tracer does not follow; write the axis out"
    return f"{name}, which the tracer does not follow; leave it out"


def operator(library: str, name: str) -> str:
    """The same of an operator of torch.library."""
    return f"{library}::{name}, an operator that is not PyTorch's own; write what it does in PyTorch's operations"


def refuse(what: str, line: int | None, of_device: bool = False) -> Bad:
    """The refusal of what is described, with its line if that is known."""
    where = f"Line {line} uses" if line else "The module uses"
    return Bad("not_covered", f"{where} {what}.", line, of_device=of_device)


__all__ = ["construct", "name_of", "operator", "refuse"]
