"""Properties files, by Java's rules."""

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minikafka.broker.config.errors import ConfigError
from minikafka.broker.config.properties import format_properties, parse_properties, read_properties


def parsed(text: str) -> list[tuple[str, str, int]]:
    return [(each.key, each.value, each.line) for each in parse_properties(text, "f")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("a=b", [("a", "b", 1)]),
        ("a:b\r\nc d\re", [("a", "b", 1), ("c", "d", 2), ("e", "", 3)]),
        ("  a  =  b  ", [("a", "b  ", 1)]),
        ("a = = b", [("a", "= b", 1)]),
        ("a==b", [("a", "=b", 1)]),
        ("a  b=c", [("a", "b=c", 1)]),
        ("# x\n! y\n   # z\n\n \t\na=1", [("a", "1", 6)]),
        ("a=1\\\n   2\\\n3\nb=4", [("a", "123", 1), ("b", "4", 4)]),
        ("a=1\\\n# no comment", [("a", "1# no comment", 1)]),
        ("a=1\\\n\nb=2", [("a", "1", 1), ("b", "2", 3)]),
        ("a=1\\\\\nb=2", [("a", "1\\", 1), ("b", "2", 2)]),
        ("a=1\\", [("a", "1", 1)]),
        ("\\\n# a comment after all\na=1", [("a", "1", 3)]),
        ("a\\ b\\=c\\:d=e", [("a b=c:d", "e", 1)]),
        ("a=\\t\\n\\r\\f\\q\\\\", [("a", "\t\n\r\fq\\", 1)]),
        ("a=\\u0041\\u00e9\\uD83D\\uDE00", [("a", "Aé😀", 1)]),
        ("=b", [("", "b", 1)]),
        ("a=1\na=2", [("a", "1", 1), ("a", "2", 2)]),
        ("log.dirs=C:\\\\data", [("log.dirs", "C:\\data", 1)]),
    ],
)
def test_javas_rules(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert parsed(text) == expected


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("x=1\nsecret=hunter2\\u12", "f:2: \\u must be followed by four hexadecimal digits"),
        ("secret=hunter2\\ud83d", "f:1: \\uXXXX is half a character"),
    ],
)
def test_errors_name_the_line_and_nothing_of_it(text: str, what: str) -> None:
    with pytest.raises(ConfigError) as error:
        parse_properties(text, "f")
    assert str(error.value) == what


TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(TEXT, TEXT, max_size=5))
@settings(max_examples=200, deadline=None)
def test_what_is_written_is_read_again(values: dict[str, str]) -> None:
    text = format_properties(values)
    assert text.isascii()
    assert {each.key: each.value for each in parse_properties(text, "f")} == values
    assert len(text.splitlines()) == len(values)


@given(st.text(alphabet="\\\n\r =:#!\t\fauAF019né\u2028", max_size=40) | st.text(max_size=40))
@settings(max_examples=200, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        lines = parse_properties(text, "f")
    except ConfigError as error:
        assert str(error).startswith("f:")
        return
    numbers = [each.line for each in lines]
    assert numbers == sorted(numbers)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes("\ufeffrack=é\n".encode())
    assert [tuple(each) for each in read_properties(str(path))] == [("rack", "é", 1)]
    path.write_bytes(b"rack=\xe9\n")
    assert [tuple(each) for each in read_properties(str(path))] == [("rack", "é", 1)]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    path = str(tmp_path / "none")
    with pytest.raises(ConfigError) as error:
        read_properties(path)
    assert str(error.value) == f"{path}: cannot be read: No such file or directory"
