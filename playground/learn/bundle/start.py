"""Start the playground on this laptop: python3 start.py [--port 8000]. Needs no network; Ctrl-C ends it.

PYTHON=/path/to/python uses an environment that already has the packages of wheels.txt.
"""

import contextlib
import importlib.util
import ipaddress
import os
import socket
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
VENV = HERE / "venv"


def addresses() -> list[str]:
    """The names and addresses under which others in the hall reach this laptop."""
    names = {"localhost", "127.0.0.1", socket.gethostname()}
    with contextlib.suppress(OSError):
        names |= {row[4][0] for row in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        with contextlib.suppress(OSError):
            probe.connect(("10.255.255.255", 1))  # sends nothing; the system chooses its own address
            names.add(probe.getsockname()[0])
    return sorted(names)


def lonely(name: str) -> bool:
    """Return True for an address of this laptop alone. Names are none: the hall may or may not know them."""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return True


def instructions(names: list[str], port: str) -> str:
    """What a teacher does now, with an address that students can open."""
    reached = [name for name in names if not lonely(name)]
    if not reached:
        return (
            f"This laptop has no address in a network: it alone can open http://localhost:{port}/w/new\n"
            "For students, connect it to the hall's network or open a hotspot on it, and start again."
        )
    others = f" Other addresses of this laptop: {', '.join(reached[1:])}." if reached[1:] else ""
    return (
        f"Open a room at http://{reached[0]}:{port}/w/new and show its QR code. Students join at "
        f"http://{reached[0]}:{port}/w, and learn alone at http://{reached[0]}:{port}/learn.{others}"
    )


def python() -> str:
    """The Python that has the packages: PYTHON, the folder venv, or a new one made of wheels/."""
    if os.environ.get("PYTHON"):
        return os.environ["PYTHON"]
    own = VENV / "bin" / "python"
    done = VENV / "installed"  # an installation that was interrupted has none, and is begun again
    if done.exists():
        return str(own)
    if not (HERE / "wheels").is_dir():
        if not all(importlib.util.find_spec(name) for name in ("daphne", "django", "markdown_it", "torch")):
            sys.exit(
                "The packages of wheels.txt are not installed here. Pack again with --wheels, or name an environment "
                "that has them: PYTHON=/path/to/python python3 start.py"
            )
        return sys.executable
    print("Installing the packages of wheels/ into venv/ (the first start takes minutes) ...", flush=True)
    subprocess.run([sys.executable, "-m", "venv", str(VENV)], check=True)
    install = [str(own), "-m", "pip", "install", "--quiet", "--no-index", "--find-links", str(HERE / "wheels")]
    subprocess.run([*install, "-r", str(HERE / "wheels.txt")], check=True)
    done.touch()
    return str(own)


def main() -> None:
    hosts = addresses()
    environ = {
        **os.environ,
        "UCUTLASS_VAR": str(HERE / "var"),
        "UCUTLASS_LESSONS": str(HERE / "lessons"),
        "UCUTLASS_HOSTS": os.environ.get("UCUTLASS_HOSTS", ",".join([*hosts, "0.0.0.0"])),
    }
    port = sys.argv[sys.argv.index("--port") + 1] if "--port" in sys.argv[:-1] else "8000"
    print(instructions(hosts, port), flush=True)
    arguments = ["manage.py", "up", "--host", "0.0.0.0", "--device", "modelled:h200", *sys.argv[1:]]
    os.chdir(HERE / "app")
    interpreter = python()
    os.execve(interpreter, [interpreter, *arguments], environ)


if __name__ == "__main__":
    main()
