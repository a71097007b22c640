"""Gets the suite: the source distribution of the kafka-python that is installed, or a folder with its sources."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path

PACKAGE = "kafka-python"
INTEGRATION = Path("test", "integration")

# The suite looks for a Kafka in this folder before it looks at the address it was given.
KAFKA_VERSION = "3.9.0"
KAFKA_FOLDER = Path("servers", KAFKA_VERSION, "kafka-bin")


def prepare(folder: Path, given: Path | None) -> Path:
    """A copy of the sources in `folder`, ready to run."""
    sources = _copy(given, folder) if given is not None else _download(folder)
    if not (sources / INTEGRATION).is_dir():
        raise SystemExit(f"no {INTEGRATION} in the sources of {PACKAGE}; name a checkout of it with --sources")
    (sources / KAFKA_FOLDER).mkdir(parents=True, exist_ok=True)
    tests = sources / "test"
    # Without it Python's own package of that name is found.
    (tests / "__init__.py").touch()
    if not (tests / "service.py").exists():
        shutil.copyfile(Path(__file__).with_name("stand_in.py"), tests / "service.py")
    # What is tested is the installed client.
    shutil.rmtree(sources / "kafka", ignore_errors=True)
    return sources


def _copy(given: Path, folder: Path) -> Path:
    return Path(shutil.copytree(given, folder / "sources", ignore=shutil.ignore_patterns(".git")))


def _download(folder: Path) -> Path:
    wanted = f"{PACKAGE}=={version(PACKAGE)}"
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet"]
    subprocess.run([*command, "--no-deps", "--no-binary", ":all:", "--dest", folder, wanted], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")
