"""Every third-party file for pages (static/vendor) and for tests (tests/browser/vendor) is held to its SHA-256."""

import hashlib
import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
VENDOR, OF_TESTS = ROOT / "static/vendor", ROOT / "tests/browser/vendor"
LICENCES = {VENDOR: "MIT", OF_TESTS: "MPL-2.0"}
MANIFESTS = {folder: json.loads((folder / "MANIFEST.json").read_text()) for folder in LICENCES}
PACKAGES = [pytest.param(f, p, id=p["name"]) for f, manifest in MANIFESTS.items() for p in manifest]


@pytest.mark.parametrize("folder, package", PACKAGES)
def test_files_are_the_ones_in_the_manifest(folder, package):
    for name, digest in package["files"].items():
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, f"{name}: run `make vendor`"


@pytest.mark.parametrize("folder, package", PACKAGES)
def test_each_package_carries_its_licences(folder, package):
    text = (folder / f"{package['name']}-{package['version']}" / "LICENSE").read_text()
    assert package["licence"] == LICENCES[folder]
    for source in package["source"]:
        assert source["licence"] == LICENCES[folder], source
        assert len(package["source"]) == 1 or f"{source['name']} {source['version']}" in text


@pytest.mark.parametrize("folder", MANIFESTS, ids=lambda f: f.parent.name)
def test_nothing_lies_there_that_the_manifest_does_not_name(folder):
    named = {name for package in MANIFESTS[folder] for name in package["files"]}
    packages = [d for d in folder.iterdir() if d.is_dir() and d.name != "build"]
    assert {str(p.relative_to(folder)) for d in packages for p in d.iterdir()} == named


def test_versions_are_those_that_make_vendor_builds():
    pinned = json.loads((VENDOR / "build/package.json").read_text())["dependencies"]
    assert all(version[0].isdigit() for version in pinned.values()), "exact versions only"
    for package in MANIFESTS[VENDOR]:
        for source in package["source"]:
            assert pinned.get(source["name"], source["version"]) == source["version"]
