// module: gate
// family: class by bits
// Four elements at a time.
__device__ float one(float x, float y) { return x / (1 + expf(-x)) + y; }
__global__ void gate(const float* x, const float* y, float* z, int64_t n) {
    int64_t i = (blockIdx.x * (int64_t)blockDim.x + threadIdx.x) * 4;
    if (i + 3 < n) {
        float4 a = *(const float4*)(x + i), b = *(const float4*)(y + i);
        *(float4*)(z + i) = make_float4(one(a.x, b.x), one(a.y, b.y), one(a.z, b.z), one(a.w, b.w));
    } else {
        for (; i < n; i++) z[i] = one(x[i], y[i]);
    }
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int64_t n = in[0].shape[0] * in[0].shape[1];
    gate<<<(n / 4 + 256) / 256, 256, 0, stream>>>(
        (const float*)in[0].data, (const float*)in[1].data, (float*)out[0].data, n);
    return cudaGetLastError();
}
