"""Build the wheel with the standard library alone: this package, and the rooms of the checkout that it drives.

The rooms (dsl, sol, engine) go to `ucutlass/_rooms`, which the package puts on the path, so that one `pip install
./engine/python` is enough on a machine without the checkout.
"""

import base64
import hashlib
import tomllib
import zipfile
from pathlib import Path

WHEN = (1980, 1, 1, 0, 0, 0)  # the same files give the same wheel
ROOMS = ("dsl", "sol", "engine")
OURS, RECORDED = "engine/python", "engine/results"  # this package; results, of which no session reads the data
HERE = Path(__file__).resolve().parent


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    info = f"{project['name']}-{project['version']}.dist-info"
    files = {f"ucutlass/{path.name}": path.read_bytes() for path in sorted((HERE / "ucutlass").glob("*.py"))}
    files |= {f"ucutlass/_rooms/{name}": data for name, data in _rooms(HERE.parents[1])}
    lines = ["Metadata-Version: 2.1", f"Name: {project['name']}", f"Version: {project['version']}"]
    lines += [f"Summary: {project['description']}", f"Requires-Python: {project['requires-python']}"]
    lines += [f"Requires-Dist: {wanted}" for wanted in project["dependencies"]]
    points = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    files[f"{info}/METADATA"] = ("\n".join(lines) + "\n").encode()
    files[f"{info}/entry_points.txt"] = "\n".join(points).encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: ucutlass\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    rows = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        rows.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = ("\n".join([*rows, f"{info}/RECORD,,"]) + "\n").encode()
    wheel = f"{project['name']}-{project['version']}-py3-none-any.whl"
    with zipfile.ZipFile(Path(wheel_directory) / wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            entry = zipfile.ZipInfo(name, WHEN)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    return wheel


def _rooms(checkout):
    """(path, bytes) of every file of the rooms, and of the list of compilers that exports name."""
    yield "requirements-gpu.txt", (checkout / "requirements-gpu.txt").read_bytes()
    for room in ROOMS:
        for path in sorted((checkout / room).rglob("*")):
            name = path.relative_to(checkout).as_posix()
            data = name.startswith(f"{RECORDED}/") and path.suffix != ".py"
            if path.is_file() and "__pycache__" not in path.parts and not name.startswith(f"{OURS}/") and not data:
                yield name, path.read_bytes()


def get_requires_for_build_wheel(config_settings=None):
    return []
