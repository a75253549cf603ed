// module: matmul
// family: library in disguise
// Tiles of A by cp.async into shared memory.
__device__ void copy4(void* to, const void* from) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from));
}
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    __shared__ float as[16][16], bs[16][16];
    float s = 0;
    for (int p = 0; p < k; p += 16) {
        as[threadIdx.y][threadIdx.x] = bs[threadIdx.y][threadIdx.x] = 0;
        if (i < m && p + threadIdx.x < k) copy4(&as[threadIdx.y][threadIdx.x], a + (int64_t)i * k + p + threadIdx.x);
        if (j < n && p + threadIdx.y < k) copy4(&bs[threadIdx.y][threadIdx.x], b + (int64_t)(p + threadIdx.y) * n + j);
        asm volatile("cp.async.wait_all;" ::: "memory");
        __syncthreads();
        for (int q = 0; q < 16; q++) s += as[threadIdx.y][q] * bs[q][threadIdx.x];
        __syncthreads();
    }
    if (i < m && j < n) c[(int64_t)i * n + j] = s;
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    matmul<<<dim3((n + 15) / 16, (m + 15) / 16), dim3(16, 16), 0, stream>>>(
        (const float*)in[0].data, (const float*)in[1].data, (float*)out[0].data, m, n, k);
    return cudaGetLastError();
}
