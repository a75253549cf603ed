"""Programs whose stages are kernels of our own, small enough to emulate: each row is one way that a kernel may go."""

from __future__ import annotations

X = "x: f32[4, 24, 10, 12]"
NHWC = "t = transform(x) { layout nhwc }\n"


def one(params: str, result: str, body: str, returned: str = "y") -> str:
    return f"program p({params}) -> {result} {{\n  {body}\n  return {returned}\n}}"


CASES = {
    # element-wise
    "map_full_f16": one(
        "x: f16[4, 8, 6, 8], s: f32[8], r: f16[4, 8, 6, 8]", "f32[4, 8, 6, 8]",
        "y = map(x) { let t = acc * s[c]  store f32  epilogue relu(t + r[b, c, h, w]) }",
    ),
    "map_odd_axes": one("x: f32[7, 13], v: f32[13]", "f32[7, 13]", "y = map(x) { epilogue acc + v[n] }"),
    "map_waves": one("x: f32[7, 13]", "f32[7, 13]", "y = map(x) { epilogue sin(30.0 * acc) + cos(acc) }"),
    "map_stack": one(
        "x: f32[2, 3, 4, 8], r: f32[2, 3, 4], q: f32[4, 8]", "f32[2, 3, 4, 8]",
        "y = map(x) { epilogue acc * r[l, m] + q[h, w] }",
    ),
    "map_two_results": one(
        "x: f32[40, 12], s: f32[]", "(f32[40, 12], f32[40, 12])",
        "y = map(x) { also z = acc * s  epilogue mish(acc) }", "y, z",
    ),
    "map_names": one(
        "q: f32[40, 12], k: f32[12], thread: f32[40]", "f32[40, 12]",
        "lane = map(q) { epilogue acc * k[n] + thread[m] }", "lane",
    ),
    "map_of_two_halves": one(
        "x: f16[20, 64]", "f16[20, 32]", "y = map(x) { crop 20x32  epilogue silu(acc) * x[m, n + 32] }"
    ),
    "map_of_a_part_beside_another": one(
        "x: f32[3, 11, 40], v: f32[70]", "f32[3, 9, 37]",
        "y = map(x) { crop 3x9x37  from 0x2x3  epilogue acc - x[b, c + 0, w + 1] + v[n + 33] }",
    ),
    "map_of_channels_last": one(
        "x: f32[3, 24, 9, 11]", "f32[3, 8, 9, 11]",
        NHWC + "  y = map(t) { crop 3x8x9x11  from 0x16x0x0  store f32 nchw  epilogue acc * t[b, c + 4, h, w] }",
    ),
    # bytes, read as whole numbers
    "map_of_bytes": one(
        "m: i8[20, 64], x: f16[20, 64], v: i8[64]", "f16[20, 64]",
        "y = map(m) { store f16  epilogue where(acc, x[m, n], 0.5) * v[n] }",
    ),
    "map_beside_bytes": one(
        "x: f32[7, 13], m: i8[7, 13], r: i8[7]", "f32[7, 13]", "y = map(x) { epilogue acc * m[m, n] + r[m] }"
    ),
    "bytes_in_another_order": one(
        "x: f32[6, 40], m: i8[40, 6]", "f32[6, 40]",
        "t = transform(m) { permute 1x0 }\n  y = map(x) { epilogue acc * t[m, n] }",
    ),
    "sums_of_bytes": one(
        "m: i8[9, 70], x: f32[9, 70]", "(f32[9], f32[70])",
        "y = reduce(m) { op sum  over n  store f32 }\n  z = reduce(x) { op max  over m  of acc * m[m, n] }", "y, z",
    ),
    "softmax_where_bytes_say": one(
        "x: f32[5, 70], m: i8[5, 70]", "f32[5, 70]",
        "y = normalize(x) { op softmax  over n  of where(m[m, n], -10000.0, acc) }",
    ),
    # transforms
    "nhwc_and_back": one(
        "x: f32[3, 13, 9, 11], r: f32[3, 13, 9, 11]", "f32[3, 13, 9, 11]",
        "t = transform(x) { layout nhwc  to f16 }\n"
        "  y = map(t) { store f32 nchw  epilogue relu(acc) + r[b, c, h, w] }",
    ),
    "nhwc_padded": one(
        "x: f32[3, 3, 20, 24]", "f32[3, 8, 20, 24]",
        "t = transform(x) { pad 3x8x20x24  layout nhwc  to f16 }\n  y = map(t) { store f32 nchw  epilogue acc + 1 }",
    ),
    "nhwc_padded_all_round": one(
        "x: f32[3, 5, 11, 24]", "f16[3, 8, 13, 32]", "t = transform(x) { pad 3x8x13x32  layout nhwc  to f16 }\n"
        "  y = transform(t) { layout nchw }",
    ),
    "nhwc_eight_channels": one(
        "x: f32[3, 8, 9, 24]", "f32[3, 8, 9, 24]",
        "t = transform(x) { layout nhwc  to f16 }\n  y = map(t) { store f32 nchw  epilogue acc + 1 }",
    ),
    "permute_inner": one("x: f16[72, 16, 80]", "f16[16, 80, 72]", "y = transform(x) { permute 1x2x0 }"),
    "permute_outer": one("x: f16[72, 16, 80]", "f16[16, 72, 80]", "y = transform(x) { permute 1x0x2 }"),
    "view_permute": one("x: f32[6, 40]", "f32[40, 2, 3]", "y = transform(x) { view 2x3x40  permute 2x0x1 }"),
    "view_of_channels_last": one(X, "f32[4, 24, 120]", NHWC + "  y = transform(t) { view 4x24x120 }"),
    "view_of_channels_last_split": one(X, "f32[2, 2, 3, 8, 120]", NHWC + "  y = transform(t) { view 2x2x3x8x120 }"),
    "view_of_pooled_channels_last": one(
        X, "f32[4, 24]", NHWC + "  g = pool(t) { op max  window global }\n  y = transform(g) { view 4x24 }"
    ),
    "pad": one("x: f32[10, 13]", "f16[12, 16]", "y = transform(x) { pad 12x16  to f16 }"),
    "crop": one("x: f32[10, 16]", "f32[8, 13]", "y = transform(x) { crop 8x13 }"),
    "concat_repeats_one_element": one(
        "a: f16[1, 1, 64], x: f16[4, 5, 64], p: f16[6, 64]", "f16[4, 6, 64]",
        "y = concat(a, x) { over c  epilogue acc + p[c, w] }",
    ),
    "concat_repeats_a_row": one(
        "x: f32[6, 1, 7], t: f32[1, 5, 7]", "f32[6, 6, 7]", "y = concat(t, x) { over c  epilogue acc * 2.0 }"
    ),
    "softmax_scaled_by_a_part_of_its_rows": one(
        "x: f16[3, 5, 256], s: f16[5], q: f16[3, 256]", "f16[3, 5, 256]",
        "y = normalize(x) { op softmax  over w  epilogue acc * s[c] + q[b, w] }",
    ),
    "interleave": one(
        "a: f32[3, 10, 24], b: f32[3, 10, 24]", "f16[3, 20, 24]", "y = transform(a, b) { interleave  to f16 }"
    ),
    # reductions
    "rows_of_a_warp": one(
        "x: f16[37, 100], v: f32[100], r: f32[37]", "f32[37]",
        "y = reduce(x) { op logsumexp  over n  of acc * v[n]  store f32  epilogue acc + r[m] }",
    ),
    "rows_of_a_block": one("x: f32[9, 5000]", "f32[9]", "y = reduce(x) { op mean  over n }"),
    "rows_in_parts": one("x: f32[3, 70000]", "f32[3]", "y = reduce(x) { op sum  over n }"),
    "rows_in_parts_argmax": one("x: f32[3, 70000]", "i32[3]", "y = reduce(x) { op argmax  over n }"),
    "everything": one("x: f32[3, 5, 7]", "f32[]", "y = reduce(x) { op max  over l, m, n }"),
    "channels": one(
        X, "f32[4, 1, 10, 12]", "y = reduce(x) { op logsumexp  over c  keepdim  epilogue relu(acc) }"
    ),
    "columns_in_parts": one("x: f32[3000, 41]", "f32[41]", "y = reduce(x) { op min  over m }"),
    "all_but_channels": one(X, "f32[24]", "y = reduce(x) { op sum  over b, h, w }"),
    "argmax_of_nhwc": one(X, "i32[4, 10, 12]", NHWC + "  y = reduce(t) { op argmax  over c }"),
    # norms
    "softmax_held": one("x: f32[9, 500]", "f32[9, 500]", "y = normalize(x) { op softmax  over n  of acc * 0.3 }"),
    "softmax_streamed": one("x: f32[3, 40000]", "f32[3, 40000]", "y = normalize(x) { op softmax  over n }"),
    "log_softmax_channels": one(X, "f32[4, 24, 10, 12]", "y = normalize(x) { op log_softmax  over c }"),
    "layernorm": one(
        "x: f16[9, 77], w: f32[77], b: f32[77]", "f16[9, 77]", "y = normalize(x, w, b) { op layernorm  over n }"
    ),
    "layernorm_long": one(
        "x: f32[2, 40000], w: f32[40000]", "f32[2, 40000]",
        "y = normalize(x, w) { op layernorm  over n  epilogue tanh(acc) }",
    ),
    "rmsnorm": one("x: f32[9, 6, 64], w: f32[64]", "f32[9, 6, 64]", "y = normalize(x, w) { op rmsnorm  over n }"),
    "norm_and_what_it_read": (
        "program p(x: f16[9, 6, 64], r: f16[9, 6, 64], w: f16[64]) -> (f16[9, 6, 64], f16[9, 6, 64]) {\n"
        "  y = normalize(x, w) { op rmsnorm  over w  of acc + r[b, c, w]  also s = acc2 }\n  return y, s\n}\n"
    ),
    "softmax_streamed_and_what_it_read": one(
        "x: f32[3, 40000]", "f32[3, 40000]",
        "y = normalize(x) { op softmax  over n  of acc * 0.3  epilogue acc + acc2 }",
    ),
    "channels_beside_their_norm": one(
        f"{X}, w: f32[24], b: f32[24]", "f32[4, 24, 10, 12]",
        "y = normalize(x, w, b) { op groupnorm  groups 3  let t = silu(acc2)  epilogue acc * t + acc2 }",
    ),
    "absmax": (
        "program p(x: f32[37, 272]) -> (e4m3[37, 272], f32[37]) {\n"
        "  y = normalize(x) { op absmax  over n  also s = row_max(acc2 / 448)  store e4m3  epilogue acc * 448 }\n"
        "  return y, s\n}\n"
    ),
    "absmax_of_a_block": (
        "program p(x: f16[3, 2, 9000]) -> (f16[3, 2, 9000], f32[3, 2], f32[3, 2]) {\n"
        "  y = normalize(x) {\n"
        "    op absmax  over w  of tanh(acc)\n"
        "    also s = row_max(acc2 / 448)  also r = row_max(1 / max(acc2, 0.25))\n  }\n  return y, s, r\n}\n"
    ),
    "groupnorm": one(
        f"{X}, w: f32[24], b: f32[24], r: f32[24]", "f32[4, 24, 10, 12]",
        "y = normalize(x, w, b) { op groupnorm  groups 3  of sigmoid(acc)  epilogue acc + r[c] }",
    ),
    "groupnorm_nhwc": one(
        f"{X}, w: f32[24], b: f32[24]", "f32[4, 24, 10, 12]",
        NHWC + "  y = normalize(t, w, b) { op groupnorm  groups 3  store f32 nchw }",
    ),
    "groupnorm_rows": one(
        "x: f32[20, 96], w: f32[96], b: f32[96]", "f32[20, 96]",
        "y = normalize(x, w, b) { op groupnorm  groups 8  epilogue hardtanh(acc, -1, 1) }",
    ),
    "instancenorm_nhwc": one(X, "f32[4, 24, 10, 12]", NHWC + "  y = normalize(t) { op instancenorm  store f32 nchw }"),
    "batchnorm": one(
        f"{X}, m: f32[24], variance: f32[24], w: f32[24], b: f32[24]", "f32[4, 24, 10, 12]",
        "y = normalize(x, m, variance, w, b) { op batchnorm  epilogue relu(acc) }",
    ),
    # pools
    "max_pool": one(
        "x: f32[3, 8, 12, 14], s: f32[8]", "f32[3, 8, 6, 7]",
        "y = pool(x) { op max  window 2x2  stride 2x2  epilogue acc * s[c] }",
    ),
    "avg_pool_padded_nhwc": one(
        "x: f32[3, 16, 13, 14]", "f32[3, 16, 7, 7]",
        NHWC + "  y = pool(t) { op avg  window 3x3  stride 2x2  padding 1x1  store f32 nchw }",
    ),
    "max_pool_3d": one(
        "x: f32[2, 4, 6, 8, 10]", "f32[2, 4, 3, 4, 5]", "y = pool(x) { op max  window 2x2x2  stride 2x2x2 }"
    ),
    "max_pool_dilated_1d": one(
        "x: f32[3, 5, 23]", "f32[3, 5, 19]", "y = pool(x) { op max  window 4  stride 1  padding 1  dilation 2 }"
    ),
    "max_pool_dilated_nhwc": one(
        "x: f32[3, 16, 13, 14]", "f32[3, 16, 6, 5]",
        NHWC + "  y = pool(t) { op max  window 3x2  stride 2x3  padding 1x1  dilation 2x3  store f32 nchw }",
    ),
    "max_pool_dilated_3d": one(
        "x: f32[2, 3, 8, 9, 10], s: f32[3]", "f32[2, 3, 2, 3, 3]",
        "y = pool(x) { op max  window 3x3x3  stride 2x2x2  padding 1x1x1  dilation 3x3x3  epilogue relu(acc) * s[c] }",
    ),
    "wide_pool": one("x: f32[2, 3, 40, 41]", "f32[2, 3, 3, 3]", "y = pool(x) { op avg  window 13x13  stride 13x13 }"),
    "max_pool_of_one_result": one(
        "x: f32[5, 7, 2, 2]", "f32[5, 7, 1, 1]", "y = pool(x) { op max  window 3x3  stride 2x2  padding 1x1 }"
    ),
    "global_pool": one(X, "f32[4, 24, 1, 1]", "y = pool(x) { op avg  window global  epilogue relu(acc) }"),
    # direct convolutions
    "depthwise": one(
        "x: f32[2, 6, 21, 18], w: f32[6, 1, 3, 3], b: f32[6]", "f32[2, 6, 19, 16]",
        "y = conv2d(x, w) { groups 6  compute f32  epilogue acc + b[c] }",
    ),
    "depthwise_stride": one(
        "x: f32[2, 6, 21, 18], w: f32[6, 1, 5, 3]", "f32[2, 6, 10, 9]",
        "y = conv2d(x, w) { groups 6  stride 2x2  padding 1x1  compute f32 }",
    ),
    "grouped": one(
        "x: f32[2, 6, 11, 18], w: f32[9, 2, 3, 3]", "f32[2, 9, 9, 16]", "y = conv2d(x, w) { groups 3  compute f32 }"
    ),
    "wide_window": one(
        "x: f32[2, 3, 51, 47], w: f32[24, 3, 11, 11]", "f32[2, 24, 12, 11]",
        "y = conv2d(x, w) { stride 4x4  padding 2x2  compute f32 }",
    ),
    "depthwise_of_one_result": one(
        "x: f32[3, 24, 2, 2], w: f32[24, 1, 3, 3]", "f32[3, 24, 1, 1]",
        "y = conv2d(x, w) { groups 24  stride 2x2  padding 1x1  compute f32 }",
    ),
    "depthwise_of_one_result_nhwc": one(
        "x: f32[3, 24, 1, 1], w: f32[24, 1, 3, 3]", "f32[3, 24, 1, 1]",
        NHWC + "  y = conv2d(t, w) { groups 24  padding 1x1  compute f32  store f32 nchw }",
    ),
    "depthwise_of_one_row": one(
        "x: f32[3, 24, 1, 9], w: f32[24, 1, 3, 3]", "f32[3, 24, 1, 9]",
        "y = conv2d(x, w) { groups 24  padding 1x1  compute f32 }",
    ),
    "grouped_of_one_result": one(
        "x: f32[3, 6, 3, 1], w: f32[9, 2, 3, 3]", "f32[3, 9, 1, 1]",
        "y = conv2d(x, w) { groups 3  stride 3x3  padding 1x1  compute f32 }",
    ),
    "transposed_to_one_result": one(
        "x: f32[3, 6, 1, 1], w: f32[6, 4, 3, 3]", "f32[3, 4, 1, 1]",
        "y = conv_transpose2d(x, w) { padding 1x1  compute f32 }",
    ),
    "conv_1d": one(
        "x: f32[2, 8, 100], w: f32[16, 8, 3]", "f32[2, 16, 92]", "y = conv1d(x, w) { dilation 4  compute f32 }"
    ),
    "conv_3d": one(
        "x: f32[2, 4, 7, 9, 8], w: f32[8, 4, 3, 3, 3]", "f32[2, 8, 5, 7, 6]", "y = conv3d(x, w) { compute f32 }"
    ),
    "pipeline": one(
        "x: f32[4, 24, 20, 20], w: f32[24, 1, 3, 3], g: f32[24], b: f32[24], v: f32[24]",
        "(f32[4, 24, 9, 9], f32[4])",
        "y = conv2d(x, w) { groups 24  compute f32  epilogue relu(acc + b[c]) }\n"
        "  z = pool(y) { op max  window 2x2  stride 2x2 }\n"
        "  n = normalize(z, g, b) { op groupnorm  groups 3 }\n"
        "  r = map(n) { let t = acc * v[c]  epilogue t + sigmoid(t) }\n"
        "  s = transform(r) { view 4x1944 }\n"
        "  u = reduce(s) { op logsumexp  over n  epilogue acc * 2.0 }",
        "r, u",
    ),
}  # fmt: skip

# One of each kind, reviewed whole and compiled.
REVIEWED = ("map_full_f16", "nhwc_and_back", "rows_in_parts", "channels", "softmax_held", "groupnorm_nhwc", "max_pool",
            "absmax", "depthwise", "pipeline")  # fmt: skip
