"""Coverage-guided fuzzing of everything that reads a message: `make fuzz`.

The first two bytes of an input choose the decoder and the version.  Whatever decodes must encode and
decode again to the same message; anything but DecodeError is a finding.

Inputs start from what Apache Kafka wrote, and the compiled codecs are instrumented like any module.
"""

import sys
from pathlib import Path

import atheris

with atheris.instrument_imports(include=["minikafka"]):
    from minikafka.protocol import control  # noqa: F401 - declares what CONTROL lists
    from minikafka.protocol import message as message_module
    from minikafka.protocol.apis import APIS
    from minikafka.protocol.control_codec import ControlMessage
    from minikafka.protocol.errors import DecodeError
    from minikafka.protocol.frame import FrameReader
    from minikafka.protocol.headers import decode_request_header
    from minikafka.protocol.message import Message, VersionPrefixed, codec_source
    from minikafka.protocol.messages import consumer_protocol, coordinator_records  # noqa: F401 - the same for MESSAGES

MESSAGES: list[type[Message]] = [
    *(cls for api in APIS.values() for cls in (api.request, api.response)),
    *VersionPrefixed.__subclasses__(),
]

CONTROL: list[type[ControlMessage]] = ControlMessage.__subclasses__()

ROOT = Path(__file__).parent.parent.parent
GOLDEN = ROOT / "tests" / "data" / "kafka-3.9.1-messages.txt"
CORPUS = ROOT / "build" / "fuzz" / "messages"  # kept, so that the next run goes on from it


def fuzz_message(cls: type[Message], version: int, body: bytes) -> None:
    message = cls.decode(body, version)
    again = b"".join(message.encode(version))
    if b"".join(cls.decode(again, version).encode(version)) != again:
        raise AssertionError(f"{cls.__name__} v{version} changes on its way")


def fuzz_frames(body: bytes) -> None:
    reader = FrameReader(1 << 16, bytearray(64))
    for frame in reader.receive_data(body):
        decode_request_header(frame, flexible=len(frame) % 2 == 0)


def test_one_input(data: bytes) -> None:
    if len(data) < 2:
        return
    choice, version, body = data[0], data[1], data[2:]
    try:
        if choice < len(MESSAGES):
            cls = MESSAGES[choice]
            low, high = cls.versions
            fuzz_message(cls, low + version % (high - low + 1), body)
        elif choice % 2:
            CONTROL[version % len(CONTROL)].decode(body, 0)
        else:
            fuzz_frames(body)
    except DecodeError:
        pass


def instrument_codecs() -> None:
    """Generated code is imported from nowhere, so atheris has to be shown it."""
    for cls in MESSAGES:
        for version in range(cls.versions[0], cls.versions[1] + 1):
            codec_source(cls, version)
    for key, decoder in message_module._decoders.items():
        message_module._decoders[key] = atheris.instrument_func(decoder)


def write_corpus(folder: Path) -> None:
    numbers = {cls.__name__: number for number, cls in enumerate(MESSAGES)}
    for line in GOLDEN.read_text().splitlines():
        if not line.startswith("#"):
            name, version, body = line.split(" ")
            offset = int(version) - MESSAGES[numbers[name]].versions[0]
            (folder / f"{name}-{version}-{len(body)}").write_bytes(bytes([numbers[name], offset]) + bytes.fromhex(body))


def main() -> None:
    instrument_codecs()
    CORPUS.mkdir(parents=True, exist_ok=True)
    write_corpus(CORPUS)
    atheris.Setup([*sys.argv, str(CORPUS)], test_one_input)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
