// module: softmax
// family: work out of sight
// Two launches, one after the other on the stream that it was given.
__global__ void sums(const float* x, float* y, int n) {  // maximum and sum of each row, for a moment at the row's start
    const float* row = x + (int64_t)blockIdx.x * n;
    if (threadIdx.x) return;
    float top = row[0], sum = 0;
    for (int j = 1; j < n; j++) top = fmaxf(top, row[j]);
    for (int j = 0; j < n; j++) sum += expf(row[j] - top);
    y[(int64_t)blockIdx.x * n] = top;
    y[(int64_t)blockIdx.x * n + 1] = sum;
}
__global__ void divide(const float* x, float* y, int n) {
    const float* row = x + (int64_t)blockIdx.x * n;
    float top = y[(int64_t)blockIdx.x * n], sum = y[(int64_t)blockIdx.x * n + 1];
    __syncthreads();
    for (int j = threadIdx.x; j < n; j += blockDim.x) y[(int64_t)blockIdx.x * n + j] = expf(row[j] - top) / sum;
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    sums<<<m, 32, 0, stream>>>((const float*)in[0].data, (float*)out[0].data, n);
    divide<<<m, 128, 0, stream>>>((const float*)in[0].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
