"""KernelBench's table is filtered and sorted, and opens a module from a visitor's own copy of the benchmark."""

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import no_sideways_scroll

MODULE = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, x):\n        return x + 41\n"


@pytest.fixture
def copy(tmp_path):
    """A folder as the benchmark's, with another text in it."""
    (tmp_path / "KernelBench/level1").mkdir(parents=True)
    (tmp_path / "KernelBench/level1/1_Square_matrix_multiplication_.py").write_text(MODULE)
    (tmp_path / "KernelBench/level1/notes.txt").write_text("nothing")
    return str(tmp_path / "KernelBench")


def test_every_problem_is_listed_and_filtered(open_page, complaints):
    page = open_page("/gallery/kernelbench")
    rows = page.locator("#suite-table tbody tr")
    expect(page.locator("#suite-count")).to_contain_text("problems")
    everything = rows.count()
    page.locator("#suite-level").select_option("3")
    expect(page.locator("#suite-count")).to_contain_text(" of ")
    assert 0 < rows.count() < everything
    page.locator("#suite-text").fill("no such name")
    expect(page.locator("#suite-table .empty")).to_be_visible()
    expect(page.locator(".chart .plot svg").first).to_be_visible(timeout=30_000)
    no_sideways_scroll(page)
    assert not complaints, complaints


def test_a_row_opens_the_module_of_ones_own_copy_and_says_that_it_is_another_version(open_page, copy):
    page = open_page("/gallery/kernelbench")
    expect(page.locator("#suite-count")).to_contain_text("problems")
    page.locator("#folder-files").set_input_files(copy)
    expect(page.locator("#folder-found")).to_have_text("1 problem found. Open one in its row.")
    page.get_by_role("button", name="Open level1/1_Square_matrix_multiplication_ in the editor").click()
    expect(page.locator("#dialog")).to_contain_text("not the one that was measured")
    page.get_by_role("button", name="Open it").click()
    expect(page.locator(".cm-content")).to_contain_text("x + 41", timeout=30_000)


def test_a_folder_without_the_benchmark_says_what_to_choose(open_page, tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "other/a.py").write_text("x = 1")
    page = open_page("/gallery/kernelbench")
    expect(page.locator("#suite-count")).to_contain_text("problems")
    page.locator("#folder-files").set_input_files(str(tmp_path / "other"))
    expect(page.locator("#folder-found")).to_contain_text("Choose the folder that holds level1, level2 and level3")
