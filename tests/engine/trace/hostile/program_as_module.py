# expect: syntax_error
# says: This is a μCUTLASS program, not a PyTorch module
program p(a: f16[64, 64], b: f16[64, 64]) -> f16[64, 64] {  # HERE
  y = gemm(a, b) {}
  return y
}
