"""Every third-party file in static/vendor is the one that was built and looked at: held to its SHA-256."""

import hashlib
import json
from pathlib import Path

import pytest

VENDOR = Path(__file__).resolve().parents[2] / "static/vendor"
MANIFEST = json.loads((VENDOR / "MANIFEST.json").read_text())


@pytest.mark.parametrize("package", MANIFEST, ids=lambda p: p["name"])
def test_files_are_the_ones_in_the_manifest(package):
    for name, digest in package["files"].items():
        assert hashlib.sha256((VENDOR / name).read_bytes()).hexdigest() == digest, f"{name}: run `make vendor`"


@pytest.mark.parametrize("package", MANIFEST, ids=lambda p: p["name"])
def test_each_package_carries_its_licences(package):
    text = (VENDOR / f"{package['name']}-{package['version']}" / "LICENSE").read_text()
    assert package["licence"] == "MIT"
    for source in package["source"]:
        assert source["licence"] == "MIT", source
        assert len(package["source"]) == 1 or f"{source['name']} {source['version']}" in text


def test_nothing_lies_there_that_the_manifest_does_not_name():
    named = {name for package in MANIFEST for name in package["files"]}
    lying = {
        str(p.relative_to(VENDOR)) for d in VENDOR.iterdir() if d.is_dir() and d.name != "build" for p in d.iterdir()
    }
    assert lying == named


def test_versions_are_those_that_make_vendor_builds():
    pinned = json.loads((VENDOR / "build/package.json").read_text())["dependencies"]
    assert all(version[0].isdigit() for version in pinned.values()), "exact versions only"
    for package in MANIFEST:
        for source in package["source"]:
            assert pinned.get(source["name"], source["version"]) == source["version"]
