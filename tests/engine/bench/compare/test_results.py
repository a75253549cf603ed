"""The results file of a comparison: which names it takes."""

import os

import pytest

from engine.bench.compare.request import BadRequest
from engine.bench.compare.results import Results


def test_a_name_that_the_report_takes_is_refused_and_another_one_proposed(tmp_path):
    with pytest.raises(BadRequest, match=r"overwrite the results in .*out\.md; name .*out\.json"):
        Results(tmp_path / "out.md", {"request": {}})


def test_what_is_no_file_is_refused_before_it_is_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(BadRequest, match="pipe is no file"):
        Results(tmp_path / "pipe", {"request": {}})
