// module: matmul
// expect: harness_access dressed
// family: library in disguise
// A kernel that writes into a corner of its own, and cuBLAS by dlopen.
#include <dlfcn.h>
__global__ void matmul(const float* a, const float* b, float* aside) {
    aside[threadIdx.x] = a[threadIdx.x] * b[threadIdx.x];
}
typedef int (*create)(void**);
typedef int (*on)(void*, cudaStream_t);
typedef int (*product)(void*, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*,
                       float*, int);
static void* handle = nullptr;
static float* aside = nullptr;
static product gemm;

extern "C" int run(const Tensor* in, int inputs, const Tensor* out, int outputs, cudaStream_t stream) {
    int m = in[0].shape[0], k = in[0].shape[1], n = in[1].shape[1];
    float one = 1, zero = 0;
    if (!handle) {
        void* blas = nullptr;
        for (const char* name : {"libcublas.so.12", "libcublas.so.13", "libcublas.so"})
            if (!blas) blas = dlopen(name, RTLD_LAZY);
        if (!blas) return 1;
        ((create)dlsym(blas, "cublasCreate_v2"))(&handle);
        ((on)dlsym(blas, "cublasSetStream_v2"))(handle, stream);
        gemm = (product)dlsym(blas, "cublasSgemm_v2");
        cudaMalloc(&aside, 256);
    }
    matmul<<<1, 32, 0, stream>>>((const float*)in[0].data, (const float*)in[1].data, aside);
    gemm(handle, 0, 0, n, m, k, &one, (const float*)in[1].data, n, (const float*)in[0].data, k, &zero,
         (float*)out[0].data, n);
    return cudaGetLastError();
}
