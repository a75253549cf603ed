# expect: sandbox
# Connects to a machine.
import socket

s = socket.create_connection(("192.0.2.1", 80), 1)


def kernel(x):
    return x
