// module: gate
// expect: time_limit
// family: faults
// A kernel that waits for something that never comes.
__device__ volatile int flag = 0;
__global__ void gate(const float* x, const float* y, float* z, int64_t n) {
    while (flag == 0) {}
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int64_t n = in[0].shape[0] * in[0].shape[1];
    gate<<<(n + 255) / 256, 256, 0, stream>>>((const float*)in[0].data, (const float*)in[1].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
