#pragma once
#include "cuda_runtime.h"
struct __nv_bfloat16 { uint16_t bits; };
inline float __bfloat162float(__nv_bfloat16 h) { uint32_t const b = uint32_t(h.bits) << 16; float x; std::memcpy(&x, &b, 4); return x; }
inline __nv_bfloat16 __float2bfloat16_rn(float x) {
  uint32_t b;
  std::memcpy(&b, &x, 4);
  if (x != x) return {uint16_t(0x7fff)};
  return {uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16)};
}
