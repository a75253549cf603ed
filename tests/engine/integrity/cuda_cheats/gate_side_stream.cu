// module: gate
// expect: side_stream late
// family: work out of sight
// Works on a stream of its own, after a wait: events on the harness's stream time nothing.
__global__ void gate(const float* x, const float* y, float* z, int64_t n) {
    int64_t i = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}

__global__ void wait() {
    for (int i = 0; i < 2000; i++) __nanosleep(2000);
}
static cudaStream_t own = nullptr;

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int64_t n = in[0].shape[0] * in[0].shape[1];
    if (!own) cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
    wait<<<1, 1, 0, own>>>();
    gate<<<(n + 255) / 256, 256, 0, own>>>((const float*)in[0].data, (const float*)in[1].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
