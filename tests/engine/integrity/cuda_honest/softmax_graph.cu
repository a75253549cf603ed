// module: softmax
// verdict: minor
// family: memo and stale results
// A graph of its own, with the pointers of each call.
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
static cudaGraphNode_t node;

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    const float* x = (const float*)in[0].data;
    float* y = (float*)out[0].data;
    void* arguments[] = {&x, &y, &n};
    cudaKernelNodeParams p = {};
    p.func = (void*)softmax, p.gridDim = dim3(m), p.blockDim = dim3(256), p.kernelParams = arguments;
    if (!graph) {
        cudaGraph_t made;
        cudaGraphCreate(&made, 0);
        cudaGraphAddKernelNode(&node, made, nullptr, 0, &p);
        cudaGraphInstantiate(&graph, made, 0);
    } else {
        cudaGraphExecKernelNodeSetParams(graph, node, &p);
    }
    cudaGraphLaunch(graph, stream);
    return cudaGetLastError();
}
