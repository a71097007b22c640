"""Addresses: where a broker listens and what it tells others."""

import pytest

from minikafka.broker.config.errors import ConfigError
from minikafka.broker.config.listeners import Listener, SecurityProtocol
from tests.broker.config.recorded import config_of

PLAINTEXT = SecurityProtocol.PLAINTEXT


def test_the_default() -> None:
    config = config_of()
    assert config.listeners == (Listener("PLAINTEXT", None, 9092, PLAINTEXT),)
    assert config.advertised_listeners is None
    assert (config.inter_broker_listener_name, config.control_plane_listener_name) == ("PLAINTEXT", None)


def test_several() -> None:
    config = config_of(
        {
            "listeners": "internal://0.0.0.0:9092, External://[::]:9093,CTL://:9094",
            "advertised.listeners": "INTERNAL://a:9092,EXTERNAL://[fe80::1]:19093,CTL://:9094",
            "listener.security.protocol.map": "INTERNAL:PLAINTEXT,external:plaintext, CTL : PLAINTEXT",
            "inter.broker.listener.name": "internal",
            "control.plane.listener.name": "ctl",
            "listener.name.external.max.connections": "100",
        }
    )
    assert config.listeners == (
        Listener("INTERNAL", "0.0.0.0", 9092, PLAINTEXT),
        Listener("EXTERNAL", "::", 9093, PLAINTEXT, max_connections=100),
        Listener("CTL", None, 9094, PLAINTEXT),
    )
    assert config.advertised_listeners is not None
    assert [str(each) for each in config.advertised_listeners] == [
        *("INTERNAL://a:9092", "EXTERNAL://[fe80::1]:19093", "CTL://:9094"),
    ]
    assert (config.inter_broker_listener_name, config.control_plane_listener_name) == ("INTERNAL", "CTL")


@pytest.mark.parametrize(
    ("texts", "line"),
    [
        ({"listeners": ""}, "here: listeners='': must name at least one address as NAME://host:port"),
        ({"listeners": "localhost:9092"}, "here: listeners='localhost:9092': 'localhost:9092' is not NAME://host:port"),
        (
            {"listeners": "PLAINTEXT://a:99999"},
            "here: listeners='PLAINTEXT://a:99999': the port of 'PLAINTEXT://a:99999' is above 65535",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,plaintext://b:2"},
            "here: listeners='PLAINTEXT://a:1,plaintext://b:2': listener PLAINTEXT is there twice",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,SSL://b:1"},
            "here: listeners='PLAINTEXT://a:1,SSL://b:1': port 1 is there 2 times",
        ),
        (
            {"listeners": "PLAINTEXT://a:1,SSL://b:2"},
            "here: listeners='PLAINTEXT://a:1,SSL://b:2': listener SSL is for SSL, but connections here are PLAINTEXT",
        ),
        (
            {"listeners": "EXTERNAL://a:1"},
            "here: listeners='EXTERNAL://a:1': listener EXTERNAL has no security protocol, "
            "add EXTERNAL:PLAINTEXT or the like to listener.security.protocol.map",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT:PLAIN"},
            "here: listener.security.protocol.map='PLAINTEXT:PLAIN': unknown protocol in 'PLAINTEXT:PLAIN', "
            "there are PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL",
        ),
        (
            {"listener.security.protocol.map": "PLAINTEXT"},
            "here: listener.security.protocol.map='PLAINTEXT': 'PLAINTEXT' is not NAME:PROTOCOL",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://0.0.0.0:9092"},
            "here: advertised.listeners='PLAINTEXT://0.0.0.0:9092': "
            "nobody can connect to PLAINTEXT://0.0.0.0:9092, give an address that others can reach",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://[::]:9092"},
            "here: advertised.listeners='PLAINTEXT://[::]:9092': "
            "nobody can connect to PLAINTEXT://[::]:9092, give an address that others can reach",
        ),
        (
            {"advertised.listeners": "PLAINTEXT://a:0"},
            "here: advertised.listeners='PLAINTEXT://a:0': nobody can connect to port 0 of PLAINTEXT://a:0",
        ),
        (
            {"advertised.listeners": "SSL://a:1"},
            "here: advertised.listeners='SSL://a:1': listener SSL is not in listeners, which has PLAINTEXT",
        ),
        (
            {"inter.broker.listener.name": "SSL"},
            "here: inter.broker.listener.name='SSL': must be one of the listeners that others are told of: PLAINTEXT",
        ),
        (
            {"listeners": "A://a:1", "listener.security.protocol.map": "A:PLAINTEXT"},
            "inter.broker.listener.name is not set: "
            "must be set to the listener that brokers use among themselves, one of A",
        ),
        (
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "here: inter.broker.listener.name='PLAINTEXT': "
            "only one of this and security.inter.broker.protocol may be set",
        ),
        (
            {"control.plane.listener.name": "PLAINTEXT"},
            "here: control.plane.listener.name='PLAINTEXT': "
            "must not be the listener that brokers use for everything else",
        ),
        (
            {"control.plane.listener.name": "SSL"},
            "here: control.plane.listener.name='SSL': must be one of the listeners that others are told of: PLAINTEXT",
        ),
        (
            {"listener.name.plaintext.max.connections": "many"},
            "here: listener.name.plaintext.max.connections='many': must be a 32-bit whole number of at least 0",
        ),
    ],
)
def test_what_does_not_fit(texts: dict[str, str], line: str) -> None:
    with pytest.raises(ConfigError) as error:
        config_of(texts)
    assert str(error.value) == line
