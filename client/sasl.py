"""Logging in: PLAIN and SCRAM (RFC 5802), as messages to send and answers to take.

No socket here: a `Login` is asked for its first message and then given each answer, for which it has the next message
or None when it is done. SCRAM proves both sides: whoever answers without knowing the password is found out by the
signature at the end.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable
from typing import Final, Protocol

from minikafka.client.errors import AuthenticationFailed, BadServerSignature, ConfigError

_ITERATIONS_MIN: Final = 4096
"""RFC 5802 and Kafka: fewer would let an impostor have the password guessed."""
_ITERATIONS_MAX: Final = 1 << 18
"""About a tenth of a second of work, in which the loop stands still: the number is the server's."""

_HASHES: Final = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ATTRIBUTE: Final = re.compile("([a-z])=(.*)", re.DOTALL)


class Login(Protocol):
    """One exchange with one server."""

    def first(self) -> bytes:
        """What to send first."""

    def answer(self, data: bytes) -> bytes | None:
        """What to send after this answer; None when logged in, AuthenticationFailed if the answer is bad."""


def make_login(mechanism: str, username: str, password: str, nonce: str) -> Login:
    """A login by one of the mechanisms; the nonce must never have been used before."""
    if mechanism == "PLAIN":
        return _Plain(username, password)
    if mechanism in _HASHES:
        return _Scram(_HASHES[mechanism], username, password, nonce)
    raise ConfigError(f"SASL mechanism {mechanism!r} is not known")


class _Plain:
    def __init__(self, username: str, password: str) -> None:
        if not username or not password or "\0" in username + password:
            raise ConfigError("PLAIN needs a username and a password without null characters")
        self._message = f"\0{username}\0{password}".encode()

    def first(self) -> bytes:
        return self._message

    def answer(self, data: bytes) -> bytes | None:
        return None


class _Scram:
    def __init__(self, digest: str, username: str, password: str, nonce: str) -> None:
        self._digest = digest
        self._password = password.encode()
        self._nonce = nonce
        name = username.replace("=", "=3D").replace(",", "=2C")
        self._first_bare = f"n={name},r={nonce}"
        self._expected = b""
        self._next: Callable[[bytes], bytes | None] = self._take_challenge

    def first(self) -> bytes:
        return f"n,,{self._first_bare}".encode()

    def answer(self, data: bytes) -> bytes | None:
        return self._next(data)

    def _take_challenge(self, data: bytes) -> bytes:
        found = _attributes(data)
        try:
            nonce, salt, iterations = found["r"], b64decode(found["s"], validate=True), int(found["i"])
        except (KeyError, ValueError, Base64Error):
            raise AuthenticationFailed("the server's challenge is no SCRAM message") from None
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationFailed("the server's challenge answers somebody else")
        if not _ITERATIONS_MIN <= iterations <= _ITERATIONS_MAX:
            raise AuthenticationFailed(f"the server asks for {iterations} iterations, which is not acceptable")
        return self._proof(nonce, salt, iterations, data.decode())

    def _proof(self, nonce: str, salt: bytes, iterations: int, challenge: str) -> bytes:
        salted = hashlib.pbkdf2_hmac(self._digest, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        bare = f"c=biws,r={nonce}"  # biws: "n,,", no channel binding
        signed = f"{self._first_bare},{challenge},{bare}".encode()
        signature = self._hmac(hashlib.new(self._digest, client_key).digest(), signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._expected = self._hmac(self._hmac(salted, b"Server Key"), signed)
        self._next = self._take_signature
        return f"{bare},p={b64encode(proof).decode()}".encode()

    def _take_signature(self, data: bytes) -> None:
        found = _attributes(data)
        if "e" in found:
            raise AuthenticationFailed(f"the server refused the login: {found['e']}")
        try:
            signature = b64decode(found.get("v", ""), validate=True)
        except (ValueError, Base64Error):
            signature = b""
        if not hmac.compare_digest(signature, self._expected):
            raise BadServerSignature

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._digest)


def _attributes(data: bytes) -> dict[str, str]:
    """`a=x,b=y` as a dict; what is not of that form is left out."""
    try:
        parts = bytes(data).decode().split(",")
    except UnicodeDecodeError:
        raise AuthenticationFailed("the server's message is not text") from None
    return dict(match.groups() for part in parts if (match := _ATTRIBUTE.fullmatch(part)))  # type: ignore[misc]
