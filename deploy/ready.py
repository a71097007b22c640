"""The health check of the image: does the broker of this container serve clients?

It runs every few seconds beside the broker, so it imports next to nothing.
"""

import os
import socket
import sys

_TIMEOUT_SECONDS = 2.0
_ANSWER_BYTES_MAX = 4096


def main() -> int:
    """0 if /ready says so; otherwise 1, and what it said goes to stdout, where `docker inspect` shows it."""
    port = int(os.environ.get("KAFKA_MINIKAFKA_HTTP_PORT", "9404"))
    try:
        with socket.create_connection(("127.0.0.1", port), _TIMEOUT_SECONDS) as connection:
            connection.sendall(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            answer = b""
            while len(answer) < _ANSWER_BYTES_MAX and (part := connection.recv(_ANSWER_BYTES_MAX)):
                answer += part
    except OSError as error:
        print(error)
        return 1
    head, _, body = answer.partition(b"\r\n\r\n")
    print(body.decode(errors="replace").strip())
    return 0 if head.startswith(b"HTTP/1.1 200 ") else 1


if __name__ == "__main__":
    sys.exit(main())
