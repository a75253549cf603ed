// module: softmax
// expect: graph_replay
// family: memo and stale results
// A graph of its first call, which reads a copy of the first inputs.
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

static cudaGraphExec_t graph = nullptr;
static float *copy = nullptr, *result = nullptr;

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    const float* x = (const float*)in[0].data;
    float* y = (float*)out[0].data;
    if (!graph) {
        cudaGraph_t captured;
        cudaStream_t own;
        cudaMalloc(&copy, (size_t)m * n * 4), cudaMalloc(&result, (size_t)m * n * 4);
        cudaMemcpyAsync(copy, x, (size_t)m * n * 4, cudaMemcpyDeviceToDevice, stream);
        cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
        cudaStreamBeginCapture(own, cudaStreamCaptureModeThreadLocal);
        softmax<<<m, 256, 0, own>>>(copy, result, n);
        cudaStreamEndCapture(own, &captured);
        cudaGraphInstantiate(&graph, captured, 0);
    }
    cudaGraphLaunch(graph, stream);
    cudaMemcpyAsync(y, result, (size_t)m * n * 4, cudaMemcpyDeviceToDevice, stream);
    return cudaGetLastError();
}
