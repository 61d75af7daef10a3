"""A certificate authority of one test, and a certificate for this machine."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme
from cryptography.hazmat.primitives import serialization


class Certificates:
    """PEM files: `certificate` with its chain, `key`, and `authority` that a client may trust."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._authority = trustme.CA()
        issued = self._authority.issue_cert("localhost", "127.0.0.1", "::1")
        self.certificate, self.key, self.authority = (folder / name for name in ("cert.pem", "key.pem", "ca.pem"))
        self.certificate.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
        self.key.write_bytes(issued.private_key_pem.bytes())
        self.key.chmod(0o600)
        self._authority.cert_pem.write_to_path(str(self.authority))

    def locked_key(self, path: Path) -> Path:
        """The key again, behind a password."""
        key = serialization.load_pem_private_key(self.key.read_bytes(), None)
        form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
        path.write_bytes(key.private_bytes(*form, serialization.BestAvailableEncryption(b"secret")))
        return path

    def listen(self) -> dict[str, object]:
        """`listen` settings of a TLS listener on a free port."""
        return {"tls": ("127.0.0.1:0",), "tls_cert": str(self.certificate), "tls_key": str(self.key)}

    def trusted(self) -> ssl.SSLContext:
        """What a client needs that trusts this authority only."""
        return ssl.create_default_context(cafile=str(self.authority))
