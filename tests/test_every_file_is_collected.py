"""pytest leaves folders of some names out, whoever asks for all tests: none of ours may be one of them."""

from fnmatch import fnmatch
from pathlib import Path

TESTS = Path(__file__).parent


def test_no_folder_of_tests_is_left_out(pytestconfig):
    patterns = pytestconfig.getini("norecursedirs")
    folders = {part for file in TESTS.rglob("test_*.py") for part in file.relative_to(TESTS).parts[:-1]}
    assert "build" in folders and patterns
    assert not [folder for folder in sorted(folders) if any(fnmatch(folder, pattern) for pattern in patterns)]
