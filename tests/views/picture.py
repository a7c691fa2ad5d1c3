"""Takes the README's picture: the page of `whence report` for all-MiniLM-L6-v2, exported by PyTorch and annotated by
whence. Run it by hand when the page changes: `PYTHONPATH=tests:python python tests/views/picture.py docs/report.webp`.
"""

import base64
import subprocess
import sys
import tempfile
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import command
from views import browser

sys.path.insert(0, str(command.ROOT / "samples" / "minilm"))

NODE = "/encoder/layer.3/attention/self/query/MatMul"
WIDTH, HEIGHT = 1280, 720


def page_of_minilm(folder: Path) -> Path:
    import minilm
    import whence

    model = minilm.load_model()
    ids = torch.randint(1000, 20000, (2, 24))
    with whence.record(folder / "minilm.whence.json"):
        torch.onnx.export(model, (ids, torch.ones_like(ids)), folder / "minilm.onnx", dynamo=True, verbose=False)
    whence.annotate(folder / "minilm.onnx", folder / "minilm.whence.json")
    command.run("report", folder / "minilm.onnx", "--sidecar", folder / "minilm.whence.json", "-o", folder / "minilm.html")
    return folder / "minilm.html"


def take(page: Path, node: str, picture: Path, folder: Path) -> None:
    """Opens the page, selects a node and takes a picture of the window."""
    window = browser.Browser(folder)
    try:
        window.resize(WIDTH, HEIGHT)
        window.open(page)
        window.type("#search", node + browser.KEYS["Enter"])
        window.run("document.getElementById('search').blur();")
        shot = window.call("POST", "/goog/cdp/execute", {"cmd": "Page.captureScreenshot", "params": {
            "format": "webp", "quality": 80, "clip": {"x": 0, "y": 0, "width": WIDTH, "height": HEIGHT, "scale": 1}}})
        picture.write_bytes(base64.b64decode(shot["data"]))
    finally:
        window.close()


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        take(page_of_minilm(Path(folder)), NODE, Path(sys.argv[1]), Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
