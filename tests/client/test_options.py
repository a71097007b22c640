"""Options by both kinds of names; what is wrong with them is said clearly, and secrets are not said at all."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, get_type_hints

import pytest

from minikafka.client.config import Address, ClientConfig, ClientOptions, make_ssl_context, parse_addresses
from minikafka.client.errors import ConfigError
from minikafka.client.options import Options, kafka_names
from minikafka.client.producer.config import ProducerConfig, ProducerOptions
from minikafka.client.producer.sequences import Mode
from minikafka.protocol.compression import Compression

PAIRS: list[tuple[type[Options], Any]] = [(ClientConfig, ClientOptions), (ProducerConfig, ProducerOptions)]


@pytest.mark.parametrize(("config", "options"), PAIRS)
def test_keyword_arguments_are_declared_as_the_options_are(config: type[Options], options: Any) -> None:
    declared = get_type_hints(options)
    assert declared == {field.name: get_type_hints(config)[field.name] for field in dataclasses.fields(config)}


@pytest.mark.parametrize("config", [pair[0] for pair in PAIRS])
def test_no_name_of_kafkas_means_two_things(config: type[Options]) -> None:
    names = [name for field in dataclasses.fields(config) for name in kafka_names(field)]
    assert len(names) == len({*names})


def test_kafkas_names_and_text() -> None:
    config = ProducerConfig.from_config(
        {
            "bootstrap.servers": "one:1,two",
            "linger.ms": "0.5",
            "batch.size": 7,
            "acks": "1",
            "enable.idempotence": "False",
            "compression.type": "zstd",
            "delivery.timeout.ms": " 9 ",
            "transactional.id": "",
            "security.protocol": "sasl_ssl",
            "sasl.mechanisms": "scram-sha-512",
            "sasl.username": "me",
            "sasl.password": "secret",
            "ssl.ca.location": "ca.pem",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert config.addresses == (Address("one", 1), Address("two", 9092))
    assert (config.linger_ms, config.max_batch_size, config.acks_wanted) == (0.5, 7, 1)
    assert (config.compression, config.delivery_timeout_ms, config.mode) == (Compression.ZSTD, 9, Mode.PLAIN)
    assert config.transactional_id is None
    assert (config.uses_tls, config.uses_sasl, config.sasl_mechanism) == (True, True, "SCRAM-SHA-512")
    assert (config.ssl_cafile, config.ssl_check_hostname) == ("ca.pem", False)
    assert "secret" not in repr(config) and "me" in repr(config)


WRONG: list[tuple[Mapping[str, object], str]] = [
    ({"bootstrap.server": "x"}, "there is no option 'bootstrap.server'; did you mean 'bootstrap.servers'?"),
    ({"linger_ms": 5}, "did you mean 'linger.ms'"),
    ({"xyzzy": 1}, "there is no option 'xyzzy'$"),
    ({"linger.ms": "soon"}, "linger.ms cannot be 'soon'"),
    ({"sasl.password": 5}, "sasl_plain_password must be str or None, not a int that is not shown"),
    ({"batch.size": "0"}, "max_batch_size must be 1 or more, not 0"),
    ({"compression.type": "zip"}, "compression_type must be one of 'none', 'gzip'"),
    ({"compression.type": "lz4", "compression.codec": "lz4"}, "compression.codec is given twice"),
    ({"enable.idempotence": "perhaps"}, "enable.idempotence cannot be 'perhaps'"),
    ({"enable.idempotence": True, "acks": 1}, "enable_idempotence needs acks='all'"),
    ({"transactional.id": "a", "acks": 0}, "transactional_id needs acks='all'"),
    ({"max.in.flight": 6}, "is 5 at most"),
    ({"security.protocol": "SASL_PLAINTEXT"}, "needs sasl_plain_username and sasl_plain_password"),
    ({"security.protocol": "TLS"}, "security_protocol must be one of"),
    ({"bootstrap.servers": "host:port"}, "'host:port' is no address of the form host:port"),
    ({"bootstrap.servers": " , "}, "bootstrap_servers names no server"),
    ({"bootstrap.servers": 9092}, "bootstrap_servers must be text"),
    ({"key.serializer": "yaml"}, "'yaml' is no serializer: it must be a callable or one of 'bytes', 'str'"),
    ({"partitioner": "by mood"}, "'by mood' is no partitioner"),
]


@pytest.mark.parametrize(("config", "message"), WRONG)
def test_what_is_wrong_is_said(config: Mapping[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ProducerConfig.from_config(config)


def test_keyword_arguments_that_do_not_exist() -> None:
    with pytest.raises(ConfigError, match="there is no option 'acsk'; did you mean 'acks'"):
        ProducerConfig.from_options({"acsk": 1})
    with pytest.raises(ConfigError, match="linger_ms must be int or float, not '5'"):
        ProducerConfig.from_options({"linger_ms": "5"})


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("host:1", Address("host", 1)),
        ("host", Address("host", 9092)),
        ("[::1]:5", Address("::1", 5)),
        ("[::1]", Address("::1", 9092)),
        ("PLAINTEXT://host:7", Address("host", 7)),
    ],
)
def test_addresses(text: str, address: Address) -> None:
    assert parse_addresses(text) == (address,) == parse_addresses([f" {text} "])


@pytest.mark.parametrize("text", ["host:0", "host:65536", ":1", "host:-1", "host:１"])  # noqa: RUF001
def test_no_addresses(text: str) -> None:
    with pytest.raises(ConfigError, match="is no address"):
        parse_addresses(text)


def test_tls_files_that_are_not_there() -> None:
    assert make_ssl_context(ClientConfig()) is None
    config = ClientConfig(security_protocol="SSL", ssl_cafile="nowhere.pem")
    with pytest.raises(ConfigError, match="TLS files cannot be used"):
        make_ssl_context(config)


def test_idempotence_follows_acks() -> None:
    assert ProducerConfig().mode is Mode.IDEMPOTENT
    assert ProducerConfig(acks=1).mode is Mode.PLAIN
    assert ProducerConfig(transactional_id="t").mode is Mode.TRANSACTIONAL
