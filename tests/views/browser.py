"""Drives headless Chromium through chromedriver (W3C WebDriver): opens files, runs scripts, types and clicks."""

import base64
import json
import shutil
import socket
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the standard's key for the id of an element
KEYS = {"Enter": "\ue007", "ArrowUp": "\ue013", "ArrowDown": "\ue015", "ArrowLeft": "\ue012", "ArrowRight": "\ue014",
        "Home": "\ue011", "End": "\ue010", "Escape": "\ue00c", "Tab": "\ue004"}


def missing() -> str | None:
    """Returns the reason for pytest's skip if there is no browser, else None."""
    absent = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"no {' and no '.join(absent)} here: tools/setup/packages.sh installs them" if absent else None


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Browser:
    def __init__(self, folder: Path, dark: bool = False):
        self.port = free_port()
        self.driver = subprocess.Popen(["chromedriver", f"--port={self.port}"], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.DEVNULL)
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                     "--window-size=1500,950",
                     f"--user-data-dir={folder / 'chromium'}"]
        if dark:
            arguments.append("--blink-settings=preferredColorScheme=0")
        options = {"browserName": "chrome", "goog:chromeOptions": {"args": arguments},
                   "goog:loggingPrefs": {"browser": "ALL"}}
        self.session = ""
        for _ in range(200):
            try:
                created = self.call("POST", "/session", {"capabilities": {"alwaysMatch": options}})
                break
            except (ConnectionError, urllib.error.URLError) as error:
                if isinstance(error, urllib.error.HTTPError):
                    raise RuntimeError(error.read().decode()) from error
                time.sleep(0.1)
        self.session = "/session/" + created["sessionId"]

    def call(self, method: str, path: str, body: dict | None = None):
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{self.session}{path}", data, method=method,
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def open(self, path: Path) -> None:
        self.go(Path(path).resolve().as_uri())

    def go(self, address: str) -> None:
        for attempt in range(50):  # a server may not be up yet
            try:
                self.call("POST", "/url", {"url": address})
                return
            except urllib.error.HTTPError:
                if attempt == 49:
                    raise
                time.sleep(0.2)

    def run(self, script: str, *arguments):
        return self.call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, seconds: float = 10):
        """Waits until an expression is true, and returns its value."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = self.run(f"return {script};")
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError(f"never true: {script}")

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((each) => each.textContent);",
                        selector)

    def element(self, selector: str) -> str:
        return self.call("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector: str) -> None:
        self.call("POST", f"/element/{self.element(selector)}/click", {})

    def type(self, selector: str, text: str) -> None:
        self.call("POST", f"/element/{self.element(selector)}/value", {"text": text})

    def press(self, *keys: str) -> None:
        """Sends keys to the focused element, one after another."""
        actions = [{"type": kind, "value": KEYS.get(key, key)} for key in keys for kind in ("keyDown", "keyUp")]
        self.call("POST", "/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    def drag(self, selector: str, down: int) -> None:
        origin = {ELEMENT: self.element(selector)}
        steps = [{"type": "pointerMove", "duration": 0, "origin": origin, "x": 0, "y": 0},
                 {"type": "pointerDown", "button": 0},
                 {"type": "pointerMove", "duration": 50, "origin": "pointer", "x": 0, "y": down},
                 {"type": "pointerUp", "button": 0}]
        self.call("POST", "/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]})

    def resize(self, width: int | None = None, height: int = 900) -> None:
        """Sets the size of the page, which may be narrower than a window. Without a width, restores the size."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        command, parameters = ("clearDeviceMetricsOverride", {}) if width is None else ("setDeviceMetricsOverride", size)
        self.call("POST", "/goog/cdp/execute", {"cmd": f"Emulation.{command}", "params": parameters})

    def complaints(self) -> list[str]:
        """Returns the page's console messages: script errors, and requests that its policy blocked."""
        return [entry["message"] for entry in self.call("POST", "/se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self.call("GET", "/screenshot")))

    def close(self) -> None:
        try:
            self.call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait()
