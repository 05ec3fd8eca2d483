"""A headless browser with one tab, and the page of a certificate open in it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import noumena as nm
from noumena.report import Chapter, Page, write
from noumena.report.certificates import (
    atoms_figure,
    certificate_tables,
    graph_figure,
    order_figure,
    queries_table,
    structure_figure,
    verdict_of,
)
from noumena.report.explorer import explorer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-extensions",
    "--hide-scrollbars",
    "--proxy-server=http://127.0.0.1:9",
    "--proxy-bypass-list=<-loopback>",
]
PATIENCE = 60.0


class Browser:
    """One tab of a headless browser, driven by the DevTools protocol through a pair of pipes."""

    def __init__(self, profile: Path):
        read, to_browser = os.pipe()
        from_browser, written = os.pipe()
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 20) for fd in (read, written)]

        def hand_over() -> None:
            os.dup2(high[0], 3)
            os.dup2(high[1], 4)

        command = [str(CHROMIUM), *FLAGS, f"--user-data-dir={profile}", "about:blank"]
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(command, preexec_fn=hand_over, pass_fds=(3, 4), stdout=quiet, stderr=quiet)
        for fd in (read, written, *high):
            os.close(fd)
        self.to_browser, self.from_browser = to_browser, from_browser
        self.pending, self.number, self.session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        message |= {"sessionId": self.session} if self.session else {}
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self.to_browser, data) :]
        while (reply := self.read()).get("id") != self.number:
            self.events.append(reply)
        assert "error" not in reply, reply["error"]
        return reply["result"]

    def read(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self.pending:
            ready, _, _ = select.select([self.from_browser], [], [], max(0.0, until - time.monotonic()))
            assert ready, "the browser did not answer in time"
            more = os.read(self.from_browser, 2**16)
            assert more, "the browser closed its pipe"
            self.pending += more
        message, self.pending = self.pending.split(b"\0", 1)
        return json.loads(message)

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of a kind, of those that came since the last ``open``."""
        while True:
            found = next((event for event in self.events if event["method"] == method), None)
            if found is not None:
                return found["params"]
            self.events.append(self.read())

    def open(self, path: Path) -> None:
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        self.wait("Page.loadEventFired")

    def run(self, script: str, *values: Any) -> Any:
        """What a function of the test returns, run in the page with some values."""
        call = f"({script})(...{json.dumps(values)})"
        reply = self.call("Runtime.evaluate", expression=call, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in reply, reply["exceptionDetails"]
        return reply["result"].get("value")

    def press(self, key: str, text: str = "") -> None:
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, text=text if kind == "keyDown" else "")

    def size(self, width: int, height: int, *, dark: bool = False, touch: bool = False) -> None:
        shape = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": touch}
        self.call("Emulation.setDeviceMetricsOverride", **shape)
        self.call("Emulation.setTouchEmulationEnabled", enabled=touch)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def complaints(self) -> list[str]:
        """Whatever the console has been told since the page was opened."""
        self.run("() => new Promise((done) => setTimeout(done, 50))")
        kinds = ("Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded")
        return [json.dumps(event["params"]) for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Addresses asked for since the page was opened, but for what is inside the page."""
        sent = [e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith(("data:", "blob:"))]

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.session = ""
            os.write(self.to_browser, b'{"id":0,"method":"Browser.close"}\0')
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.to_browser)
        os.close(self.from_browser)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    found = Browser(tmp_path_factory.mktemp("profile"))
    yield found
    found.close()


@pytest.fixture
def tab(browser: Browser) -> Browser:
    browser.size(1200, 900)
    return browser


SHEARED = nm.Structure(
    [[1, 1, 0], [0, 1, 0], [0, 1, 1], [1, 1, 0]],
    observed=["pulse", "voice", "the gait", "sleep"],
    latent=["age", "mood", "fitness"],
)


def chapter_of(certificate: nm.Certificate, *asked: str) -> Chapter:
    """The chapter of a certificate but for the picture of a competitor, which takes its time."""
    drawn = (structure_figure, graph_figure, order_figure, atoms_figure)
    return Chapter(
        "Certificate",
        "",
        verdict_of(certificate),
        figures=tuple(draw(certificate) for draw in drawn),
        tables=(queries_table({text: certificate.query(text) for text in asked}), *certificate_tables(certificate)),
        details=str(certificate),
        explorer=explorer(certificate),
    )


def shown(tab: Browser, part: str = ".told") -> dict[str, str]:
    """The lines of a panel, by their names."""
    script = """(part) => Object.fromEntries([...document.querySelectorAll(`.explorer ${part} dd`)].map(
      (e) => [e.className, [...e.querySelectorAll(".name")].map((n) => n.textContent).join(", ") || e.textContent]))"""
    return tab.run(script, part)


@pytest.fixture
def page(tab: Browser, tmp_path: Path) -> nm.Certificate:
    certificate = nm.certify(SHEARED)
    chapters = (chapter_of(certificate, "pulse - voice"),)
    tab.open(write(Page("What can be trusted", "", chapters=chapters), tmp_path / "report.html"))
    return certificate
