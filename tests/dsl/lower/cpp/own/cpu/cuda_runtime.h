// CUDA kernels as loops on the CPU, for tests: every thread of a block is a fiber, one cluster of blocks runs at a time.
//
// __syncthreads and the warp's shuffles are real: a fiber waits until all of its block, or of its warp, have come. A
// barrier that some threads never reach ends the process with a message. Shared memory is filled with NaN bits before
// each block, so that what was never written is seen. The blocks of a cluster take turns at random (clusters.h).
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
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
struct alignas(8) float2 { float x, y; };

inline uint3 threadIdx, blockIdx;
inline dim3 gridDim, blockDim;

namespace uc_cpu {
enum State { kReady, kWarp, kBlock, kCluster, kPoll, kDone };
struct Copy { void* to; void const* from; int bytes; };
struct alignas(128) Room { unsigned char bytes[227 << 10]; };  // the dynamic shared memory of a block
struct Fiber {
  ucontext_t context;  // in which it begins; jumps lead back to where it waits
  jmp_buf waits;
  uint3 index, block;
  unsigned id;    // in its cluster
  int rank, arrivals;  // of its block; at the cluster's barrier
  bool begun;
  State state;
  std::unique_ptr<char[]> stack;
  std::vector<std::vector<Copy>> copies;
};
inline std::vector<std::unique_ptr<Room>> rooms;
inline unsigned random_state = 1;
inline unsigned random_bits() { random_state = random_state * 1664525u + 1013904223u; return random_state >> 16; }
inline std::vector<Fiber> fibers;
inline jmp_buf scheduler;
inline Fiber* now = nullptr;
inline uint64_t slots[16 << 10];
inline void (*kernel)(void*) = nullptr;
inline void* params = nullptr;
constexpr size_t kStack = 256 << 10;

inline void arrive_some();  // clusters.h
inline void nothing_under_way();
inline int quiet = 0;  // turns in which nothing happened but looking; a block is asleep for 512 of them
// Jumps: a switch of contexts would ask the kernel for the mask of signals each time, which takes most of a test's time.
inline void wait(State state) {
  now->state = state;
  if (!_setjmp(now->waits)) _longjmp(scheduler, 1);
}
inline void body() { kernel(params); now->state = kDone; _longjmp(scheduler, 1); }
inline void resume() {
  if (_setjmp(scheduler)) return;
  if (now->begun) _longjmp(now->waits, 1);
  now->begun = true;
  setcontext(&now->context);
}

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

// The fibers of a cluster of `blocks`, the first of which is `first`. A fiber is released from the cluster's barrier when
// every other one has arrived as often; one that ended before counts as missing.
inline void run_cluster(size_t threads, size_t blocks, uint3 first) {
  size_t const count = threads * blocks;
  for (size_t i = 0; i < count; ++i) {
    Fiber& f = fibers[i];
    f.block = {first.x + unsigned(i / threads), first.y, first.z};
    f.id = unsigned(i);
    f.rank = int(i / threads);
    f.arrivals = 0;
    f.begun = false;
    getcontext(&f.context);
    f.context.uc_stack.ss_sp = f.stack.get();
    f.context.uc_stack.ss_size = kStack;
    f.context.uc_link = nullptr;
    f.index = {unsigned(i % threads), 0, 0};
    f.state = kReady;
    f.copies.assign(1, {});
    makecontext(&f.context, body, 0);
  }
  std::vector<unsigned> asleep(blocks);  // turns that a block misses, so that others run far ahead of it
  for (unsigned& turns : asleep) turns = blocks > 1 ? random_bits() % 512 : 0;
  for (;;) {
    bool moved = false, left = false;
    for (size_t b = 0; b < blocks; ++b) {
      if (asleep[b]) { --asleep[b]; moved = true; continue; }
      if (blocks > 1 && random_bits() % 32 == 0) asleep[b] = random_bits() % 512;
      for (size_t i = b * threads; i < (b + 1) * threads; ++i) {
        if (fibers[i].state != kReady) continue;
        now = &fibers[i];
        threadIdx = now->index;
        blockIdx = now->block;
        resume();
        moved |= blocks > 1;
        if (blocks > 1 && now->state != kPoll) quiet = 0;
      }
    }
    for (size_t b = 0; b < blocks; ++b) {
      size_t const from = b * threads, to = from + threads;
      bool some = false;
      for (size_t i = from; i < to; i += 32) {
        size_t const end = std::min(to, i + 32);
        if (all(i, end, kWarp)) { release(i, end); some = true; }
      }
      if (!some && all(from, to, kBlock)) { release(from, to); some = true; }
      moved |= some;
    }
    if (blocks > 1) {
      arrive_some();
      for (size_t i = 0; i < count; ++i) if (fibers[i].state == kPoll) fibers[i].state = kReady;
      if (++quiet > 10000) { std::fprintf(stderr, "a wait that never ends\n"); std::abort(); }
    }
    int least = 1 << 30;
    for (size_t i = 0; i < count; ++i) least = std::min(least, fibers[i].arrivals);
    for (size_t i = 0; i < count; ++i)
      if (fibers[i].state == kCluster && fibers[i].arrivals <= least) { fibers[i].state = kReady; moved = true; }
    for (size_t i = 0; i < count; ++i) left |= fibers[i].state != kDone;
    if (!left) { nothing_under_way(); return; }
    if (blocks > 1 && moved) moved = std::any_of(fibers.begin(), fibers.begin() + count, [](Fiber const& f) { return f.state == kReady; });
    if (!moved) { std::fprintf(stderr, "a barrier that some threads never reach\n"); std::abort(); }
  }
}

template <class T> inline T exchange(T value, int partner) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  slots[now->id] = bits;
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
template <class T> inline T __shfl_xor_sync(unsigned, T v, int mask) { return uc_cpu::exchange(v, int(uc_cpu::now->id) ^ mask); }
template <class T> inline T __shfl_up_sync(unsigned, T v, unsigned below, int width = 32) {
  int const me = int(uc_cpu::now->id), lane = me % width;
  return uc_cpu::exchange(v, lane >= int(below) ? me - int(below) : me);
}
template <class T> inline T __shfl_sync(unsigned, T v, int from, int width = 32) {
  int const me = int(uc_cpu::now->id);
  return uc_cpu::exchange(v, me - me % width + from);
}
inline int __syncthreads_or(int v) {
  uc_cpu::slots[uc_cpu::now->id] = v;
  uc_cpu::wait(uc_cpu::kBlock);
  int some = 0;
  for (uc_cpu::Fiber const& f : uc_cpu::fibers)
    if (f.rank == uc_cpu::now->rank && f.state != uc_cpu::kDone) some |= uc_cpu::slots[f.id] != 0;
  uc_cpu::wait(uc_cpu::kBlock);
  return some;
}
inline unsigned __reduce_max_sync(unsigned, unsigned v) {
  for (int mask = 1; mask < 32; mask *= 2) v = std::max(v, __shfl_xor_sync(0xffffffffu, v, mask));
  return v;
}
inline int __any_sync(unsigned mask, int v) { return int(__reduce_max_sync(mask, v != 0)); }
inline unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
inline float __uint_as_float(unsigned bits) { float x; std::memcpy(&x, &bits, 4); return x; }
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
inline float __fdividef(float x, float y) { return x / y; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline int __float2int_rn(float x) { return x != x ? 0 : x >= 2147483648.0f ? 2147483647 : x < -2147483648.0f ? -2147483647 - 1 : int(lrintf(x)); }

#include "tensor_cores.h"
#include "clusters.h"

// ---- the few calls of the runtime that a launcher makes
typedef int cudaError_t;
typedef void* cudaStream_t;
enum { cudaSuccess = 0, cudaErrorSymbolNotFound = 500, cudaErrorInvalidClusterSize = 912 };
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8, cudaFuncAttributeNonPortableClusterSizeAllowed = 16 };
enum cudaLaunchAttributeID { cudaLaunchAttributeClusterDimension = 4 };
struct cudaLaunchAttribute { cudaLaunchAttributeID id; struct { struct { unsigned x, y, z; } clusterDim; } val; };
struct cudaLaunchConfig_t { dim3 gridDim, blockDim; size_t dynamicSmemBytes; cudaStream_t stream; cudaLaunchAttribute* attrs; unsigned numAttrs; };
inline char const* cudaGetErrorName(cudaError_t) { return "error"; }
inline char const* cudaGetErrorString(cudaError_t) { return "error"; }
inline cudaError_t cudaGetDevice(int* id) { *id = 0; return cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr, int) { *value = 132; return cudaSuccess; }
inline cudaError_t cudaFuncSetAttribute(void const*, cudaFuncAttribute, int) { return cudaSuccess; }
inline cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, void const*, cudaLaunchConfig_t const*) { *clusters = 6; return cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t) { std::memset(to, value, bytes); return cudaSuccess; }
inline cudaError_t cudaGetLastError() { return cudaSuccess; }
extern "C" char __start_uc_shared[] __attribute__((weak)), __stop_uc_shared[] __attribute__((weak));

inline cudaError_t cudaLaunchKernelExC(cudaLaunchConfig_t const* config, void const* kernel, void** arguments) {
  namespace c = uc_cpu;
  gridDim = config->gridDim;
  blockDim = config->blockDim;
  if (gridDim.x > 2147483647u || gridDim.y > 65535u || gridDim.z > 65535u || blockDim.x > 1024u || blockDim.x == 0) return 9;
  if (config->dynamicSmemBytes > sizeof(c::Room)) return 9;
  size_t const blocks = config->numAttrs ? config->attrs[0].val.clusterDim.x : 1;
  if (blocks > 16 || gridDim.x % blocks) return 9;
  while (c::rooms.size() < blocks) c::rooms.push_back(std::make_unique<c::Room>());
  if (char const* seed = std::getenv("UCUTLASS_TURNS")) c::random_state = unsigned(std::atoi(seed));
  c::kernel = reinterpret_cast<void (*)(void*)>(const_cast<void*>(kernel));
  c::params = arguments[0];
  size_t const count = blockDim.x;
  while (c::fibers.size() < count * blocks) {
    c::fibers.emplace_back();
    c::fibers.back().stack.reset(new char[c::kStack]);
  }
  for (unsigned z = 0; z < gridDim.z; ++z)
    for (unsigned y = 0; y < gridDim.y; ++y)
      for (unsigned x = 0; x < gridDim.x; x += blocks) {
        if (__start_uc_shared) std::memset(__start_uc_shared, 0xff, __stop_uc_shared - __start_uc_shared);
        for (size_t b = 0; b < blocks; ++b) std::memset(c::rooms[b]->bytes, 0xff, config->dynamicSmemBytes);
        c::run_cluster(count, blocks, {x, y, z});
      }
  return cudaSuccess;
}
