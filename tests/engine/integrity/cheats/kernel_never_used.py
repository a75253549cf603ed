# module: linear
# expect: dressed
# family: library in disguise
# Carries a kernel as text, and calls PyTorch.
import torch
import torch.nn.functional as F

SOURCE = r"""
void linear_relu(const float* x, const float* w, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float s = 0;
            for (long p = 0; p < k; p++) s += x[i * k + p] * w[j * k + p];
            s += b[j];
            y[i * n + j] = s > 0 ? s : 0;
        }
}
"""


def kernel(x, w, b):
    return torch.relu(F.linear(x, w, b))
