// module: matmul
// expect: precision_lowered
// family: class by bits
// The tensor cores in f16, under the name of f32.
#include <cuda_fp16.h>
#include <mma.h>
using namespace nvcuda;
__global__ void matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ half as[256], bs[256];
    __shared__ float cs[256];
    int i = blockIdx.y * 16, j = blockIdx.x * 16;
    wmma::fragment<wmma::matrix_a, 16, 16, 16, half, wmma::row_major> fa;
    wmma::fragment<wmma::matrix_b, 16, 16, 16, half, wmma::row_major> fb;
    wmma::fragment<wmma::accumulator, 16, 16, 16, float> fc;
    wmma::fill_fragment(fc, 0.0f);
    for (int p = 0; p < k; p += 16) {
        for (int t = threadIdx.x; t < 256; t += 32) {
            int r = t / 16, q = t % 16;
            as[t] = __float2half(i + r < m && p + q < k ? a[(int64_t)(i + r) * k + p + q] : 0);
            bs[t] = __float2half(p + r < k && j + q < n ? b[(int64_t)(p + r) * n + j + q] : 0);
        }
        __syncwarp();
        wmma::load_matrix_sync(fa, as, 16);
        wmma::load_matrix_sync(fb, bs, 16);
        wmma::mma_sync(fc, fa, fb, fc);
        __syncwarp();
    }
    wmma::store_matrix_sync(cs, fc, 16, wmma::mem_row_major);
    __syncwarp();
    for (int t = threadIdx.x; t < 256; t += 32)
        if (i + t / 16 < m && j + t % 16 < n) c[(int64_t)(i + t / 16) * n + j + t % 16] = cs[t];
}

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    matmul<<<dim3((n + 15) / 16, (m + 15) / 16), 32, 0, stream>>>(
        (const float*)in[0].data, (const float*)in[1].data, (float*)out[0].data, m, n, k);
    return cudaGetLastError();
}
