// module: softmax
// expect: side_stream late
// family: work out of sight
// The same in CUDA C++.
__global__ void softmax(const float* x, float* y, int n) {
    __shared__ float held[256];
    const float* row = x + (int64_t)blockIdx.x * n;
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
    for (int j = threadIdx.x; j < n; j += blockDim.x) y[(int64_t)blockIdx.x * n + j] = expf(row[j] - top) / sum;
}

__global__ void wait() {
    for (int i = 0; i < 2000; i++) __nanosleep(2000);
}
static cudaStream_t own = nullptr;

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    wait<<<1, 1, 0, own>>>();
    softmax<<<m, 256, 0, own>>>((const float*)in[0].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
