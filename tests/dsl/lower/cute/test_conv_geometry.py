"""What the generated kernel is told of a convolution, run on numpy arrays as the kernel would: views of x by remainder,
window positions by step, phases, strides of the result. Held against torch in float64."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from dsl.lower.cute import lower

from . import programs

# x, w, clauses
FORWARD = {
    "1d": ((2, 64, 40), (16, 64, 3), ""),
    "1d strided and dilated": ((2, 64, 50), (16, 64, 3), "stride 3 dilation 4"),
    "2d": ((2, 64, 9, 11), (16, 64, 3, 3), ""),
    "padded": ((1, 64, 9, 11), (16, 64, 3, 5), "padding 1x2"),
    "strided": ((2, 64, 13, 15), (16, 64, 3, 3), "stride 2x2 padding 1x1"),
    "strides differ": ((1, 32, 15, 17), (16, 32, 5, 3), "stride 3x2 padding 2x1"),
    "dilated": ((1, 32, 17, 19), (16, 32, 3, 4), "padding 2x3 dilation 2x3"),
    "an axis of one pixel, strided and padded": ((1, 32, 9, 1), (16, 32, 3, 3), "stride 2x2 padding 1x1"),
    "a row of the window is one run": ((2, 8, 9, 10), (16, 8, 3, 3), ""),
    "such a row, strided": ((1, 16, 9, 11), (16, 16, 3, 3), "stride 2x2"),
    "groups": ((1, 64, 7, 9), (32, 16, 3, 3), "padding 1x1 groups 4"),
    "3d": ((1, 32, 5, 6, 7), (16, 32, 3, 3, 3), "padding 1x1x1"),
    "3d strided": ((1, 32, 5, 7, 9), (16, 32, 3, 3, 3), "stride 2x2x2 padding 1x1x1"),
}
TRANSPOSED = {
    "stride 1": ((1, 16, 6, 8), (16, 32, 3, 3), "padding 1x1"),
    "groups": ((1, 32, 6, 8), (32, 16, 3, 3), "padding 1x1 groups 2"),
    "two phases in a tile": ((2, 16, 6, 8), (16, 32, 3, 3), "stride 2x2 padding 1x1 output_padding 1x1"),
    "of four positions each": ((1, 16, 5, 7), (16, 32, 4, 4), "stride 2x2 padding 1x1"),
    "three, dilated": ((1, 16, 5, 7), (16, 24, 3, 4), "tile 128x96x64 stride 2x3 padding 1x2 dilation 1x2"),
    "phases that see nothing": ((1, 16, 5, 7), (16, 24, 2, 2), "tile 128x48x64 stride 3x3 output_padding 1x1"),
    "more phases than a tile takes": ((1, 16, 9), (16, 32, 5), "stride 5"),
    "columns that do not divide into phases": ((1, 16, 5, 7), (16, 80, 3, 3), "tile 128x80x64 stride 3x3"),
    "1d": ((1, 16, 20), (16, 16, 4), "stride 2 padding 1"),
    "3d": ((1, 16, 3, 4, 5), (16, 16, 3, 3, 3), "stride 2x2x2 padding 1x1x1 output_padding 1x1x1"),
}
CASES = [pytest.param(False, *v, id=k) for k, v in FORWARD.items()]
CASES += [pytest.param(True, *v, id=f"transposed: {k}") for k, v in TRANSPOSED.items()]


def conv_program(transposed, x, w, clauses, result, store):
    d = len(x) - 2
    word = f"conv{'_transpose' * transposed}{d}d"
    dims = ["{}".format(", ".join(map(str, s))) for s in (x, w, result)]
    return programs.program(
        f"program p(x: f16[{dims[0]}], w: f16[{dims[1]}]) -> {'f32' if store == 'f32 nchw' else 'f16'}[{dims[2]}] {{\n"
        f"  arch sm_90a\n  xt = transform(x) {{ layout nhwc }}\n  wt = transform(w) {{ layout nhwc }}\n"
        f"  y = {word}(xt, wt) {{ {clauses}  backend cute  store {store} }}\n  return y\n}}"
    )


def reference(transposed, x, w, clauses):
    words = clauses.split()
    by_name = dict(zip(words[::2], words[1::2], strict=True))
    options = {k: tuple(map(int, v.split("x"))) for k, v in by_name.items() if k not in ("tile", "groups")}
    options["groups"] = int(by_name.get("groups", 1))
    name = f"conv{'_transpose' * transposed}{x.ndim - 2}d"
    return getattr(F, name)(x, w, **options)


def kernels(text):
    """The arguments of every ConvKernel in a module."""
    launches = []
    calls = text.split("= ConvKernel(\n    y_epilogue,\n")[1:]
    for call in calls:
        exec("ConvKernel(" + call.split("\n)\n")[0] + ")", {"ConvKernel": lambda **k: launches.append(k)})
    return launches


def run(kernel, x, w, y):
    """x, w: their memory; y: the result's, written."""
    taps = np.prod([a[0] for a in kernel["axes"]])
    channels, phases = kernel["channels"], max(1, len(kernel["seen"]))
    extents, of_w = kernel["w_view"]
    pixels = np.meshgrid(*map(np.arange, kernel["out"]), indexing="ij")
    for image in range(kernel["images"]):
        for group in range(kernel["groups"]):
            for phase in range(phases):
                total = np.zeros((*kernel["out"], channels))
                c, n = group * kernel["run"] + np.arange(kernel["run"]), np.arange(channels)
                for tap in range(taps):
                    rest, position, remainder, place = tap, 0, 0, []
                    for i, (count, start, advance, stride, weight, w_start, w_step, apart) in enumerate(kernel["axes"]):
                        at = start + rest % count * advance
                        remainder += at % stride * weight
                        place.append(pixels[i] + at // stride)
                        position += (w_start + rest % count * w_step) * apart
                        rest //= count
                    if kernel["seen"]:
                        seen = kernel["seen"][phase][tap % kernel["axes"][0][0]]
                        if seen < 0:
                            continue
                        position += seen
                    assert 0 <= position < extents[1]
                    view = kernel["remainders"].index(remainder)
                    if view in kernel["void"]:
                        continue
                    first, size, strides = kernel["views"][view]
                    inside = np.all([(p >= 0) & (p < s) for p, s in zip(place, size[1:4], strict=True)], axis=0)
                    at = first + image * strides[4]
                    for p, s, stride in zip(place, size[1:4], strides[1:4], strict=True):
                        at = at + np.clip(p, 0, s - 1) * stride
                    boxes = np.where(inside[..., None], x[at[..., None] + c], 0)
                    if kernel["w_along_c"]:
                        k = np.arange(kernel["run"])[:, None] * of_w[0] + n * of_w[2] + group * of_w[3]
                    else:
                        k = c[:, None] * of_w[2] + n * of_w[0]
                    total += boxes @ w[k + position * of_w[1]]
                first, of_image, of_channel, *along = kernel["strides"]
                column = pixels[0] * phases + phase
                at = first + image * of_image + column * along[0] + pixels[1] * along[1] + pixels[2] * along[2]
                written = at[..., None] + (group * channels + n) * of_channel
                y[written[column < kernel["width"]]] = total[column < kernel["width"]]


def memory(t, last):
    return np.ascontiguousarray(np.moveaxis(t.numpy(), 1, -1) if last else t.numpy()).reshape(-1)


@pytest.mark.parametrize("store", ["f32 nchw", "f16 nchw"])
@pytest.mark.parametrize("transposed, x, w, clauses", CASES)
def test_every_pixel_gets_its_window(transposed, x, w, clauses, store):
    generator = torch.Generator().manual_seed(1)
    xs, ws = (torch.randn(s, generator=generator, dtype=torch.float64) for s in (x, w))
    want = reference(transposed, xs, ws, clauses)
    source = lower(conv_program(transposed, x, w, clauses, want.shape, store))
    y = np.full(want.numel(), np.nan)
    for kernel in kernels(source.text):
        run(kernel, memory(xs, True), memory(ws, True), y)
    np.testing.assert_allclose(y, memory(want, False), atol=1e-10)


def test_phases_along_w_share_a_launch():
    text = lower(conv_program(True, *TRANSPOSED["two phases in a tile"], (2, 32, 12, 16), "f32 nchw")).text
    launches = kernels(text)
    assert len(launches) == 2  # the phases along h
    assert all(len(k["seen"]) == 2 and k["vector"] == 4 for k in launches)
