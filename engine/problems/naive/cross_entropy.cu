// A block for each row, which it reads twice: for its largest logit, and for the sum.
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

// The largest value over a block of 256 threads, in each of them.
__device__ float block_max(float v) {
  __shared__ float part[256];
  part[threadIdx.x] = v;
  __syncthreads();
  for (int s = 128; s > 0; s /= 2) {
    if (threadIdx.x < s) part[threadIdx.x] = fmaxf(part[threadIdx.x], part[threadIdx.x + s]);
    __syncthreads();
  }
  v = part[0];
  __syncthreads();
  return v;
}

template <typename T>
__global__ void cross_entropy(const T* logits, const int64_t* target, float* loss, int64_t width) {
  const T* row = logits + blockIdx.x * width;
  float top = -INFINITY, sum = 0;
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) top = fmaxf(top, float(row[j]));
  top = block_max(top);
  for (int64_t j = threadIdx.x; j < width; j += blockDim.x) sum += expf(float(row[j]) - top);
  sum = block_sum(sum);
  if (threadIdx.x == 0) loss[blockIdx.x] = top + logf(sum) - float(row[target[blockIdx.x]]);
}

template <typename T>
void launch(const Tensor* in, const Tensor* out, cudaStream_t stream) {
  cross_entropy<<<in[0].shape[0], 256, 0, stream>>>(
      (const T*)in[0].data, (const int64_t*)in[1].data, (float*)out[0].data, in[0].shape[1]);
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
