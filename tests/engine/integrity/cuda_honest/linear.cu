// module: linear
// family: library in disguise
// Product, bias and activation in one kernel.
__global__ void linear_relu(const float* x, const float* w, const float* b, float* y, int m, int n, int k) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    if (i >= m || j >= n) return;
    float s = 0;
    for (int p = 0; p < k; p++) s += x[(int64_t)i * k + p] * w[(int64_t)j * k + p];
    s += b[j];
    y[(int64_t)i * n + j] = s > 0 ? s : 0;
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[0];
    linear_relu<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, stream>>>(
        (const float*)in[0].data, (const float*)in[1].data, (const float*)in[2].data, (float*)out[0].data, m, n, k);
    return cudaGetLastError();
}
