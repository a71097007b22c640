"""Logging in: the example of RFC 7677, and servers that are not what they say."""

from __future__ import annotations

import pytest

from minikafka.client.errors import AuthenticationFailed, BadServerSignature, ConfigError
from minikafka.client.sasl import make_login

NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
CHALLENGE = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
SIGNATURE = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def test_scram_as_in_the_rfc() -> None:
    login = make_login("SCRAM-SHA-256", "user", "pencil", NONCE)
    assert login.first() == FIRST
    assert login.answer(CHALLENGE) == PROOF
    assert login.answer(SIGNATURE) is None


def test_scram_sha_512_is_longer() -> None:
    login = make_login("SCRAM-SHA-512", "user", "pencil", NONCE)
    proof = login.answer(CHALLENGE)
    assert proof is not None and len(proof) == len(PROOF) + 44


def test_plain() -> None:
    login = make_login("PLAIN", "me", "pass", NONCE)
    assert login.first() == b"\0me\0pass"
    assert login.answer(b"") is None


def test_names_with_commas_are_written_as_the_rfc_says() -> None:
    assert make_login("SCRAM-SHA-256", "a,b=c", "p", NONCE).first() == b"n,,n=a=2Cb=3Dc,r=" + NONCE.encode()


@pytest.mark.parametrize(
    "challenge",
    [
        b"",
        b"\xff\xfe",
        b"r=somebody-else,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096",
        CHALLENGE.replace(b"%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0", b""),
        CHALLENGE.replace(b"i=4096", b"i=1"),
        CHALLENGE.replace(b"i=4096", b"i=99999999"),
        CHALLENGE.replace(b"i=4096", b"i=many"),
        CHALLENGE.replace(b"s=W22", b"s=!!!"),
    ],
)
def test_challenges_that_are_none(challenge: bytes) -> None:
    with pytest.raises(AuthenticationFailed):
        make_login("SCRAM-SHA-256", "user", "pencil", NONCE).answer(challenge)


@pytest.mark.parametrize("signature", [SIGNATURE.replace(b"6rri", b"7rri"), b"v=!", b"", b"x=1"])
def test_a_server_that_does_not_know_the_password_is_found_out(signature: bytes) -> None:
    login = make_login("SCRAM-SHA-256", "user", "pencil", NONCE)
    login.answer(CHALLENGE)
    with pytest.raises(BadServerSignature):
        login.answer(signature)


def test_a_refusal_is_told() -> None:
    login = make_login("SCRAM-SHA-256", "user", "pencil", NONCE)
    login.answer(CHALLENGE)
    with pytest.raises(AuthenticationFailed, match="invalid-proof"):
        login.answer(b"e=invalid-proof")


@pytest.mark.parametrize(("username", "password"), [("", "p"), ("u", ""), ("u\0", "p")])
def test_credentials_that_plain_cannot_carry(username: str, password: str) -> None:
    with pytest.raises(ConfigError):
        make_login("PLAIN", username, password, NONCE)


def test_a_mechanism_that_is_not_known() -> None:
    with pytest.raises(ConfigError):
        make_login("GSSAPI", "u", "p", NONCE)
