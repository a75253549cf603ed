# expect: sandbox_network
# says: the sandbox has no network
# in: a copy
import socket

socket.create_connection(("192.0.2.1", 80), timeout=2)  # HERE
