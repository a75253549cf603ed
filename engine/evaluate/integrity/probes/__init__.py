"""What the process of a raw kernel observes of its calls: operators of PyTorch, native functions, libraries."""
