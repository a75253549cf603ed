// A thread for each element.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

template <typename T>
__global__ void relu_squared(const T* x, T* y, int64_t n) {
  int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = fmaxf(float(x[i]), 0.0f);
  y[i] = T(v * v);
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
  int64_t n = in[0].shape[0] * in[0].shape[1];
  int blocks = (n + 255) / 256;
  if (in[0].dtype == 1) {
    relu_squared<<<blocks, 256, 0, stream>>>((const __half*)in[0].data, (__half*)out[0].data, n);
  } else if (in[0].dtype == 2) {
    relu_squared<<<blocks, 256, 0, stream>>>((const __nv_bfloat16*)in[0].data, (__nv_bfloat16*)out[0].data, n);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
