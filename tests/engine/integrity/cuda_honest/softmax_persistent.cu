// module: softmax
// family: work out of sight
// As many blocks as multiprocessors, each with many rows.
__global__ void softmax(const float* x, float* y, int m, int n) {
    __shared__ float held[256];
    for (int i = blockIdx.x; i < m; i += gridDim.x) {
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
    __syncthreads();
    }
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    const float* x = (const float*)in[0].data;
    float* y = (float*)out[0].data;
    int device, many;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&many, cudaDevAttrMultiProcessorCount, device);
    softmax<<<min(m, many), 256, 0, stream>>>(x, y, m, n);
    return cudaGetLastError();
}
