"""Wheel and sdist: that they hold the right files, and that what they install runs.

Nothing here asks a package index: builds use the build backend that is installed, and the new virtual
environments see the packages of this one through a path file.
"""

import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from importlib.metadata import distribution, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement

import minikafka
from tests.tree import ROOMS, ROOT, files, pyproject

VERSION = minikafka.__version__
WHEEL = f"minikafka-{VERSION}-py3-none-any.whl"
SDIST = f"minikafka-{VERSION}.tar.gz"
ROOM_FOLDERS = tuple(f"{room}/" for room in ROOMS)
SITE_PACKAGES = Path(sysconfig.get_path("purelib"))

# Two builds and an install; far more than they take, for a slow machine.
pytestmark = pytest.mark.timeout(180)


def run(*command: str | Path, cwd: Path | None = None) -> str:
    """Run a command and give its output; the test fails with that output if the command fails."""
    result = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert result.returncode == 0, result.stdout
    return result.stdout


def build(source: Path, into: Path, *options: str) -> None:
    run(sys.executable, "-m", "build", "--no-isolation", "--outdir", into, *options, source)


@pytest.fixture(scope="module")
def direct(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the checkout, which is also what `pip install .` does."""
    folder = tmp_path_factory.mktemp("direct")
    build(ROOT, folder, "--wheel")
    return folder / WHEEL


@pytest.fixture(scope="module")
def by_sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with the sdist, and with the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("by_sdist")
    build(ROOT, folder)
    return folder


def members(wheel: Path) -> set[str]:
    """The files of a wheel, without its own records."""
    names = set(zipfile.ZipFile(wheel).namelist())
    return {name for name in names if not name.startswith(f"minikafka-{VERSION}.dist-info/")}


def expected() -> set[str]:
    """What a wheel should hold, by the files of the tree."""
    rooms = {f"minikafka/{name}" for name in files() if name.startswith(ROOM_FOLDERS) and not name.endswith(".md")}
    own = {name.removeprefix("src/") for name in files() if name.startswith("src/") and not (ROOT / name).is_symlink()}
    return rooms | own


def test_wheel_holds_every_room(direct: Path) -> None:
    assert members(direct) == expected()


def test_wheel_by_way_of_the_sdist_is_the_same(direct: Path, by_sdist: Path) -> None:
    assert members(by_sdist / WHEEL) == members(direct)


def test_sdist_holds_what_a_build_needs(by_sdist: Path) -> None:
    with tarfile.open(by_sdist / SDIST) as archive:
        names = {name.removeprefix(f"minikafka-{VERSION}/") for name in archive.getnames()}
        links = [member.name for member in archive.getmembers() if not member.isfile()]
    assert not links
    documents = {"README.md", "LICENSE", "ARCHITECTURE.md", "CHANGELOG.md", "pyproject.toml"}
    sources = {name for name in files() if name.startswith((*ROOM_FOLDERS, "src/")) and not (ROOT / name).is_symlink()}
    assert names == documents | sources | {"PKG-INFO", ".gitignore"}


def make_environment(folder: Path, *paths: Path) -> Path:
    """A new virtual environment whose Python also sees what lies in `paths`; gives its scripts' folder."""
    venv.create(folder, symlinks=True, with_pip=False)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    lines = "".join(f"{path}\n" for path in paths)
    (folder / "lib" / version / "site-packages" / "others.pth").write_text(lines)
    return folder / "bin"


def install(wheel: Path, scripts: Path) -> None:
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(scripts / "python"))
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel)


@pytest.mark.parametrize("origin", ["direct", "by_sdist"])
def test_installed_wheel_runs(direct: Path, by_sdist: Path, origin: str, tmp_path: Path) -> None:
    # A space in the path is a classic way to break the scripts of a virtual environment.
    scripts = make_environment(tmp_path / "with a space", SITE_PACKAGES)
    install(direct if origin == "direct" else by_sdist / WHEEL, scripts)
    said = f"minikafka, version {VERSION}\n"
    assert run(scripts / "minikafka", "--version", cwd=tmp_path) == said
    assert run(scripts / "python", "-m", "minikafka", "--version", cwd=tmp_path) == said
    assert run(scripts / "python", "-c", "import minikafka; print(minikafka.__file__)").startswith(str(tmp_path))


def light_packages() -> set[str]:
    """The distributions of the light install: by pyproject.toml, and what those need themselves."""
    found: set[str] = set()
    wanted = [*pyproject()["project"]["dependencies"]]
    while wanted:
        requirement = Requirement(wanted.pop())
        if requirement.name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found.add(requirement.name)
            wanted += requires(requirement.name) or []
    return found


def top_levels(name: str) -> set[str]:
    """What a distribution has in site-packages."""
    return {file.parts[0] for file in distribution(name).files or () if file.parts[0] not in ("..", "__pycache__")}


@pytest.fixture(scope="module")
def light(direct: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts of an environment with minikafka and its base dependencies, and nothing else."""
    folder = tmp_path_factory.mktemp("light")
    seen = folder / "seen"
    seen.mkdir()
    for top_level in {each for name in light_packages() for each in top_levels(name)}:
        (seen / top_level).symlink_to(SITE_PACKAGES / top_level)
    scripts = make_environment(folder / "environment", seen)
    install(direct, scripts)
    return scripts


def test_light_install_runs(light: Path) -> None:
    assert run(light / "minikafka", "--version") == f"minikafka, version {VERSION}\n"


# Imported only where numpy is, and never by name from another room.
NEEDS_NUMPY = {"minikafka.protocol.records.scattered"}


@pytest.mark.parametrize("room", ["protocol", "client"])
def test_light_install_has_all_that_a_room_imports(light: Path, room: str) -> None:
    script = (
        f"import importlib, pkgutil, minikafka.{room} as room\n"
        "for found in pkgutil.walk_packages(room.__path__, room.__name__ + '.'):\n"
        f"    if found.name not in {NEEDS_NUMPY}:\n"
        "        importlib.import_module(found.name)\n"
        "print('all imported')\n"
    )
    assert run(light / "python", "-c", script) == "all imported\n"


def test_light_install_names_the_extra_of_a_command(light: Path) -> None:
    script = (
        "from minikafka.__main__ import Entry, LazyGroup\n"
        "LazyGroup('minikafka', table={'up': Entry('kazoo.client', 'x', 'broker', '')})(['up'])\n"
    )
    result = subprocess.run([light / "python", "-c", script], capture_output=True, text=True)
    said = "Error: 'up' needs kazoo, which is not installed: pip install 'minikafka[broker]'\n"
    assert (result.returncode, result.stdout, result.stderr) == (2, "", said)


def test_wheel_metadata(direct: Path) -> None:
    names = zipfile.ZipFile(direct).namelist()
    assert f"minikafka-{VERSION}.dist-info/licenses/LICENSE" in names
    entry_points = zipfile.ZipFile(direct).read(f"minikafka-{VERSION}.dist-info/entry_points.txt").decode()
    assert entry_points.split() == ["[console_scripts]", "minikafka", "=", "minikafka.__main__:main"]


def test_spark_finds_a_module_that_is_harmless() -> None:
    """Spark imports every top-level `pyspark_*` module, and one that fails spoils the search for all."""
    assert "pyspark" not in run(
        sys.executable, "-c", "import sys, pyspark_minikafka; print(*(set(sys.modules) - {'pyspark_minikafka'}))"
    )
