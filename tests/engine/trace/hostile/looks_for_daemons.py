# expect: module_raised
# says: no daemon
# in: a copy
import os

paths = ("/run/docker.sock", "/var/run/docker.sock", "/run/dbus", "/run/systemd", "/tmp/.X11-unix", "/run/user")
raise RuntimeError("LEAK" if any(map(os.path.exists, paths)) else "no daemon")  # HERE
