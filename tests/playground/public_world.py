"""A public endpoint for tests: the name models.example, with a certificate of a test's own authority, on this machine.

    python -m tests.playground.public_world PORT --device modelled:h200

runs the app's engine in a process where that name resolves to a public address, and where a connection to that address
reaches 127.0.0.1:PORT. Nothing of the app is changed: the list of endpoints, https, the check of the address, the
connection to the checked address and the check of the certificate (SSL_CERT_FILE) are the real ones.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

NAME, ADDRESS = "models.example", "93.184.215.14"


def endpoint(port: int) -> str:
    return f"https://{NAME}:{port}/v1"


def certified(folder: Path) -> tuple[ssl.SSLContext, Path]:
    """(the context of a server with a certificate for NAME, the file of the authority that signed it)."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    def name(text: str) -> x509.Name:
        return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

    def certificate(subject: str, key, issuer: str, signing, *, authority: bool) -> x509.Certificate:
        now = datetime.now(UTC)
        others = "content_commitment key_encipherment data_encipherment key_agreement encipher_only decipher_only"
        usage = dict.fromkeys(others.split(), False)
        return (
            x509.CertificateBuilder()
            .subject_name(name(subject))
            .issuer_name(name(issuer))
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(days=1))
            .not_valid_after(now + timedelta(days=2))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(
                x509.KeyUsage(digital_signature=True, key_cert_sign=authority, crl_sign=authority, **usage), True
            )
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), critical=False)
            .add_extension(x509.SubjectAlternativeName([x509.DNSName(subject)]), critical=False)
            .sign(signing, hashes.SHA256())
        )

    folder.mkdir()
    top, own = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    pem = serialization.Encoding.PEM
    authority, chain, private = folder / "authority.pem", folder / "server.pem", folder / "server.key"
    authority.write_bytes(certificate("tests", top, "tests", top, authority=True).public_bytes(pem))
    chain.write_bytes(certificate(NAME, own, "tests", top, authority=False).public_bytes(pem))
    plain = serialization.NoEncryption()
    private.write_bytes(own.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, private)
    return context, authority


def lead_here(port: int) -> None:
    """Make NAME resolve to ADDRESS, and lead connections to ADDRESS to 127.0.0.1:`port`, in this process."""
    resolve, connect = socket.getaddrinfo, asyncio.BaseEventLoop.create_connection

    def getaddrinfo(host, *arguments, **more):
        return resolve(ADDRESS if host == NAME else host, *arguments, **more)

    async def create_connection(self, factory, host=None, to=None, **more):
        host, to = ("127.0.0.1", port) if host == ADDRESS else (host, to)
        return await connect(self, factory, host, to, **more)

    socket.getaddrinfo = getaddrinfo
    asyncio.BaseEventLoop.create_connection = create_connection


if __name__ == "__main__":
    import django
    from django.core.management import call_command

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "ucutlass_web.settings")
    lead_here(int(sys.argv[1]))
    django.setup()
    call_command("engine", *sys.argv[2:])
