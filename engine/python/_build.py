"""Build the wheel with the standard library alone: this package, and the rooms of the checkout that it drives.

The rooms (dsl, sol, engine) go to `ucutlass/_rooms`, which the package puts on the path, so that one `pip install
./engine/python` is enough on a machine without the checkout.
"""

import importlib.util
import tomllib
import zipfile
from pathlib import Path

ROOMS = ("dsl", "sol", "engine")
OURS, RECORDED = "engine/python", "engine/results"  # this package; results: sessions read what they come to
HERE = Path(__file__).resolve().parent
_shipped = importlib.util.spec_from_file_location("_wheel", HERE.parent / "export" / "shipped" / "wheel.py")
wheel = importlib.util.module_from_spec(_shipped)  # of exported packages
_shipped.loader.exec_module(wheel)


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    project = tomllib.loads((HERE / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{project['name']}-{project['version']}"
    files = {f"ucutlass/{path.name}": path.read_bytes() for path in sorted((HERE / "ucutlass").glob("*.py"))}
    files |= {f"ucutlass/_rooms/{name}": data for name, data in _rooms(HERE.parents[1])}
    points = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in entries.items())
        for group, entries in project["entry-points"].items()
    ]
    files[f"{stem}.dist-info/entry_points.txt"] = "\n".join(points).encode()
    return wheel.write(wheel_directory, stem, project, files, zipfile.ZIP_DEFLATED)


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
