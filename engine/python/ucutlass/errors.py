"""The one exception of the package."""


class OptimizeError(ValueError):
    """The module cannot be optimised as asked: one sentence that says why and what to do."""
