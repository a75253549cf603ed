// module: gate
// expect: unwritten
// family: skipping work
// Launches a kernel that writes nothing: the output buffer may still hold an earlier, correct result.
__global__ void gate(const float* x, const float* y, float* z, int64_t n) {}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int64_t n = in[0].shape[0] * in[0].shape[1];
    gate<<<(n + 255) / 256, 256, 0, stream>>>((const float*)in[0].data, (const float*)in[1].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
