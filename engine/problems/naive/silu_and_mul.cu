// A thread for each element; it reads two halves of a row.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void silu_and_mul(const T* x, T* y, int64_t width, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const T* row = x + i / width * 2 * width;
  float gate = float(row[i % width]), up = float(row[i % width + width]);
  y[i] = T(float(T(gate / (1.0f + expf(-gate)))) * up);
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
  int64_t width = out[0].shape[1], n = out[0].shape[0] * width;
  int blocks = (n + 255) / 256;
  if (in[0].dtype == 1) {
    silu_and_mul<<<blocks, 256, 0, stream>>>((const __half*)in[0].data, (__half*)out[0].data, width, n);
  } else if (in[0].dtype == 2) {
    silu_and_mul<<<blocks, 256, 0, stream>>>((const __nv_bfloat16*)in[0].data, (__nv_bfloat16*)out[0].data, width, n);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
