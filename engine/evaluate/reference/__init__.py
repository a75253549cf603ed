"""The reference: the pasted module in its confined process, which gives the correct results and PyTorch's times."""
