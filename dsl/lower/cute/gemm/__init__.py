"""Products of the `cute` back end: quack's GEMM with our epilogue function, and float32 on the CUDA cores."""
