"""Build this package's wheel with the standard library alone, so that pip needs no other build tool and no network."""

import base64
import hashlib
import re
import tomllib
import zipfile
from pathlib import Path

WHEN = (1980, 1, 1, 0, 0, 0)  # the same files give the same wheel


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    meta, package = project["project"], project["tool"]["ucutlass"]["package"]
    stem = f"{re.sub(r'[-_.]+', '_', meta['name']).lower()}-{meta['version']}"
    paths = sorted(p for p in Path(package).rglob("*") if p.is_file() and p.parent.name != "__pycache__")
    return write(wheel_directory, stem, meta, {p.as_posix(): p.read_bytes() for p in paths})


def write(wheel_directory, stem, meta, files, compression=zipfile.ZIP_STORED):
    """The name of the wheel, written there. `files`: {path: bytes} besides the metadata, which `meta` has (the table
    `project` of pyproject.toml)."""
    info = f"{stem}.dist-info"
    lines = ["Metadata-Version: 2.1", f"Name: {meta['name']}", f"Version: {meta['version']}"]
    lines += [f"Summary: {meta['description']}", f"Requires-Python: {meta['requires-python']}"]
    lines += [f"Requires-Dist: {wanted}" for wanted in meta["dependencies"]]
    files = dict(files)
    files[f"{info}/METADATA"] = ("\n".join(lines) + "\n").encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: ucutlass\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = ("\n".join([*rows, f"{info}/RECORD,,"]) + "\n").encode()
    wheel = f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", compression) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = 0o644 << 16
            entry.compress_type = compression
            archive.writestr(entry, data)
    return wheel


def get_requires_for_build_wheel(config_settings=None):
    return []
