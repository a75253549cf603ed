"""ATen's operations by kind, with their cost per element: the tables that `sol.cost.ops` reads.

Vector FLOPs are the least that the vector pipes must do, specials the results of the special-function units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def _names(text: str) -> list[str]:
    return text.split()


# ---- element-wise: (vector FLOPs, special functions) per result -----------------------------------------------

POINTWISE: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        _names(
            "add sub rsub mul neg abs relu relu6 hardtanh clamp clamp_min clamp_max maximum minimum "
            "max_pointwise sign ceil floor round trunc frac square lerp eq ne lt le gt ge logical_and "
            "logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not bitwise_xor where "
            "masked_fill threshold isnan isinf isfinite heaviside copysign fmax fmin nan_to_num "
            "isneginf isposinf positive isreal signbit sgn subtract multiply negative greater less "
            "greater_equal less_equal equal not_equal clip maximum_ bitwise_left_shift bitwise_right_shift deg2rad "
            "rad2deg isclose kron outer ger"
        ),
        (1, 0),
    ),
    **dict.fromkeys(_names("tril triu"), (0, 0)),
    **dict.fromkeys(_names("addcmul leaky_relu prelu hardsigmoid softshrink hardshrink rrelu"), (2, 0)),
    **dict.fromkeys(_names("addcdiv div true_divide divide remainder fmod floor_divide"), (1, 1)),
    **dict.fromkeys(_names("reciprocal exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tanh"), (1, 1)),
    **dict.fromkeys(_names("sinh cosh tan asin acos atan asinh acosh atanh atan2"), (4, 1)),
    "hardswish": (3, 0),
    "sigmoid": (2, 1),  # 0.5 + 0.5 tanh(x / 2)
    "silu": (3, 1),
    "gelu": (12, 1),  # erf is a polynomial and one exp2; approximate="tanh" has its own entry below
    "gelu_tanh": (6, 1),
    "erf": (10, 1),
    "erfc": (10, 1),
    "erfinv": (10, 1),
    "elu": (2, 1),
    "selu": (3, 1),
    "celu": (3, 1),
    "softplus": (2, 2),
    "logsigmoid": (2, 2),
    "log_sigmoid": (2, 2),
    "logaddexp": (3, 2),
    "mish": (6, 2),  # tanh(log(1 + e)) = (e^2 + 2 e) / (e^2 + 2 e + 2): one exp2, one rcp
    "softsign": (2, 1),
    "tanhshrink": (2, 1),
    "glu": (3, 1),
    "pow": (1, 2),
    "dropout": (2, 0),
    "native_dropout": (2, 0),
    "bernoulli": (2, 0),
}
EXACT_POWERS = {"pow": {2: (1, 0), 3: (2, 0), 0.5: (0, 1), -0.5: (0, 1), -1: (0, 1), 1: (0, 0)}}

# ---- reductions, norms, losses: (vector FLOPs, special functions) per input element---------------------------

REDUCTIONS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(
        _names(
            "sum mean nansum nanmean amax amin max min aminmax argmax argmin prod any all count_nonzero "
            "cumsum cumprod cummax cummin nll_loss nll_loss_nd nll_loss2d nll_loss_forward nll_loss2d_forward "
            "trace hinge_embedding_loss"
        ),
        (1, 0),
    ),
    **dict.fromkeys(_names("var std var_mean std_mean var_mean_correction"), (3, 0)),
    **dict.fromkeys(
        _names(
            "norm linalg_vector_norm frobenius_norm linalg_norm mse_loss l1_loss smooth_l1_loss huber_loss "
            "pairwise_distance margin_ranking_loss"
        ),
        (2, 0),
    ),
    **dict.fromkeys(_names("cosine_similarity cosine_embedding_loss triplet_margin_loss"), (3, 0)),
    **dict.fromkeys(_names("logsumexp logcumsumexp"), (2, 1)),
    "cross_entropy_loss": (2, 1),
    **dict.fromkeys(_names("kl_div binary_cross_entropy"), (3, 1)),
    **dict.fromkeys(_names("binary_cross_entropy_with_logits soft_margin_loss"), (4, 2)),
}
NORMS: dict[str, tuple[float, float]] = {
    **dict.fromkeys(_names("softmax _softmax"), (3, 1)),
    **dict.fromkeys(_names("log_softmax _log_softmax"), (3, 1)),
    **dict.fromkeys(
        _names("layer_norm native_layer_norm group_norm native_group_norm instance_norm local_response_norm"),
        (5, 0),
    ),
    **dict.fromkeys(_names("rms_norm _fused_rms_norm normalize renorm"), (4, 0)),
}
BATCH_NORM_TRAINS: dict[str, bool | None] = {  # ATen's spellings; None: the operation's attribute `training` says it
    **dict.fromkeys(
        _names(
            "batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional "
            "_batch_norm_impl_index cudnn_batch_norm miopen_batch_norm"
        ),
        None,
    ),
    **dict.fromkeys(
        _names("_native_batch_norm_legit_no_training _batch_norm_no_training _batch_norm_no_update batch_norm_elemt"),
        False,
    ),
    **dict.fromkeys(_names("_batch_norm_with_update _batch_norm_with_update_functional"), True),
}
POOLS = frozenset(
    f"{p}{k}_pool{d}d{s}"
    for p in ("", "adaptive_")
    for k in ("max", "avg")
    for d in (1, 2, 3)
    for s in ("", "_with_indices")
) | frozenset(_names("_adaptive_avg_pool2d _adaptive_avg_pool3d lp_pool1d lp_pool2d fractional_max_pool2d"))
GATHERS = frozenset(
    _names(
        "embedding index_select gather index take take_along_dim embedding_bag _embedding_bag "
        "grid_sampler grid_sampler_2d grid_sampler_3d im2col"
    )
)
VIEWS = frozenset(
    _names(
        "view reshape _unsafe_view view_as reshape_as expand expand_as unsqueeze squeeze t transpose "
        "permute movedim swapaxes swapdims moveaxis numpy_T mT T adjoint flatten unflatten slice select "
        "narrow chunk split split_with_sizes tensor_split unbind getitem detach alias lift_fresh_copy "
        "lift_fresh identity diagonal as_strided real imag view_as_real view_as_complex broadcast_to broadcast_tensors "
        "atleast_1d atleast_2d atleast_3d ravel unsafe_split unsafe_chunk squeeze_dims hsplit vsplit conj "
        "resolve_conj resolve_neg set_ requires_grad_ unfold _conj _neg_view _reshape_alias"
    )
)
SHAPED_LIKE = frozenset(_names("view_as expand_as reshape_as type_as"))  # of their second input: shape or type
SUBSETS = frozenset(_names("slice select narrow chunk split split_with_sizes tensor_split unbind diagonal getitem"))
MAY_COPY = frozenset(_names("reshape flatten reshape_as ravel unflatten"))  # views where the strides allow it
COPIES = frozenset(
    _names(
        "clone contiguous copy to _to_copy type_as float half bfloat16 double int long bool cat concat "
        "concatenate stack hstack vstack dstack repeat repeat_interleave tile flip roll rot90 pad "
        "constant_pad_nd reflection_pad1d reflection_pad2d reflection_pad3d replication_pad1d "
        "replication_pad2d replication_pad3d circular_pad fold col2im pixel_shuffle pixel_unshuffle "
        "channel_shuffle slice_scatter select_scatter diag diag_embed block_diag upsample_nearest1d "
        "upsample_nearest2d upsample_nearest3d _upsample_nearest_exact1d _upsample_nearest_exact2d "
        "_upsample_nearest_exact3d meshgrid one_hot scatter scatter_add index_put index_add "
        "index_copy index_fill masked_scatter masked_select convert_element_type complex scatter_reduce "
        "_index_put_impl index_reduce diagonal_scatter as_strided_scatter atleast_nd chalf cfloat cdouble"
    )
)
LAYOUT_COPIES = MAY_COPY | frozenset(  # the same values in another order or type
    _names(
        "clone contiguous copy to _to_copy type_as float half bfloat16 double int long bool convert_element_type "
        "chalf cfloat cdouble"
    )
)
UPSAMPLE: dict[str, float] = {  # input elements per result; antialiased variants read all
    "upsample_linear1d": 2,
    "upsample_bilinear2d": 4,
    "upsample_trilinear3d": 8,
    "upsample_bicubic2d": 16,
    **dict.fromkeys(_names("_upsample_bilinear2d_aa _upsample_bicubic2d_aa"), float("inf")),
}
OVERWRITES = frozenset(_names("slice_scatter select_scatter diagonal_scatter copy"))  # part of the first by the second
SOURCES = frozenset(
    _names(
        "zeros ones full empty arange zeros_like ones_like full_like empty_like new_zeros new_ones "
        "new_full new_empty rand randn randint rand_like randn_like eye linspace scalar_tensor fill zero "
        "uniform normal tril_indices triu_indices"
    )
)
NOTHING = frozenset(_names("sym_size sym_size_int size item _assert_async _assert_tensor_metadata getattr"))


def is_inference_batch_norm(name: str, attrs: Mapping[str, Any]) -> bool:
    """Return True for a batch norm with given statistics, which is element by element. `name`: canonical."""
    if name not in BATCH_NORM_TRAINS:
        return False
    training = BATCH_NORM_TRAINS[name]
    return not (attrs.get("training", attrs.get("train")) if training is None else training)
