"""A file is replaced whole: no part of it is left beside it, and what cannot be written leaves the old one."""

import pytest

from engine import atomic_write


def test_the_old_text_stands_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "results.json"
    atomic_write.write_results(path, {"results": [1]})
    with pytest.raises(TypeError):
        atomic_write.write_results(path, {"results": [object()]})
    assert path.read_text() == '{\n "results": [\n  1\n ]\n}\n'
    assert [p.name for p in tmp_path.iterdir()] == ["results.json"]
