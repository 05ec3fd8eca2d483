"""What is shipped: the wheel and the sdist, their metadata, and the versions that the command prints."""

import os
import subprocess
import sys
import tarfile
import tomllib
from email.parser import HeaderParser
from importlib import metadata, util
from pathlib import Path
from zipfile import ZipFile

import pytest

from noumena.cli import main, versions

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
NAME = f"noumena-{PROJECT['version']}"


def build(source: Path, target: str, out: Path, tools: Path) -> Path:
    """One artefact by hatchling, in a process of its own."""
    there = os.environ | {"PYTHONPATH": str(tools)}
    command = [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", str(out)]
    done = subprocess.run(command, cwd=source, env=there, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    (path,) = out.iterdir()
    return path


@pytest.fixture(scope="module")
def tools(tmp_path_factory) -> Path:
    """A folder from which hatchling can be imported: empty where it is installed."""
    folder = tmp_path_factory.mktemp("tools")
    if util.find_spec("hatchling") is None:
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder)]
        command = [*pip, "-c", str(ROOT / "constraints.txt"), "hatchling"]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        if done.returncode:
            pytest.skip(f"hatchling cannot be had: {done.stderr[-200:]}")
    return folder


@pytest.fixture(scope="module")
def wheel(tools, tmp_path_factory) -> Path:
    return build(ROOT, "wheel", tmp_path_factory.mktemp("wheel"), tools)


@pytest.fixture(scope="module")
def sdist(tools, tmp_path_factory) -> Path:
    return build(ROOT, "sdist", tmp_path_factory.mktemp("sdist"), tools)


def held(path: Path) -> set[str]:
    with ZipFile(path) as archive:
        return set(archive.namelist())


def sources() -> set[str]:
    """Every file of the package as a wheel names it."""
    folder = ROOT / "src"
    files = (p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())
    return {name for name in files if "__pycache__" not in name}


def test_the_wheel_holds_the_package_and_nothing_else(wheel):
    assert wheel.name == f"{NAME}-py3-none-any.whl"
    about = {f"{NAME}.dist-info/{f}" for f in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
    assert held(wheel) == sources() | about
    assert {"noumena/py.typed", "noumena/report/templates/page.html", "noumena/report/templates/style.css"} <= sources()
    assert {Path(name).suffix for name in sources()} == {".py", ".typed", ".html", ".css", ".js"}
    assert wheel.stat().st_size < 2 * 2**20


def test_the_wheel_says_what_the_project_file_says(wheel):
    with ZipFile(wheel) as archive:
        about = HeaderParser().parsestr(archive.read(f"{NAME}.dist-info/METADATA").decode())
        commands = archive.read(f"{NAME}.dist-info/entry_points.txt").decode()
        licence = archive.read(f"{NAME}.dist-info/licenses/LICENSE").decode()
    assert (about["Name"], about["Version"]) == ("noumena", PROJECT["version"])
    assert about["Requires-Python"] == PROJECT["requires-python"]
    assert about["License-Expression"] == "Apache-2.0"
    assert licence == (ROOT / "LICENSE").read_text()
    assert "noumena = noumena.cli:main" in commands
    asked: dict[str, set[str]] = {}
    for line in about.get_all("Requires-Dist", []):
        name, extra = versions.parsed(line)
        asked.setdefault(extra, set()).add(name)
    wanted = {"": PROJECT["dependencies"], **PROJECT["optional-dependencies"]}
    assert asked == {extra: {versions.parsed(line)[0] for line in lines} for extra, lines in wanted.items()}


def test_the_sdist_builds_the_same_wheel(wheel, sdist, tools, tmp_path):
    with tarfile.open(sdist) as archive:
        archive.extractall(tmp_path / "sources", filter="data")
    unpacked = tmp_path / "sources" / NAME
    again = build(unpacked, "wheel", tmp_path / "again", tools)
    assert held(again) == held(wheel)


def test_the_sdist_holds_sources_tests_and_examples_and_no_results(sdist):
    with tarfile.open(sdist) as archive:
        names = [name.removeprefix(f"{NAME}/") for name in archive.getnames()]
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml", "src/noumena/py.typed"} <= set(names)
    assert {"src", "tests", "examples"} <= {name.partition("/")[0] for name in names}
    assert [name for name in names if name.startswith(("results", "runs", ".venv", "site")) or ".pyc" in name] == []
    assert sdist.stat().st_size < 4 * 2**20


@pytest.fixture
def shown(monkeypatch, capsys) -> list[str]:
    """What ``noumena --version`` prints, by line."""
    monkeypatch.setattr(sys, "argv", ["noumena", "--version"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    return capsys.readouterr().out.splitlines()


def test_version_prints_what_a_bug_report_needs(shown):
    assert shown[0] == f"noumena {PROJECT['version']}"
    assert shown[1].startswith(f"Python {sys.version.split()[0]} on ")
    for name in ("torch", "numpy", "scipy", "scikit-learn"):
        assert f"{name} {metadata.version(name)}" in shown
    assert f"[flows] zuko {metadata.version('zuko')}" in shown
    assert f"[dask] dask {metadata.version('dask')}, distributed {metadata.version('distributed')}" in shown
    assert [line for line in shown if line.startswith("[dev]") or "pytest" in line] == []


def test_an_extra_that_is_missing_is_said(monkeypatch):
    installed = metadata.version

    def without_zuko(name: str) -> str:
        if name == "zuko":
            raise metadata.PackageNotFoundError(name)
        return installed(name)

    monkeypatch.setattr(metadata, "version", without_zuko)
    assert "[flows] zuko not installed" in versions.versions().splitlines()


def test_version_answers_from_a_folder_of_sources_too(monkeypatch):
    def unknown(name: str) -> list[str]:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(metadata, "requires", unknown)
    assert versions.versions().splitlines()[0] == f"noumena {PROJECT['version']}"
    assert len(versions.versions().splitlines()) == 2


def test_version_does_not_import_torch():
    code = "import sys; from noumena.cli.versions import versions; versions(); print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "False\n"


def test_what_installs_is_pinned():
    pins = {line.partition("==")[0].lower() for line in (ROOT / "constraints.txt").read_text().splitlines()}
    wanted = [*PROJECT["dependencies"], *(r for rs in PROJECT["optional-dependencies"].values() for r in rs)]
    assert {name for name in (versions.parsed(line)[0].lower() for line in wanted) if name not in pins} == set()
