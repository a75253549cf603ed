"""Somebody without a kernel of their own starts from an example: a module with a plain CUDA kernel of it."""

from playwright.sync_api import expect


def test_an_example_fills_module_and_kernel_and_its_kernel_is_the_first_trial(open_page, complaints):
    page = open_page("/")
    page.locator("#kernel-first summary").click()
    page.locator("#kernel-examples button", has_text="SiLU and mul").click()
    assert "chunk(2, dim=-1)" in page.locator("#editor .cm-content").inner_text()
    assert "__global__ void silu_and_mul" in page.locator("#kernel").input_value()
    page.locator("#run").click()
    first = page.locator("#timeline .trial").first
    first.wait_for(timeout=90_000)
    assert "kernel" in first.inner_text()
    page.get_by_role("button", name="Stop").click()  # it is large, and the tests after this one need the engine
    page.get_by_role("button", name="Stop the session").click()
    expect(page.locator("#link-state")).to_have_text("Ended", timeout=90_000)
    assert not complaints


def test_the_kernel_of_an_example_leaves_with_its_module_and_a_persons_own_stays(open_page):
    page = open_page("/")
    page.locator("#kernel-first summary").click()
    page.locator("#kernel-examples button").first.click()
    assert page.locator("#kernel").input_value()
    page.locator("#examples button").first.click()
    assert page.locator("#kernel").input_value() == ""
    page.locator("#kernel").fill("def kernel(x):\n    return x\n")
    page.locator("#examples button").last.click()
    assert page.locator("#kernel").input_value()
