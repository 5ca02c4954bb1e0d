# SPDX-License-Identifier: Apache-2.0
"""A certificate authority in a directory, and the certificates it issues."""

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LIFETIME = datetime.timedelta(days=30)


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    cert: Path
    key: Path


class Authority:
    """One CA: `ca.crt` and `ca.key` in a directory, made at first use."""

    def __init__(self, directory, common_name="rig"):
        self.directory = Path(directory)
        self.cert = self.directory / "ca.crt"
        self.key = self.directory / "ca.key"
        if self.key.exists():
            self._key = serialization.load_pem_private_key(self.key.read_bytes(), None)
            self._name = x509.load_pem_x509_certificate(self.cert.read_bytes()).subject
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name(common_name)
        usage = x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        )
        builder = (
            self._builder(self._name, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(usage, critical=True)
        )
        _write(self.cert, _pem(builder.sign(self._key, hashes.SHA256())))
        _write_key(self.key, self._key)

    def issue(self, name, common_name, organization=None, hosts=()):
        """A certificate good for both server and client use, as `<name>.crt` and `<name>.key`.

        `hosts` are DNS names or addresses. Issuing again replaces the files.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = (
            self._builder(_name(common_name, organization), key.public_key())
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        pair = Pair(self.directory / f"{name}.crt", self.directory / f"{name}.key")
        _write(pair.cert, _pem(builder.sign(self._key, hashes.SHA256())))
        _write_key(pair.key, key)
        return pair

    def _builder(self, subject, public_key):
        now = datetime.datetime.now(datetime.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(public_key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(minutes=5))
            .not_valid_after(now + LIFETIME)
        )


def signing_key(path):
    """A bare key, such as the one ServiceAccount tokens are signed with."""
    _write_key(path, ec.generate_private_key(ec.SECP256R1()))
    return path


def client_context(ca, pair):
    """A TLS context that trusts `ca` and presents `pair`."""
    context = ssl.create_default_context(cafile=ca)
    context.load_cert_chain(pair.cert, pair.key)
    return context


def _write_key(path, key):
    """In the SEC 1 form, the only one from which kube-apiserver also derives the public key."""
    encoding = serialization.Encoding.PEM
    form = serialization.PrivateFormat.TraditionalOpenSSL
    _write(path, key.private_bytes(encoding, form, serialization.NoEncryption()))


def _name(common_name, organization=None):
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization:
        attributes.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _general_name(host):
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate):
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path, data):
    path.touch(mode=0o600)
    path.write_bytes(data)
