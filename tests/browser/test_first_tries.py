"""What somebody wrote who knows PyTorch and has read dsl/reference.md once: a few clicks lead to a correct program."""

from playwright.sync_api import expect

from tests.browser.conftest import paste

# A first try each, and what its end must hold.
TRIES = {
    "a linear layer with bias and SiLU and a residual": (
        """program fused(x: f16[4096, 1024], w: f16[2048, 1024], b: f16[2048], r: f16[4096, 2048]) -> f16[4096, 2048] {
  y = gemm(x, w) {
    epilogue: swish(acc + b) + r;
  }
  return y
}
""",
        ["gemm(x, w.T)", "silu(acc + b[n]) + r[m, n]"],
    ),
    "a convolution, batch norm and ReLU": (
        """program block(x: f32[8, 64, 56, 56], w: f32[128, 64, 3, 3], mean: f32[128], var: f32[128], g: f32[128],
              b: f32[128]) -> f32[8, 128, 56, 56] {
  y = conv2d(x, w) { stride 1, padding 1 }
  z = normalize(y, mean, var, g, b) { op batch_norm  epilogue relu(acc) }
  return z
}
""",
        ["{ layout nhwc  prepack }", "padding 1x1", "op batchnorm", "store f32 nchw"],
    ),
    "a softmax after a product": (
        """program scores(q: f16[64, 512, 128], k: f16[64, 512, 128]) -> f16[64, 512, 512] {
  s = gemm(q, k.T) { epilogue acc * 0.088 }
  p = softmax(s)
  return p
}
""",
        ["p = normalize(s) { op softmax  over n }"],
    ),
}


def test_the_first_fix_again_and_again_ends_in_a_correct_program(open_page):
    page = open_page("/")
    page.get_by_role("tab", name="μCUTLASS program").click()
    state, fixes = page.locator("#check-state"), page.locator("#diagnostics .fix")
    for text, pieces in TRIES.values():
        paste(page, text)
        expect(state).to_have_attribute("data-state", "bad")
        for _ in range(10):
            before = page.locator("#editor .cm-content").inner_text()
            expect(fixes).not_to_have_count(0)
            with page.expect_response("**/api/check"):  # the check that follows a change
                fixes.first.click()
            expect(page.locator("#editor .cm-content")).not_to_have_text(before, use_inner_text=True)
            page.wait_for_timeout(200)  # the page shows what it said
            if state.get_attribute("data-state") == "ok":
                break
        expect(state).to_have_text("The program is correct")
        written = page.locator("#editor .cm-content").inner_text()
        assert all(piece in written for piece in pieces), written
