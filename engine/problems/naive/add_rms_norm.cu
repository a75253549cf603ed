// A block for each row, which it reads twice.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

// The sum over a block of 256 threads, in each of them.
__device__ float block_sum(float v) {
  __shared__ float part[256];
  part[threadIdx.x] = v;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] += part[threadIdx.x + s];
    __syncthreads();
  }
  v = part[0];
  __syncthreads();
  return v;
}

template <typename T>
__global__ void add_rms_norm(const T* x, const T* residual, const T* weight, T* y, T* total, int64_t width) {
  int64_t row = blockIdx.x * width;
  float squares = 0;
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
    T sum = T(float(x[row + j]) + float(residual[row + j]));
    total[row + j] = sum;
    squares += float(sum) * float(sum);
  }
  float scale = rsqrtf(block_sum(squares) / width + 1e-6f);
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) {
    y[row + j] = T(float(total[row + j]) * scale * float(weight[j]));
  }
}

template <typename T>
void launch(const Tensor* in, const Tensor* out, cudaStream_t stream) {
  add_rms_norm<<<in[0].shape[0], 256, 0, stream>>>(
      (const T*)in[0].data, (const T*)in[1].data, (const T*)in[2].data, (T*)out[0].data, (T*)out[1].data,
      in[0].shape[1]);
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
  if (in[0].dtype == 1) {
    launch<__half>(in, out, stream);
  } else if (in[0].dtype == 2) {
    launch<__nv_bfloat16>(in, out, stream);
  } else {
    return cudaErrorInvalidValue;
  }
  return cudaGetLastError();
}
