"""When a result is right: inputs, the meaning of a program on the CPU, tolerances, and the rounds of a verification."""
