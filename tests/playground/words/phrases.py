"""Twenty descriptions that the rules were corrected by, in the form of tests.playground.words.held_out."""

PHRASES = (
    (
        "Linear 512 to 2048, swish, linear 2048 to 512, add skip connection. batch 64",
        [(64, 512)], (64, 512), "float32", ["linear", "silu", "linear", "add"],
    ),
    (
        "I'd like a conv1d with kernel 5, dilation 2 on 32 sequences of length 8000 with 16 channels, 64 output "
        "channels",
        [(32, 16, 8000)], (32, 64, 7992), "float32", ["conv1d"],
    ),
    (
        "multiply a 4096x2048 matrix by a 2048x1024 matrix and add a bias, then apply hard swish",
        [(4096, 2048), (2048, 1024)], (4096, 1024), "float32", ["matmul", "add", "hardswish"],
    ),
    (
        "average pool with window 3 and stride 2 over 8x96x55x55 then elu with alpha 0.5",
        [(8, 96, 55, 55)], (8, 96, 27, 27), "float32", ["avg_pool2d", "elu"],
    ),
    (
        "logsumexp of each row of a 128x50257 matrix",
        [(128, 50257)], (128,), "float32", ["logsumexp"],
    ),
    (
        "conv 3x3 64->64 same padding, instance norm, divide by 2; input batch 4, 128x128",
        [(4, 64, 128, 128)], (4, 64, 128, 128), "float32", ["conv2d", "instance_norm", "div"],
    ),
    (
        "gelu(linear(x)) with 768 inputs and 3072 outputs, 4096 rows, bfloat16",
        [(4096, 768)], (4096, 3072), "bfloat16", ["linear", "gelu"],
    ),
    (
        "Transformer block, 12 heads, embedding size 768, sequence length 128, batch size 4",
        [(4, 128, 768)], (4, 128, 768), "float32", ["layer_norm", "linear", "softmax", "linear", "layer_norm", "gelu"],
    ),
    (
        "depthwise separable convolution 32 to 64 channels 112x112 padding 1 batch 8 relu6",
        [(8, 32, 112, 112)], (8, 64, 112, 112), "float32", ["conv2d", "conv2d", "hardtanh"],
    ),
    (
        "3D max pooling 2x2x2 of 16-channel volumes of size 16x32x32, batch 2",
        [(2, 16, 16, 32, 32)], (2, 16, 8, 16, 16), "float32", ["max_pool3d"],
    ),
    (
        "take a 2048 by 2048 matrix, square it elementwise, sum over all elements",
        [(2048, 2048)], (), "float32", ["square", "sum"],
    ),
    (
        "lower triangle of the product of two 1024x1024 matrices",
        [(1024, 1024), (1024, 1024)], (1024, 1024), "float32", ["matmul", "tril"],
    ),
    (
        "grouped conv2d with 4 groups from 128 to 256 channels, kernel size 3x3, 28x28 images, batch 16, no bias, mish",
        [(16, 128, 28, 28)], (16, 256, 26, 26), "float32", ["conv2d", "mish"],
    ),
    (
        "dense layer with 4096 units on 1,024 samples of 2048 features, leaky relu 0.2 slope, then dropout",
        [(1024, 2048)], (1024, 4096), "float32", ["linear", "leaky_relu"],
    ),
    (
        "causal self-attention, 8 heads, width 512, 256 tokens, batch 2, half",
        [(2, 256, 512)], (2, 256, 512), "float16", ["linear", "softmax", "linear"],
    ),
    (
        "3d transposed conv with stride 2, kernel 4, padding 1, 32 in channels, 16 out channels, 8x16x16, batch 2",
        [(2, 32, 8, 16, 16)], (2, 16, 16, 32, 32), "float32", ["conv_transpose3d"],
    ),
    (
        "batch matrix multiplication of 32x128x64 and 32x64x256, divided by 8, softmax",
        [(32, 128, 64), (32, 64, 256)], (32, 128, 256), "float32", ["matmul", "div", "softmax"],
    ),
    (
        "matmul [256, 1024] @ [1024, 256] -> tanh -> * 3 -> row-wise max",
        [(256, 1024), (1024, 256)], (256,), "float32", ["matmul", "tanh", "mul", "amax"],
    ),
    (
        "GeGLU with width 1024 and hidden 2816 on 4096 tokens, fp16, preceded by RMSNorm",
        [(4096, 1024)], (4096, 1024), "float16", ["gelu", "mul", "linear"],
    ),
    (
        "first a 7x7 conv with stride 2, padding 3 from 3 to 64 channels on 224x224 pictures; batchnorm; relu; 3x3 max "
        "pool with stride 2 and padding 1",
        [(16, 3, 224, 224)], (16, 64, 56, 56), "float32", ["conv2d", "batch_norm", "relu", "max_pool2d"],
    ),
)  # fmt: skip
