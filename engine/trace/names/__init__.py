"""One name for each operation, whatever ATen or the author of a module calls it."""
