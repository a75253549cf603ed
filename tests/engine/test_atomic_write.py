"""A file is replaced whole: no part of it is left beside it, and what cannot be written leaves the old one."""

import os
import threading

import pytest

from engine import atomic_write


def test_the_old_text_stands_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "results.json"
    atomic_write.write_results(path, {"results": [1]})
    with pytest.raises(TypeError):
        atomic_write.write_results(path, {"results": [object()]})
    assert path.read_text() == '{\n "results": [\n  1\n ]\n}\n'
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "results.json", tmp_path / "latest.json"
    target.write_text("old")
    link.symlink_to(target.name)
    atomic_write.write_text(link, "new")
    assert link.is_symlink() and target.read_text() == "new"
    (tmp_path / "dangling").symlink_to("later.json")
    atomic_write.write_text(tmp_path / "dangling", "new")
    assert (tmp_path / "later.json").read_text() == "new"


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    reader.start()
    atomic_write.write_text(pipe, "new")
    reader.join(timeout=10)
    assert read == ["new"] and pipe.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError):
        atomic_write.write_text(tmp_path, "new")
