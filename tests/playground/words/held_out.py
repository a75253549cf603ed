"""Twenty descriptions that were written before the rules of playground.words, and are not fitted to them.

Each: the words, the shapes of the inputs, the shape of the result, its type, and the functions of PyTorch that the
module calls, in their order (others may stand between them).
"""

HELD_OUT = (
    ("matrix multiply 1024x8192 times 8192x512", [(1024, 8192), (8192, 512)], (1024, 512), "float32", ["matmul"]),
    (
        "a linear layer from 1024 to 4096 with bias followed by GELU, batch size 2048, in half precision",
        [(2048, 1024)], (2048, 4096), "float16", ["linear", "gelu"],
    ),
    (
        "Apply a 3x3 convolution with 64 input channels and 128 output channels, stride 2 and padding 1 to images of "
        "224x224, then batch norm and ReLU. Batch of 16.",
        [(16, 64, 224, 224)], (16, 128, 112, 112), "float32", ["conv2d", "batch_norm", "relu"],
    ),
    (
        "softmax over the last dimension of a 4096 by 32000 tensor in bf16",
        [(4096, 32000)], (4096, 32000), "bfloat16", ["softmax"],
    ),
    (
        "SwiGLU feed-forward with hidden size 4096 and intermediate size 11008, 2048 tokens",
        [(2048, 4096)], (2048, 4096), "float32", ["linear", "silu", "linear", "mul", "linear"],
    ),
    (
        "self attention with 16 heads of 64, sequence length 1024, batch 8, fp16",
        [(8, 1024, 1024)], (8, 1024, 1024), "float16", ["linear", "softmax", "linear"],
    ),
    (
        "depthwise conv2d, 3x3, 128 channels, 56x56 images, batch 32, padding 1, then hardswish",
        [(32, 128, 56, 56)], (32, 128, 56, 56), "float32", ["conv2d", "hardswish"],
    ),
    (
        "batched matmul: 64 batches of 512x1024 times 1024x256",
        [(64, 512, 1024), (64, 1024, 256)], (64, 512, 256), "float32", ["matmul"],
    ),
    (
        "layer norm on a tensor of shape (8, 512, 1024), followed by a linear layer to 4096 features, then gelu, and "
        "back to 1024 features",
        [(8, 512, 1024)], (8, 512, 1024), "float32", ["layer_norm", "linear", "gelu", "linear"],
    ),
    (
        "max pooling 2x2 on 32 images with 64 channels of size 112x112",
        [(32, 64, 112, 112)], (32, 64, 56, 56), "float32", ["max_pool2d"],
    ),
    (
        "relu(x @ W + b) where x is 512x1024 and W is 1024x2048",
        [(512, 1024)], (512, 2048), "float32", ["linear", "relu"],
    ),
    (
        "Transposed convolution in 2D from 64 to 32 channels, kernel 4, stride 2, padding 1, input 16x64x32x32, then "
        "tanh",
        [(16, 64, 32, 32)], (16, 32, 64, 64), "float32", ["conv_transpose2d", "tanh"],
    ),
    ("row-wise sum of a 8192x8192 float32 matrix", [(8192, 8192)], (8192,), "float32", ["sum"]),
    (
        "rms norm then linear 4096 -> 4096, plus the residual; 4 sequences of 1024 tokens in bfloat16",
        [(4, 1024, 4096)], (4, 1024, 4096), "bfloat16", ["rms_norm", "linear", "add"],
    ),
    (
        "multiply by 2, add 1, clamp between -1 and 1, and take the mean over the columns; input 1024x2048",
        [(1024, 2048)], (1024,), "float32", ["mul", "add", "clamp", "mean"],
    ),
    (
        "3d convolution, 16 to 32 channels, kernel size 3, on volumes of 32x64x64, batch 4, leaky relu with slope 0.2",
        [(4, 16, 32, 64, 64)], (4, 32, 30, 62, 62), "float32", ["conv3d", "leaky_relu"],
    ),
    (
        "two-layer MLP 784 -> 512 -> 10 with relu in between, batch of 256, log softmax at the end",
        [(256, 784)], (256, 10), "float32", ["linear", "relu", "linear", "log_softmax"],
    ),
    (
        "group norm with 8 groups over 256 channels of 64x64 images, batch 8, followed by SiLU and a 1x1 convolution "
        "to 512 channels",
        [(8, 256, 64, 64)], (8, 512, 64, 64), "float32", ["group_norm", "silu", "conv2d"],
    ),
    (
        "global average pooling of 2048-channel 7x7 feature maps, batch 128, then a fully connected layer with 1000 "
        "outputs",
        [(128, 2048, 7, 7)], (128, 1000), "float32", ["adaptive_avg_pool2d", "linear"],
    ),
    (
        "A gemm with M=4096, N=2048, K=1024 with the second matrix transposed, scaled by 0.5, then sigmoid",
        [(4096, 1024), (2048, 1024)], (4096, 2048), "float32", ["matmul", "mul", "sigmoid"],
    ),
)  # fmt: skip
