// module: softmax
// expect: unwritten
// family: skipping work
// Launches a kernel that writes nothing.
__global__ void softmax(const float* x, float* y, int n) {}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], n = in[0].shape[1];
    softmax<<<m, 256, 0, stream>>>((const float*)in[0].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
