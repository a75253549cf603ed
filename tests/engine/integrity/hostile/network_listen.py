# expect: sandbox
# Waits for somebody to connect.
import socket

s = socket.socket()
s.bind(("0.0.0.0", 9999))
s.listen()


def kernel(x):
    return x
