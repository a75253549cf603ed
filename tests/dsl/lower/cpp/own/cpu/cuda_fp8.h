#pragma once
#include "cuda_runtime.h"
// The nearest of the 8-bit numbers, ties to even, saturating, found by trying them all.
template <int Exponent, int Mantissa, int Largest>
struct uc_fp8 {
  uint8_t bits;
  uc_fp8() = default;
  static float value(int code) {
    int const e = code >> Mantissa & ((1 << Exponent) - 1), m = code & ((1 << Mantissa) - 1), bias = (1 << (Exponent - 1)) - 1;
    float const v = e ? std::ldexp(1.0f + float(m) / (1 << Mantissa), e - bias) : std::ldexp(float(m) / (1 << Mantissa), 1 - bias);
    return code & 128 ? -v : v;
  }
  explicit uc_fp8(float x) {
    if (x != x) { bits = 0x7f; return; }
    float const a = std::fabs(x);
    int best = 0;
    for (int code = 1; code <= Largest; ++code) {
      float const d = std::fabs(value(code) - a), was = std::fabs(value(best) - a);
      if (d < was || (d == was && code % 2 == 0)) best = code;
    }
    bits = uint8_t(best | (std::signbit(x) ? 128 : 0));
  }
  explicit operator float() const { return value(bits); }
};
struct __nv_fp8_e4m3 : uc_fp8<4, 3, 0x7e> { using uc_fp8::uc_fp8; };
struct __nv_fp8_e5m2 : uc_fp8<5, 2, 0x7b> { using uc_fp8::uc_fp8; };
