"""What every row kernel has around its body, in CUDA: types, loads, stores, reductions and the launch.

Row kernels: row_kernels.py. HEAD and TAIL are formats; HOLDING and ONE_PASS choose among the kernels that one text has,
where something is reduced and where nothing is.
"""

HEAD = """\
// {title}
// Row by row: {{row_threads}} threads a row, {{block_rows}} rows a block, vectors of {{vector}}, {{unroll}} in flight.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cmath>

constexpr int ROW_THREADS = {{row_threads}}, ROWS = {{block_rows}}, VECTOR = {{vector}}, UNROLL = {{unroll}};
constexpr int PIECES = {pieces};
constexpr bool STREAM = {{stream}} != 0, {switches};
constexpr int64_t FEW = 1 << 20;  // elements that are read in a few microseconds

struct Arguments {{
  const void* in[8];
  void* out[4];
  unsigned rows, width;
  float share;  // 1 / width, of a mean
}};

template <typename T, int V>
struct alignas(sizeof(T) * V) Pack {{
  T v[V];
}};

__device__ __forceinline__ float wide(float x) {{ return x; }}
__device__ __forceinline__ float wide(__half x) {{ return __half2float(x); }}
__device__ __forceinline__ float wide(__nv_bfloat16 x) {{ return __bfloat162float(x); }}
__device__ __forceinline__ void narrow(float x, float& y) {{ y = x; }}
__device__ __forceinline__ void narrow(float x, __half& y) {{ y = __float2half_rn(x); }}
__device__ __forceinline__ void narrow(float x, __nv_bfloat16& y) {{ y = __float2bfloat16_rn(x); }}

// Data that one kernel reads and writes once need no place in a cache.
template <bool PASS, typename P>
__device__ __forceinline__ P loaded(const P* from) {{
  if constexpr (PASS && sizeof(P) % sizeof(uint4) == 0) {{
    P p;
#pragma unroll
    for (int i = 0; i < (int)(sizeof(P) / sizeof(uint4)); ++i) ((uint4*)&p)[i] = __ldcs((const uint4*)from + i);
    return p;
  }} else {{
    return *from;
  }}
}}

template <typename P>
__device__ __forceinline__ void store(P* to, const P& p) {{
  if constexpr (STREAM && sizeof(P) % sizeof(uint4) == 0) {{
#pragma unroll
    for (int i = 0; i < (int)(sizeof(P) / sizeof(uint4)); ++i) __stcs((uint4*)to + i, ((const uint4*)&p)[i]);
  }} else {{
    *to = p;
  }}
}}

template <typename T>
__device__ __forceinline__ float rounded(float x) {{
  T y;
  narrow(x, y);
  return wide(y);
}}

template <bool MAX>
__device__ __forceinline__ float joined(float a, float b) {{
  return MAX ? (a > b || a != a ? a : b) : a + b;
}}

// The sum or the largest value over the threads of a row, in each of them. `part`: shared memory of this one alone.
template <bool MAX, int THREADS>
__device__ __forceinline__ float across(float v, float* part, int lane) {{
  constexpr int WARPS = (THREADS + 31) / 32;
  for (int m = (THREADS < 32 ? THREADS : 32) / 2; m > 0; m /= 2) v = joined<MAX>(v, __shfl_xor_sync(0xffffffffu, v, m));
  if (WARPS > 1) {{
    if (lane % 32 == 0) part[lane / 32] = v;
    __syncthreads();
    v = part[0];
    for (int w = 1; w < WARPS; ++w) v = joined<MAX>(v, part[w]);
  }}
  return v;
}}

// WHOLE: the UNROLL vectors of its threads are the whole row, so each is read once. PASS: loads pass the caches by.
// FULL: every one of these vectors is in the row.
template <typename T, int V, int THREADS, bool WHOLE, bool PASS, bool FULL>
__global__ void __launch_bounds__(THREADS * ROWS) rows_kernel(Arguments a) {{
  constexpr int WARPS = (THREADS + 31) / 32;
"""
TAIL = """\
}}

template <typename T, int V, int THREADS, bool WHOLE, bool PASS, bool FULL = false>
void start(const Arguments& a, cudaStream_t stream) {{
  const unsigned once = THREADS * V * UNROLL, blocks = (a.rows + ROWS - 1) / ROWS, deep = blocks / 65536 + 1;
  const dim3 grid(PIECES ? PIECES : (a.width + once - 1) / once, (blocks + deep - 1) / deep, deep);
  rows_kernel<T, V, THREADS, WHOLE, PASS, FULL><<<grid, THREADS * ROWS, 0, stream>>>(a);
}}

template <typename T>
cudaError_t launch(const Tensor* in, const Tensor* out, int inputs, int outputs, cudaStream_t stream) {{
  Arguments a = {{}};
  for (int i = 0; i < inputs; ++i) a.in[i] = in[i].data;
  for (int i = 0; i < outputs; ++i) a.out[i] = out[i].data;
  int64_t rows = 1;
  for (int i = 0; i + 1 < in[{wide}].rank; ++i) rows *= in[{wide}].shape[i];
  const int64_t width = in[{wide}].shape[in[{wide}].rank - 1] / {parts};
  if (rows >= 1 << 30 || width >= 1 << 30) return cudaErrorInvalidValue;  // their places are counted in 32 bits
  a.rows = (unsigned)rows;
  a.width = (unsigned)width;
  a.share = 1.f / (float)width;
  const bool few = rows * width <= FEW;
  if (width % VECTOR) {{
    start<T, 1, ROW_THREADS, false, STREAM>(a, stream);
    return cudaGetLastError();
  }}
{choose}
  return cudaGetLastError();
}}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {{
{dispatch}
}}
"""


# A row that is read once stays in registers. One configuration serves rows of several widths: where its threads cannot
# hold one, twice as many may.
HOLDING = """\
  constexpr int ONCE = ROW_THREADS * VECTOR * UNROLL, TWICE = 2 * ROW_THREADS;
  if constexpr (HOLD) {
    if (width <= ONCE) {
      if (few && width == ONCE) start<T, VECTOR, ROW_THREADS, true, true, true>(a, stream);
      else start<T, VECTOR, ROW_THREADS, true, STREAM>(a, stream);
      return cudaGetLastError();
    }
    if constexpr (TWICE * ROWS <= 1024) {
      if (width <= 2 * ONCE) {
        start<T, VECTOR, TWICE, true, STREAM>(a, stream);
        return cudaGetLastError();
      }
    }
  }
  start<T, VECTOR, ROW_THREADS, false, STREAM>(a, stream);"""
ONE_PASS = """\
  if (SMALL && few) start<T, VECTOR, ROW_THREADS, false, true>(a, stream);
  else start<T, VECTOR, ROW_THREADS, false, STREAM>(a, stream);"""
