"""What forward writes: over tensors in place, and in the module beside its results."""
