"""Credentials for SCRAM, beside those that Kafka 3.9.1 made, and those of the RFC."""

from __future__ import annotations

import base64
import hashlib
import hmac

import pytest

from minikafka.broker.scram_credentials import Mechanism, credential, is_mechanism, iterations_of

SHA_256, SHA_512 = Mechanism.SCRAM_SHA_256, Mechanism.SCRAM_SHA_512

# Recorded from Kafka 3.9.1, for salted passwords of 32 and 64 times the letter p.
KAFKAS = {
    SHA_256: "salt=c2FsdA==,stored_key=5fFUxV0AD26xWkoJJg7bXVrfsC18oO/9teoJx9PJtT0=,"
    "server_key=HEtYAvOwTubW02jJL+5MEEljbbOmsXhQuGr9eFqJSO0=,iterations=4096",
    SHA_512: "salt=c2FsdA==,stored_key=CmnsxkMt9eSdBtF5Tg3mJ8/B5zA+9fWKhEGvRkZ63Ytx7SpglwuzJ3SzBG9G7JxK3Lcy7dKXNfq/"
    "Rqct8zGGAg==,server_key=mgGcAIhyWQhGRFa5LII4mPu9aiaSWTNFhkv2zRKaU1h7QiV3odlEHbL5iPPROoeq5zklATdUQeJ0Hwusdm1yMg==,"
    "iterations=8192",
}


def test_as_kafka_makes_them() -> None:
    assert credential(SHA_256, b"salt", b"p" * 32, 4096) == KAFKAS[SHA_256]
    assert credential(SHA_512, b"salt", b"p" * 64, 8192) == KAFKAS[SHA_512]


def test_as_the_rfc_says() -> None:
    """RFC 7677: the client's proof is the client key with the signature over it, and the stored key is its hash."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    parts = dict(part.split("=", 1) for part in credential(SHA_256, salt, salted, 4096).split(","))
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    stored_key = base64.b64decode(parts["stored_key"])
    signed = _hmac(stored_key, message)
    client_key = bytes(a ^ b for a, b in zip(proof, signed, strict=True))
    assert hashlib.sha256(client_key).digest() == stored_key
    server_key = base64.b64decode(parts["server_key"])
    assert _hmac(server_key, message) == base64.b64decode("6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def _hmac(key: bytes, message: bytes) -> bytes:
    return hmac.digest(key, message, "sha256")


def test_what_a_user_has() -> None:
    texts = {"SCRAM-SHA-512": KAFKAS[SHA_512], "SCRAM-SHA-256": KAFKAS[SHA_256], "producer_byte_rate": "7"}
    assert list(iterations_of(texts).items()) == [(SHA_256, 4096), (SHA_512, 8192)]
    assert iterations_of({"SCRAM-SHA-256": "iterations=5000,salt=x"}) == {SHA_256: 5000}
    assert iterations_of({}) == {}


@pytest.mark.parametrize(
    "text", ["", "nonsense", "iterations=", "iterations=x", "xiterations=5", "iterations=99999999999"]
)
def test_what_is_no_credential(text: str) -> None:
    assert iterations_of({"SCRAM-SHA-256": text}) == {}


def test_names_of_mechanisms() -> None:
    assert [(each.key, each.digest) for each in Mechanism] == [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
    assert is_mechanism("SCRAM-SHA-256") and not is_mechanism("producer_byte_rate")
