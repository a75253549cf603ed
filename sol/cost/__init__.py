"""What operations cost: FLOPs, bytes, and how little of each tensor is needed."""
