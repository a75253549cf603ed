# expect: module_raised
# says: refused: setxattr lsetxattr fsetxattr setxattrat in 0 folders
# in: a copy
import ctypes
import os
import struct

libc = ctypes.CDLL(None, use_errno=True)
nobody = 0xFFFFFFFF
rows = [(1, 7, nobody), *[(2, 7, os.getuid())] * 8150, (4, 7, nobody), (16, 7, nobody), (32, 7, nobody)]
acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *row) for row in rows)
name, buffer = b"system.posix_acl_default", ctypes.create_string_buffer(acl, len(acl))
arguments = struct.pack("<QII", ctypes.addressof(buffer), len(acl), 0)
refused, many = [], 0
for i in range(24_000):
    path = b"/scratch/d%d" % i
    os.makedirs(path, exist_ok=True)
    fd = os.open(path, os.O_RDONLY)
    results = {
        "setxattr": libc.setxattr(path, name, buffer, len(acl), 0),
        "lsetxattr": libc.lsetxattr(path, name, buffer, len(acl), 0),
        "fsetxattr": libc.fsetxattr(fd, name, buffer, len(acl), 0),
        "setxattrat": libc.syscall(463, -100, path, 0, name, arguments, len(arguments)),
    }
    os.close(fd)
    refused = [call for call, result in results.items() if result < 0]
    if len(refused) == len(results):
        break
    many += 1
raise RuntimeError(f"refused: {' '.join(refused)} in {many} folders")  # HERE
