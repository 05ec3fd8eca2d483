"""A stranger's first hour: the commands of docs/first-hour.md are run, and print what the page shows."""

import difflib
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "first-hour.md"
ANYTHING = "…"
CLOSE = 0.05
DECIMAL = r"[-−]?\d+\.\d+"


def blocks(language: str, text: str | None = None) -> list[str]:
    page = PAGE.read_text() if text is None else text
    return re.findall(rf"^```{language}\n(.*?)^```$", page, flags=re.DOTALL | re.MULTILINE)


def programs() -> dict[str, str]:
    """The programs of the page by the name it gives them."""
    found = re.findall(r"[Ss]ave (?:it )?as `([\w.]+)`:\n\n```python\n(.*?)^```$", PAGE.read_text(), re.DOTALL | re.M)
    return dict(found)


def steps(section: str | None = None) -> list[tuple[str, str]]:
    """Commands of a section or of the whole page, and what it says they print."""
    shown = blocks("console", section)
    parts = [part for block in shown for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]]
    return [(command, shown) for command, _, shown in (part.partition("\n") for part in parts)]


def pattern(shown: str) -> str:
    """What is shown as a regular expression: decimals are groups, … is anything on its line, alone any lines."""
    lines = []
    for line in shown.splitlines(keepends=True):
        if line.strip() == ANYTHING:
            lines.append("(?:.*\n)*?")
            continue
        parts = re.split(rf"({DECIMAL}|{ANYTHING})", line)
        known = {ANYTHING: ".*"}
        lines += [re.escape(p) if k % 2 == 0 else known.get(p, f"({DECIMAL})") for k, p in enumerate(parts)]
    return "".join(lines)


def same(shown: str, printed: str) -> bool:
    """Whether what was printed is what is shown, up to what the page says may differ."""
    found = re.fullmatch(pattern(shown), printed)
    if found is None:
        return False
    given, got = (
        [float(n.replace("−", "-")) for n in ns] for ns in (re.findall(DECIMAL, shown), map(str, found.groups()))
    )
    return all(abs(a - b) <= CLOSE + 1e-9 for a, b in zip(given, got, strict=True))


def walk(folder: Path, programs_at: Path) -> dict[str, tuple[int, str]]:
    """Run every step of the page in a folder, sections after the second two at a time: exit codes and what was said."""
    clean = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    clean |= {"PATH": f"{programs_at}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1", "LC_ALL": "C.UTF-8"}
    for name, text in programs().items():
        (folder / name).write_text(text)

    def section(text: str) -> dict[str, tuple[int, str]]:
        found = {}
        for command, _ in steps(text):
            done = subprocess.run(
                ["bash", "-c", command], cwd=folder, env=clean, text=True, timeout=300,
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
            found[command] = done.returncode, done.stdout
        return found

    opening, install, inputs, *others = PAGE.read_text().split("\n## ")
    found = section(opening + install) | section(inputs)
    with ThreadPoolExecutor(2) as pool:
        for part in pool.map(section, others):
            found |= part
    return found


def refused(shown: str) -> bool:
    """Whether the last line shown is the sentence of a refusal."""
    return shown.rstrip("\n").rpartition("\n")[2].startswith("noumena: ")


def wrong(shown: str, code: int, printed: str) -> str:
    """What is not as the page says, or nothing."""
    if same(shown, printed) and code == (2 if refused(shown) else 0):
        return ""
    lines = difflib.unified_diff(shown.splitlines(), printed.splitlines(), "the page", "the machine", lineterm="")
    return "\n".join([f"exit code {code}", *lines])


@pytest.fixture(scope="module")
def hour(tmp_path_factory) -> dict[str, tuple[int, str]]:
    return walk(tmp_path_factory.mktemp("hour"), Path(sys.executable).parent)


@pytest.mark.slow
@pytest.mark.parametrize(("command", "shown"), steps(), ids=[command for command, _ in steps()])
def test_a_command_of_the_hour_prints_what_the_page_shows(hour, command, shown):
    assert wrong(shown, *hour[command]) == ""


def test_the_hour_is_whole():
    assert len(steps()) == len(dict(steps()))
    assert set(programs()) == {"make_inputs.py", "own_decoder.py"}
    commands = "\n".join(command for command, _ in steps())
    promised = ["--version", "clinic.csv", "--impute", "--drop-constant", "pictures --image", "python own_decoder.py"]
    promised += ["cells.h5ad --batch", "audit first.npy second.npy third.npy", "certify sensors.csv --query"]
    assert [word for word in promised if word not in commands] == []
    assert sum(refused(shown) for _, shown in steps()) >= 7


@pytest.mark.parametrize(
    ("shown", "printed", "agree"),
    [
        ("R² 0.93 of 3\n", "R² 0.97 of 3\n", True),
        ("R² 0.93 of 3\n", "R² 0.99 of 3\n", False),
        ("R² 0.93 of 3\n", "R² 0.93 of 4\n", False),
        ("gap −0.02\n", "gap 0.02\n", True),
        ("gap −0.04\n", "gap 0.04\n", False),
        ("torch …\nend\n", "torch 2.13.0+cpu\nend\n", True),
        ("torch …\nend\n", "torch 2.13.0+cpu\nmore\nend\n", False),
        ("a\n…\nend\n", "a\nb\nc\nend\n", True),
        ("a\n…\nend\n", "a\nb\nc\n", False),
        ("a.b\n", "axb\n", False),
        ("", "a\n", False),
    ],
)
def test_outputs_are_compared_as_the_page_says(shown, printed, agree):
    assert same(shown, printed) is agree


def test_a_wrong_exit_code_is_seen():
    assert wrong("noumena: No.\n", 2, "noumena: No.\n") == ""
    assert wrong("noumena: No.\n", 0, "noumena: No.\n").startswith("exit code 0")
    assert wrong("done\n", 2, "done\n").startswith("exit code 2")


@pytest.mark.slow
def test_the_whole_hour_works_in_a_clean_environment(tmp_path):
    """Installed by the page's own commands, without the developers' tools: minutes, and a gigabyte."""
    (install,) = blocks("bash")
    there = os.environ | {"NOUMENA": str(ROOT)}
    done = subprocess.run(
        ["bash", "-ec", install], cwd=tmp_path, env=there, capture_output=True, text=True, timeout=1800
    )
    assert done.returncode == 0, done.stderr
    (tmp_path / "hour").mkdir()
    found = walk(tmp_path / "hour", tmp_path / "environment" / "bin")
    told = dict(steps())
    assert {c: w for c, (code, printed) in found.items() if (w := wrong(told[c], code, printed))} == {}
