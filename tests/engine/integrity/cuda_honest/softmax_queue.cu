// module: softmax
// family: late change
// Blocks take their rows from an atomic counter, which the last block sets back.
__device__ int next_row, ended;
__global__ void softmax(const float* x, float* y, int m, int n) {
    __shared__ int i;
    while (true) {
    __syncthreads();
    if (threadIdx.x == 0) i = atomicAdd(&next_row, 1);
    __syncthreads();
    if (i >= m) break;
    __shared__ float held[256];
    const float* row = x + (int64_t)i * n;
    float top = -INFINITY, sum = 0;
    for (int j = threadIdx.x; j < n; j += blockDim.x) top = fmaxf(top, row[j]);
    held[threadIdx.x] = top;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) held[threadIdx.x] = fmaxf(held[threadIdx.x], held[threadIdx.x + s]);
        __syncthreads();
    }
    top = held[0];
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x) sum += expf(row[j] - top);
    held[threadIdx.x] = sum;
    __syncthreads();
    for (int s = blockDim.x / 2; s > 0; s /= 2) {
        if (threadIdx.x < s) held[threadIdx.x] += held[threadIdx.x + s];
        __syncthreads();
    }
    sum = held[0];
    for (int j = threadIdx.x; j < n; j += blockDim.x) y[(int64_t)i * n + j] = expf(row[j] - top) / sum;
    }
    if (threadIdx.x == 0 && atomicAdd(&ended, 1) == gridDim.x - 1) next_row = ended = 0;
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    const float* x = (const float*)in[0].data;
    float* y = (float*)out[0].data;
    softmax<<<min(m, 32), 256, 0, stream>>>(x, y, m, n);
    return cudaGetLastError();
}
