#pragma once
#include "cuda_runtime.h"
struct __half { uint16_t bits; };
inline float __half2float(__half h) { _Float16 v; std::memcpy(&v, &h, 2); return float(v); }
inline __half __float2half_rn(float x) { _Float16 const v = _Float16(x); __half h; std::memcpy(&h, &v, 2); return h; }
