"""The operations that may run beside regions, by ATen's names: functional ones, without writes and random numbers.

This module is separate from engine.evaluate.candidate.aten, which runs them, for callers without torch. A module that
needs another operation is refused when it is split into regions.
"""

from __future__ import annotations

_WORDS = """
view reshape _unsafe_view flatten unflatten squeeze unsqueeze expand expand_as transpose permute t mT numpy_T movedim
swapaxes select slice narrow diagonal unbind split split_with_sizes chunk tensor_split unfold clone
contiguous detach alias to _to_copy type_as cat concat stack hstack vstack repeat repeat_interleave tile roll flip
rot90 tril triu constant_pad_nd pad reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d pixel_shuffle
pixel_unshuffle channel_shuffle
add sub rsub mul div true_divide floor_divide remainder fmod pow neg abs sign sqrt rsqrt square reciprocal exp exp2
expm1 log log2 log10 log1p sin cos tan asin acos atan atan2 sinh cosh tanh erf erfc sigmoid floor ceil round trunc frac
clamp clamp_min clamp_max clip minimum maximum fmax fmin addcmul addcdiv lerp where masked_fill isnan isinf isfinite
nan_to_num eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not
relu relu6 leaky_relu elu selu celu gelu silu mish softplus softsign hardtanh hardsigmoid hardswish hardshrink
softshrink threshold prelu glu log_sigmoid
sum mean amax amin max min argmax argmin prod std var var_mean logsumexp norm linalg_vector_norm any all cumsum cumprod
cummax cummin sort argsort topk kthvalue median softmax _softmax log_softmax _log_softmax
linear matmul mm bmm mv dot addmm baddbmm addmv einsum outer bilinear _grouped_mm
conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d convolution
layer_norm rms_norm group_norm batch_norm instance_norm native_layer_norm native_group_norm
_native_batch_norm_legit _native_batch_norm_legit_functional native_batch_norm
avg_pool1d avg_pool2d avg_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices max_pool2d_with_indices
max_pool3d_with_indices adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d
adaptive_max_pool2d adaptive_max_pool3d lp_pool2d upsample_nearest1d upsample_nearest2d upsample_nearest3d
upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d grid_sampler affine_grid_generator im2col col2im
scaled_dot_product_attention embedding one_hot index index_select gather take_along_dim scatter scatter_add
scatter_reduce index_add index_copy index_put slice_scatter select_scatter diagonal_scatter masked_scatter copy fill
masked_select nonzero bincount histc searchsorted bucketize meshgrid cross cdist
cosine_similarity pairwise_distance
zeros ones full arange linspace eye zeros_like ones_like full_like new_zeros new_ones new_full scalar_tensor
lift_fresh_copy gru lstm rnn_tanh rnn_relu mse_loss l1_loss smooth_l1_loss huber_loss cross_entropy_loss nll_loss
nll_loss_nd kl_div binary_cross_entropy binary_cross_entropy_with_logits hinge_embedding_loss cosine_embedding_loss
triplet_margin_loss margin_ranking_loss soft_margin_loss fft_fft fft_rfft fft_irfft fft_fft2 view_as_real real imag
"""
ALLOWED = frozenset(_WORDS.split())
