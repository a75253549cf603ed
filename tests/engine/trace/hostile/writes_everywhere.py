# expect: module_raised
# says: wrote: []
# in: a copy
import ctypes
import glob

libc = ctypes.CDLL(None)
wrote = []
FOLDERS = ["/", "/usr", "/usr/lib", "/app", "/app/engine", "/etc", "/dev", "/root", "/var/tmp", "/tmp", "/home"]
for folder in [*FOLDERS, *glob.glob("/*")]:
    fd = libc.open(f"{folder}/ucutlass-was-here".encode(), 0o101, 0o666)
    if fd >= 0 and folder != "/scratch":
        wrote.append(folder)
raise RuntimeError(f"wrote: {wrote}")  # HERE
