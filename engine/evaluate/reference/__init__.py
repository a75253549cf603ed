"""The reference: the pasted module in its confined process, as the authority on results and on PyTorch's times."""
