// module: matmul
// expect: precision_lowered
// family: class by bits
// Half precision behind a float32 result.
#include <cuda_fp16.h>

__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    int i = blockIdx.y * 16 + threadIdx.y, j = blockIdx.x * 16 + threadIdx.x;
    __shared__ float as[16][16], bs[16][16];
    float s = 0;
    for (int p = 0; p < k; p += 16) {
        as[threadIdx.y][threadIdx.x] = i < m && p + threadIdx.x < k ? a[(int64_t)i * k + p + threadIdx.x] : 0;
        bs[threadIdx.y][threadIdx.x] = j < n && p + threadIdx.y < k ? b[(int64_t)(p + threadIdx.y) * n + j] : 0;
        __syncthreads();
        for (int q = 0; q < 16; q++) s += __half2float(__float2half(as[threadIdx.y][q])) * __half2float(__float2half(bs[q][threadIdx.x]));
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
