"""Studies that answer one question each on a GPU, with committed data: pace, steadiness, guards, configurations."""
