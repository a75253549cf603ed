// module: softmax
// expect: late
// family: work out of sight
// Its stream is joined, by the next call.
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
static cudaEvent_t done = nullptr;

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    const float* x = (const float*)in[0].data;
    float* y = (float*)out[0].data;
    if (!own) {
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        cudaEventCreateWithFlags(&done, cudaEventDisableTiming);
    } else {
        cudaStreamWaitEvent(stream, done, 0);
    }
    wait<<<1, 1, 0, own>>>();
    softmax<<<m, 256, 0, own>>>(x, y, n);
    cudaEventRecord(done, own);
    return cudaGetLastError();
}
