"""map and transform: every element where it belongs, whatever the layouts, the vectors and the tails."""

import torch

from .emulated import agree, build, program


def test_map_reads_vectors_rows_columns_and_scalars(tmp_path):
    agree(
        """program p(x: f32[6, 40], y: f32[6, 40], b: f32[40], g: f32[6], s: f32[], odd: f32[7, 13], ob: f32[13],
                     tail: f16[1003], half: bf16[5, 24]) ->
            (f32[6, 40], f32[6, 40], f32[6, 40], f32[7, 13], f16[1003], bf16[5, 24], f32[5, 24], f32[7, 13]) {
          a = map(x) { epilogue relu(acc * s + b[n]) - g[m] }
          r = map(x) { let t = acc + y[m, n]  also z = t * t  epilogue silu(t) }
          o = map(odd) { epilogue acc + ob[n] }
          t = map(tail) { epilogue acc * 2.0 }
          h = map(half) { epilogue tanh(acc) }
          f = map(half) { epilogue acc + 1.0 store f32 }
          i = map(odd) { epilogue min(acc, ob[n]) }
          return a, r, z, o, t, h, f, i
        }""",
        tmp_path,
    )


def test_concat_repeats_what_has_one_element_along_an_axis(tmp_path):
    agree(
        """program p(t: f16[1, 1, 64], x: f16[4, 5, 64], p: f16[6, 64], a: f32[1, 24, 1, 7], b: f32[2, 8, 5, 7]) ->
            (f16[4, 6, 64], f16[4, 6, 64], f32[2, 32, 5, 7]) {
          y = concat(t, x) { over c  epilogue acc + p[c, w] }
          z = concat(x, t) { over c  epilogue relu(acc) }
          l = transform(b) { layout nhwc }
          w = concat(a, l) { over c  store nchw }
          return y, z, w
        }""",
        tmp_path,
    )


def test_bytes_are_whole_numbers(tmp_path):
    agree(
        """program p(m: i8[20, 64], x: f16[20, 64], v: i8[64], odd: f32[7, 13], o: i8[7, 13], t: i8[40, 6],
                     w: f32[6, 40]) ->
            (f16[20, 64], f32[7, 13], f32[6, 40], f32[20], f32[13], f32[7, 13], f32[7, 13]) {
          a = map(m) { store f16  epilogue where(acc, x[m, n], 0.5) * v[n] * 0.01 }
          b = map(odd) { epilogue acc * o[m, n] }
          moved = transform(t) { permute 1x0 }
          c = map(w) { epilogue acc * moved[m, n] }
          d = reduce(m) { op sum  over n  store f32 }
          e = reduce(odd) { op max  over m  of acc * o[m, n] }
          f = normalize(odd) { op softmax  over n  of where(o[m, n] > 0.0, -10000.0, acc) }
          g = scan(odd) { op sum  over n  of acc * o[m, n] }
          return a, b, c, d, e, f, g
        }""",
        tmp_path,
    )


def test_map_over_images_in_both_layouts_and_from_one_to_the_other(tmp_path):
    agree(
        """program p(x: f32[2, 24, 5, 7], s: f32[24], r: f32[2, 24, 5, 7], h: f16[2, 8, 6, 6], b: f32[2, 8]) ->
            (f32[2, 24, 5, 7], f32[2, 24, 5, 7], f16[2, 8, 6, 6], f32[2, 24, 5, 7]) {
          y = map(x) { epilogue acc * s[c] + r[b, c, h, w] }
          last = transform(x) { layout nhwc }
          z = map(last) { epilogue relu(acc) * s[c] store f32 nchw }
          hl = transform(h) { layout nhwc }
          hm = map(hl) { epilogue acc + b[b, c] }
          u = transform(hm) { layout nchw }
          w = map(last) { epilogue acc + r[b, c, h, w] store f32 nchw }
          return y, z, u, w
        }""",
        tmp_path,
    )


def test_map_reads_parts_of_a_tensor_in_place(tmp_path):
    agree(
        """program p(x: f16[20, 64], odd: f32[3, 11, 40], v: f32[70], image: f32[3, 24, 9, 11], rows: f16[12, 40]) ->
            (f16[20, 32], f32[3, 9, 37], f32[3, 8, 9, 11], f16[5, 40]) {
          y = map(x) { crop 20x32  epilogue silu(acc) * x[m, n + 32] }
          o = map(odd) { crop 3x9x37  from 0x2x3  epilogue acc - odd[b, c + 0, w + 1] + v[n + 33] }
          last = transform(image) { layout nhwc }
          i = map(last) { crop 3x8x9x11  from 0x16x0x0  store f32 nchw  epilogue acc * last[b, c + 4, h, w] }
          r = map(rows) { crop 5x40  from 7x0  epilogue acc + rows[m + 1, n] }
          return y, o, i, r
        }""",
        tmp_path,
    )


def test_layouts_there_and_back_for_few_and_many_channels(tmp_path):
    agree(
        """program p(a: f32[2, 3, 17, 9], b: f16[1, 64, 20, 20], c: f32[2, 70, 66], d: bf16[1, 8, 3, 5, 4],
                     e: f16[3, 1, 4, 4], f: f32[1, 128, 9, 9]) ->
            (f16[2, 3, 17, 9], f16[1, 64, 20, 20], f32[2, 70, 66], bf16[1, 8, 3, 5, 4], f32[3, 1, 4, 4],
              f32[1, 128, 9, 9]) {
          a1 = transform(a) { layout nhwc to f16 }
          a2 = transform(a1) { layout nchw }
          b1 = transform(b) { layout nhwc }
          b2 = transform(b1) { layout nchw }
          c1 = transform(c) { layout nhwc }
          c2 = transform(c1) { layout nchw }
          d1 = transform(d) { layout nhwc }
          d2 = transform(d1) { layout nchw }
          e1 = transform(e) { layout nhwc to f32 }
          e2 = transform(e1) { layout nchw }
          f1 = transform(f) { layout nhwc }
          f2 = transform(f1) { layout nchw }
          return a2, b2, c2, d2, e2, f2
        }""",
        tmp_path,
    )


def test_permutations_views_pads_and_crops(tmp_path):
    agree(
        """program p(a: f32[4, 6, 10], b: f16[33, 70], c: f32[5, 12], d: i32[4, 9], e: f32[8, 6, 4, 10]) ->
            (f32[10, 4, 6], f32[6, 4, 10], f16[70, 33], f32[8, 16], f32[5, 10], f32[8, 12], i32[9, 4],
              f32[8, 4, 6, 10],
             f32[10, 4, 6, 8], f16[70, 40], f32[12, 8], f32[4, 60], f32[60, 5]) {
          a1 = transform(a) { permute 2x0x1 }
          a2 = transform(a) { permute 1x0x2 }
          b1 = transform(b) { permute 1x0 }
          c1 = transform(c) { pad 8x16 }
          c2 = transform(c) { crop 5x10 }
          c3 = transform(c) { pad 8x12 }
          d1 = transform(d) { permute 1x0 }
          e1 = transform(e) { permute 0x2x1x3 }
          e2 = transform(e) { permute 3x2x1x0 }
          b2 = transform(b) { permute 1x0  pad 70x40 }
          c4 = transform(c) { permute 1x0  pad 12x8 }
          v = transform(a) { view 4x60 }
          w = map(v) { epilogue acc * 2.0 }
          w3 = transform(c) { view 60x1  pad 60x5 }
          return a1, a2, b1, c1, c2, c3, d1, e1, e2, b2, c4, w, w3
        }""",
        tmp_path,
    )


def test_interleaving_takes_rows_in_turn(tmp_path):
    agree(
        """program p(a: f32[6, 20], b: f32[6, 20], u: f32[9], v: f32[9]) -> (f16[12, 20], f32[18]) {
          y = transform(a, b) { interleave to f16 }
          z = transform(u, v) { interleave }
          return y, z
        }""",
        tmp_path,
    )


def test_eight_bit_numbers_saturate(tmp_path):
    x = torch.tensor([0.0, 1e-9, -0.3, 1.7, 440.0, 1000.0, -1e6, 57344.0, 70000.0, 0.07, -3.3, 12.5] * 4)
    p = program(
        """program p(x: f32[48]) -> (e4m3[48], e5m2[48], f32[48]) {
          y = transform(x) { to e4m3 }
          z = transform(x) { to e5m2 }
          back = transform(y) { to f32 }
          return y, z, back
        }"""
    )
    y, z, back = build(p, tmp_path)[1]([x])
    assert torch.equal(y.float(), x.clamp(-448, 448).to(torch.float8_e4m3fn).float())
    assert torch.equal(z.float(), x.clamp(-57344, 57344).to(torch.float8_e5m2).float())
    assert torch.equal(back, y.float())
