"""Run the tests of cgroups in a machine that has them: an emulated one, booted from this machine's own files.

    apt-get install qemu-system-x86 busybox-static e2fsprogs && apt-get download linux-image-6.1.0-57-cloud-amd64
    python -m tests.engine.sandbox.machine linux-image-*.deb     # 5 minutes on two cores, 17 GB of disk

Where the engine may not create a cgroup, as in CI and in most containers, those tests skip. Here the kernel of a Debian
package starts with cgroups of version 2, and the tests run as a service's engine would. QEMU translates each
instruction, so they get twenty times their time; nothing else of them changes.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
MODULES = ("virtio_ring", "virtio", "virtio_pci_legacy_dev", "virtio_pci_modern_dev", "virtio_pci", "virtio_blk")
SYSTEM = (
    "usr/bin", "usr/sbin", "usr/lib", "usr/lib64", "etc/passwd", "etc/group", "etc/ld.so.conf", "etc/ld.so.conf.d",
    "etc/ld.so.cache", "etc/nsswitch.conf", "etc/alternatives",
)  # fmt: skip
GIGABYTES = 12  # of its disk
SECONDS = 1800
INIT = f"""#!/bin/busybox sh
/bin/busybox --install -s /bin
mount -t proc none /proc; mount -t sysfs none /sys; mount -t devtmpfs none /dev
for m in {" ".join(MODULES)}; do insmod /lib/$m.ko; done
sleep 1; mount -t ext4 /dev/vda /new
mount --move /dev /new/dev; mount -t proc none /new/proc; mount -t sysfs none /new/sys
mount -t cgroup2 none /new/sys/fs/cgroup; mkdir -p /new/dev/shm /new/dev/pts; mount -t devpts none /new/dev/pts
for f in tmp run dev/shm; do mount -t tmpfs none /new/$f; done
exec chroot /new /bin/bash /run.sh
"""
RUN = f"""export PATH=/usr/bin:/usr/sbin HOME=/root LANG=C.UTF-8
cd {ROOT}; ip link set lo up
mkdir -p /sys/fs/cgroup/service/engine; echo "+memory +pids" > /sys/fs/cgroup/cgroup.subtree_control
echo $$ > /sys/fs/cgroup/service/engine/cgroup.procs; uname -r; cat /proc/self/cgroup
sed -i s/timeout=60/timeout=1200/ tests/engine/sandbox/test_cgroup.py
.venv/bin/python -m pytest -v -rs --color=no -p no:xdist -p no:cacheprovider tests/engine/sandbox/test_cgroup.py
sync; echo o > /proc/sysrq-trigger; sleep 5
"""


def _copy(to: Path) -> None:
    """The files of the machine: this one's programs and libraries, its Python, and the checkout."""
    for folder in ("proc", "sys", "dev", "tmp", "run", "root"):
        (to / folder).mkdir(parents=True)
    for link in ("bin", "sbin", "lib", "lib64"):
        (to / link).symlink_to(f"usr/{link}")
    for source in (*SYSTEM, sys.base_prefix, str(ROOT)):
        at = Path("/") / source
        if at.exists() and not (to / str(at).lstrip("/")).exists():
            (to / str(at).lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", at, to / str(at).lstrip("/")], check=True)
    (to / "run.sh").write_text(RUN)


def _initrd(kernel: Path, folder: Path) -> Path:
    """What runs first: it loads the disk's driver and hands over to the disk."""
    for name in ("bin", "lib", "proc", "sys", "dev", "new"):
        (folder / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox") or "/bin/busybox", folder / "bin/busybox")
    for module in kernel.rglob("*.ko"):
        if module.stem in MODULES:
            shutil.copy(module, folder / "lib")
    (folder / "init").write_text(INIT)
    (folder / "init").chmod(0o755)
    archive = folder.with_suffix(".cpio")
    with archive.open("wb") as out:
        names = "\n".join(str(p.relative_to(folder)) for p in sorted(folder.rglob("*")))
        subprocess.run(
            ["busybox", "cpio", "-o", "-H", "newc"], cwd=folder, input=names.encode(), stdout=out, check=True
        )
    return archive


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.engine.sandbox.machine")
    parser.add_argument("package", type=Path, help="Debian's linux-image-VERSION-cloud-amd64")
    args = parser.parse_args()
    for tool in ("qemu-system-x86_64", "busybox", "mke2fs", "dpkg-deb"):
        if not shutil.which(tool):
            parser.error(f"there is no {tool} here; the docstring says what to install")
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        subprocess.run(["dpkg-deb", "-x", args.package, at / "kernel"], check=True)
        _copy(at / "disk")
        initrd, disk = _initrd(at / "kernel", at / "initrd"), at / "disk.img"
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", at / "disk", disk, f"{GIGABYTES}G"], check=True)
        shutil.rmtree(at / "disk")
        print("the machine starts", flush=True)
        done = subprocess.run(
            ["qemu-system-x86_64", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "6G", "-nographic",
             "-no-reboot", "-kernel", next((at / "kernel/boot").glob("vmlinuz-*")), "-initrd", initrd,
             "-append", "console=ttyS0 panic=1 edd=off loglevel=4", "-drive", f"file={disk},format=raw,if=virtio"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SECONDS, check=False,
        )  # fmt: skip
    text = done.stdout.decode(errors="replace").replace("\r", "")
    print(text[text.find("0::/") - 40 :])
    return 0 if re.search(r"= \d+ passed in ", text) else 1  # none skipped, none failed


if __name__ == "__main__":
    sys.exit(main())
