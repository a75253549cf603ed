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
triplet_margin_loss margin_ranking_loss soft_margin_loss poisson_nll_loss multi_margin_loss multilabel_margin_loss
nll_loss2d ctc_loss
fft_fft fft_ifft fft_rfft fft_irfft fft_hfft fft_ihfft fft_fft2 fft_ifft2 fft_rfft2 fft_irfft2 fft_fftn fft_ifftn
fft_rfftn fft_irfftn fft_fftshift fft_ifftshift fft_fftfreq fft_rfftfreq
view_as_real view_as_complex real imag complex polar angle conj _conj _conj_physical resolve_conj resolve_neg
lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell embedding_bag _embedding_bag _weight_norm _weight_norm_interface
linalg_cholesky linalg_cholesky_ex cholesky_solve cholesky_inverse linalg_solve linalg_solve_ex _linalg_solve_ex
linalg_solve_triangular triangular_solve linalg_inv linalg_inv_ex inverse linalg_pinv linalg_det _linalg_det
linalg_slogdet _linalg_slogdet logdet linalg_qr linalg_svd _linalg_svd linalg_svdvals linalg_eigh _linalg_eigh
linalg_eigvalsh linalg_lu linalg_lu_factor linalg_lu_solve linalg_matrix_power matrix_exp linalg_matrix_exp
linalg_norm linalg_matrix_norm linalg_cross linalg_vecdot linalg_multi_dot chain_matmul linalg_matmul
vdot inner ger addr addbmm tensordot kron trace dist _cdist_forward pdist
max_unpool2d max_unpool3d broadcast_to moveaxis swapdims ravel
unsafe_split unsafe_chunk hsplit vsplit dsplit dstack concatenate column_stack block_diag diag diag_embed diagflat
reflection_pad3d replication_pad3d _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d
upsample_linear1d _upsample_bilinear2d_aa _upsample_bicubic2d_aa grid_sampler_2d grid_sampler_3d
asinh acosh atanh logit sinc erfinv lgamma digamma i0 sgn signbit copysign hypot heaviside logaddexp logaddexp2 xlogy
special_xlog1py deg2rad rad2deg isneginf isposinf isreal isclose not_equal greater greater_equal less less_equal
bitwise_left_shift bitwise_right_shift gcd lcm float_power ldexp multiply subtract divide negative absolute
logcumsumexp nansum nanmean nanmedian aminmax std_mean count_nonzero mode diff trapezoid cumulative_trapezoid cov
take index_fill index_reduce isin tril_indices triu_indices logspace hann_window hamming_window
renorm _fused_rms_norm stft istft
__and__ __or__ __xor__ __lshift__ __rshift__ bitwise_xor positive fix arccos arccosh arcsin arcsinh arctan arctan2
arctanh nextafter frexp igamma igammac mvlgamma polygamma adjoint mH matrix_H conj_physical atleast_1d atleast_2d
atleast_3d view_as reshape_as sum_to_size broadcast_tensors row_stack fliplr flipud cartesian_prod combinations vander
msort argwhere put trapz gradient corrcoef histogram segment_reduce native_channel_shuffle frobenius_norm nuclear_norm
norm_except_dim det slogdet pinverse matrix_power cholesky qr svd geqrf orgqr lu_solve lu_unpack linalg_cond
linalg_diagonal linalg_eig linalg_eigvals linalg_householder_product linalg_ldl_factor linalg_ldl_solve linalg_lstsq
linalg_matrix_rank linalg_tensorinv linalg_tensorsolve linalg_vander special_airy_ai special_bessel_j0
special_bessel_j1 special_bessel_y0 special_bessel_y1 special_digamma special_entr special_erf special_erfc
special_erfcx special_erfinv special_exp2 special_expit special_expm1 special_gammainc special_gammaincc
special_gammaln special_i0 special_i0e special_i1 special_i1e special_log1p special_log_ndtr special_log_softmax
special_logit special_logsumexp special_multigammaln special_ndtr special_ndtri special_polygamma special_psi
special_round special_sinc special_softmax special_xlogy special_zeta fft_hfft2 fft_hfftn fft_ihfft2 fft_ihfftn
_fft_c2c _fft_c2r _fft_r2c _convolution _adaptive_avg_pool2d _adaptive_avg_pool3d _native_batch_norm_legit_no_training
_safe_softmax _prelu_kernel _trilinear _euclidean_dist _logcumsumexp _unsafe_index _pad_circular _pad_enum
nll_loss_forward nll_loss2d_forward log_sigmoid_forward
"""
ALLOWED = frozenset(_WORDS.split())
