"""Certificates: TLS for listeners, with a certificate that is given or made for the occasion."""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path
from typing import NamedTuple

from qflow.kit import RefusalError, explain_missing


class Certificate(NamedTuple):
    """The PEM files of a listener: certificate, key, and the authority if the kit made the certificate."""

    cert: str
    key: str
    ca: str = ""


def server_context(certificate: Certificate | None) -> ssl.SSLContext | None:
    """Return the TLS context for a certificate, or None without one."""
    if certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate.cert, certificate.key)
    except OSError as error:
        reason = error.strerror or str(error)
        raise RefusalError(
            f"cannot use the certificate {certificate.cert} with the key {certificate.key}: {reason}"
        ) from None
    return context


def add_certificate(parser: argparse.ArgumentParser) -> None:
    """Add ``--cert`` and ``--key`` to the options of a command that listens."""
    parser.add_argument("--cert", metavar="FILE.pem", help="listen with TLS, and with this certificate")
    parser.add_argument("--key", metavar="FILE.pem", help="the certificate's key")


def given_certificate(cert: str | None, key: str | None) -> Certificate | None:
    """Return the certificate of ``--cert`` and ``--key``, or None if neither option is given."""
    if bool(cert) != bool(key):
        raise RefusalError(f"--cert and --key must be given together; got only --{'cert' if cert else 'key'}")
    return Certificate(cert, key) if cert and key else None


def make_certificate(folder: Path) -> Certificate:
    """Make a certificate for this machine; clients have to trust the file of its authority."""
    try:
        import trustme
    except ImportError:
        raise RefusalError(explain_missing("a throw-away certificate", "trustme", "live")) from None
    # Signed by a separate authority, as some clients refuse a self-signed certificate.
    authority = trustme.CA()
    made = authority.issue_cert("localhost", "127.0.0.1", "::1")
    files = Certificate(*(str(folder / name) for name in ("cert.pem", "key.pem", "ca.pem")))
    for part in made.cert_chain_pems:
        part.write_to_path(files.cert, append=True)
    made.private_key_pem.write_to_path(files.key)
    authority.cert_pem.write_to_path(files.ca)
    return files
