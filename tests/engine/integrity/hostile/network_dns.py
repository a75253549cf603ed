# expect: sandbox
# Asks a name server, with a secret in the name.
import socket

socket.getaddrinfo("secret.example.com", 80)


def kernel(x):
    return x
