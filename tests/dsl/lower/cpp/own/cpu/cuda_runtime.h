// CUDA kernels as loops on the CPU, for tests: every thread of a block is a fiber, one block runs at a time.
//
// __syncthreads and the warp's shuffles are real: a fiber waits until all of its block, or of its warp, have come. A
// barrier that some threads never reach ends the process with a message. Shared memory is filled with NaN bits before
// each block, so that what was never written is seen.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#define __CUDACC__ 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define __constant__ static const
#define __shared__ static __attribute__((section("uc_shared")))

struct uint3 { unsigned x, y, z; };
struct dim3 { unsigned x, y, z; dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {} };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(8) uint2 { unsigned x, y; };

inline uint3 threadIdx, blockIdx;
inline dim3 gridDim, blockDim;

namespace uc_cpu {
enum State { kReady, kWarp, kBlock, kDone };
struct Copy { void* to; void const* from; int bytes; };
struct Fiber { ucontext_t context; uint3 index; State state; std::unique_ptr<char[]> stack; std::vector<std::vector<Copy>> copies; };
inline std::vector<Fiber> fibers;
inline ucontext_t scheduler;
inline Fiber* now = nullptr;
inline uint64_t slots[1024];
inline void (*kernel)(void*) = nullptr;
inline void* params = nullptr;
constexpr size_t kStack = 256 << 10;

inline void wait(State state) { now->state = state; swapcontext(&now->context, &scheduler); }
inline void body() { kernel(params); now->state = kDone; swapcontext(&now->context, &scheduler); }

inline bool all(size_t from, size_t to, State state) {
  bool some = false;
  for (size_t i = from; i < to; ++i) {
    if (fibers[i].state == state) some = true;
    else if (fibers[i].state != kDone) return false;
  }
  return some;
}

inline void release(size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) if (fibers[i].state != kDone) fibers[i].state = kReady;
}

inline void run_block(size_t count) {
  for (size_t i = 0; i < count; ++i) {
    Fiber& f = fibers[i];
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    f.index = {unsigned(i), 0, 0};
    f.state = kReady;
    f.copies.assign(1, {});
    makecontext(&f.context, body, 0);
  }
  for (;;) {
    for (size_t i = 0; i < count; ++i) {
      if (fibers[i].state != kReady) continue;
      now = &fibers[i];
      threadIdx = now->index;
      swapcontext(&scheduler, &now->context);
    }
    bool moved = false, left = false;
    for (size_t i = 0; i < count; i += 32) {
      size_t const end = std::min(count, i + 32);
      if (all(i, end, kWarp)) { release(i, end); moved = true; }
    }
    if (!moved && all(0, count, kBlock)) { release(0, count); moved = true; }
    for (size_t i = 0; i < count; ++i) left |= fibers[i].state != kDone;
    if (!left) return;
    if (!moved) { std::fprintf(stderr, "a barrier that some threads never reach\n"); std::abort(); }
  }
}

template <class T> inline T exchange(T value, int partner) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  slots[now->index.x] = bits;
  wait(kWarp);
  T out;
  std::memcpy(&out, &slots[partner], sizeof(T));
  wait(kWarp);
  return out;
}

template <auto F> struct Entry;
template <class P, void (*F)(P)> struct Entry<F> { static void call(void* p) { F(*static_cast<P*>(p)); } };
}  // namespace uc_cpu

#define UCUTLASS_ENTRY(kernel) reinterpret_cast<void const*>(&uc_cpu::Entry<&kernel>::call)

inline void __syncwarp(unsigned = 0xffffffffu) { uc_cpu::wait(uc_cpu::kWarp); }
inline void __syncthreads() { uc_cpu::wait(uc_cpu::kBlock); }
template <class T> inline T __shfl_xor_sync(unsigned, T v, int mask) { return uc_cpu::exchange(v, int(uc_cpu::now->index.x) ^ mask); }
template <class T> inline T __shfl_up_sync(unsigned, T v, unsigned below, int width = 32) {
  int const me = int(uc_cpu::now->index.x), lane = me % width;
  return uc_cpu::exchange(v, lane >= int(below) ? me - int(below) : me);
}
template <class T> inline T __shfl_sync(unsigned, T v, int from, int width = 32) {
  int const me = int(uc_cpu::now->index.x);
  return uc_cpu::exchange(v, me - me % width + from);
}
inline unsigned __reduce_max_sync(unsigned, unsigned v) {
  for (int mask = 1; mask < 32; mask *= 2) v = std::max(v, __shfl_xor_sync(0xffffffffu, v, mask));
  return v;
}
inline unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
template <class T> inline T __ldg(T const* p) {
  if (reinterpret_cast<uintptr_t>(p) % alignof(T)) { std::fprintf(stderr, "a load of %zu bytes at %p\n", sizeof(T), (void const*)p); std::abort(); }
  return *p;
}
template <class T> inline T __ldcs(T const* p) { return __ldg(p); }
template <class T> inline void __stcs(T* p, T const& v) {
  if (reinterpret_cast<uintptr_t>(p) % alignof(T)) { std::fprintf(stderr, "a store of %zu bytes at %p\n", sizeof(T), (void*)p); std::abort(); }
  *p = v;
}
inline float __expf(float x) { return expf(x); }
inline int __float2int_rn(float x) { return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : int(lrintf(x)); }

#include "tensor_cores.h"

// ---- the few calls of the runtime that a launcher makes
typedef int cudaError_t;
typedef void* cudaStream_t;
enum { cudaSuccess = 0, cudaErrorSymbolNotFound = 500 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute { cudaLaunchAttributeID id; struct { struct { unsigned x, y, z; } clusterDim; } val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; unsigned numAttrs; };
inline char const* cudaGetErrorName(cudaError_t) { return "error"; }
inline char const* cudaGetErrorString(cudaError_t) { return "error"; }
inline cudaError_t cudaGetDevice(int* id) { *id = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { *value = 132; return cudaSuccess; }
inline cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { std::memset(to, value, bytes); return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" char __start_uc_shared[] __attribute__((weak)), __stop_uc_shared[] __attribute__((weak));

inline cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* kernel, void** arguments) {
  namespace c = uc_cpu;
  gridDim = config->gridDim;
  blockDim = config->blockDim;
  if (gridDim.x > 2147483647u || gridDim.y > 65535u || gridDim.z > 65535u || blockDim.x > 1024u || blockDim.x == 0) return 9;
  if (config->dynamicSmemBytes > sizeof(c::dynamic_shared)) return 9;
  c::kernel = reinterpret_cast<void (*)(void*)>(const_cast<void*>(kernel));
  c::params = arguments[0];
  size_t const count = blockDim.x;
  while (c::fibers.size() < count) {
    c::fibers.emplace_back();
    c::fibers.back().stack.reset(new char[c::kStack]);
  }
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; ++x) {
        blockIdx = {x, y, z};
        if (__start_uc_shared) std::memset(__start_uc_shared, 0xff, __stop_uc_shared - __start_uc_shared);
        std::memset(c::dynamic_shared, 0xff, config->dynamicSmemBytes);
        c::run_block(count);
      }
  return cudaSuccess;
}
