"""The list of rooms stands in several places, each read by another tool. They have to agree."""

import os
from typing import Any

import pytest

from tests.tree import ROOMS, ROOT, pyproject

TARGETS = pyproject()["tool"]["hatch"]["build"]["targets"]
CONTRACTS: list[dict[str, Any]] = pyproject()["tool"]["importlinter"]["contracts"]


def contract(name: str) -> dict[str, Any]:
    (found,) = [each for each in CONTRACTS if name in each["name"]]
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_link(room: str) -> None:
    link = ROOT / "src" / "minikafka" / room
    assert link.is_symlink(), f"{link} is not a link: does git have core.symlinks switched off?"
    # Relative, or a moved or copied checkout would import the rooms of the old one.
    assert os.readlink(link) == f"../../{room}"


def test_no_other_links() -> None:
    links = {entry.name for entry in (ROOT / "src" / "minikafka").iterdir() if entry.is_symlink()}
    assert links == set(ROOMS)


@pytest.mark.parametrize("target", ["wheel", "sdist"])
def test_build_lists(target: str) -> None:
    included = TARGETS[target]["only-include"]
    assert sorted(entry for entry in included if (ROOT / entry).is_dir() and "/" not in entry) == sorted(ROOMS)
    own = [entry for entry in included if entry.startswith("src/")]
    # The files are named one by one, since the links beside them must not be followed.
    beside = [path for path in (ROOT / "src" / "minikafka").iterdir() if path.is_file()]
    assert sorted(own) == sorted([*(path.relative_to(ROOT).as_posix() for path in beside), "src/pyspark_minikafka"])


def test_wheel_renames_every_room() -> None:
    sources = TARGETS["wheel"]["sources"]
    assert sources == {
        **{room: f"minikafka/{room}" for room in ROOMS},
        "src/minikafka": "minikafka",
        "src/pyspark_minikafka": "pyspark_minikafka",
    }


def test_layers() -> None:
    layers = contract("Rooms depend only downwards")["layers"]
    named = [name.strip() for layer in layers for name in layer.split("|")]
    assert sorted(named) == sorted(["minikafka.__main__", *(f"minikafka.{room}" for room in ROOMS)])


def test_no_room_may_use_another_kafka_client() -> None:
    sources = contract("Other Kafka clients")["source_modules"]
    assert sorted(sources) == sorted(f"minikafka.{room}" for room in ROOMS)


def test_rooms_are_imported_by_one_name() -> None:
    banned = pyproject()["tool"]["ruff"]["lint"]["flake8-tidy-imports"]["banned-api"]
    assert banned == {room: {"msg": f"import minikafka.{room}"} for room in ROOMS}
