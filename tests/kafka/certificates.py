"""Certificates in the formats that brokers and clients require."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class Certificates:
    """A certificate authority with certificates in a directory; methods return the paths of files."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._authority = trustme.CA()
        self.ca = self._write("ca.pem", self._authority.cert_pem.bytes())
        self.other_ca = self._write("other-ca.pem", trustme.CA().cert_pem.bytes())

    def broker(self, name: str, host: str = "127.0.0.1", *, expired: bool = False, stranger: bool = False) -> Path:
        """Return a file with the key and certificates of a broker."""
        authority = trustme.CA() if stranger else self._authority
        until = datetime.now(UTC) - timedelta(days=1) if expired else None
        certificate = authority.issue_cert(host, not_after=until)
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
        return self._write(f"{name}.pem", _to_pkcs8(certificate.private_key_pem.bytes()) + chain)

    def client(self, name: str) -> tuple[Path, Path]:
        """Return files with the certificate and the key of a client."""
        certificate = self._authority.issue_cert(f"{name}@example.com", common_name=name)
        chain = b"".join(blob.bytes() for blob in certificate.cert_chain_pems)
        return self._write(f"{name}.crt", chain), self._write(f"{name}.key", certificate.private_key_pem.bytes())

    def _write(self, name: str, data: bytes) -> Path:
        path = self._directory / name
        path.write_bytes(data)
        return path


def _to_pkcs8(key: bytes) -> bytes:
    """Convert a key to the format that Java can read."""
    loaded = load_pem_private_key(key, None)
    return loaded.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
