"""Measures how long the page of `whence report` takes to open in Chromium, for models of several sizes.

    python tests/bench/page_opening.py [--runs 3] [10000 100000 1000000]

Prints the milliseconds from the start of loading until the page reports that it is ready (best of the runs), and the
time of selecting a node. The models are large_model.py's. Exits with 1 if a page takes more than 3 s.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import large_model

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import command
from views.browser import Browser

LIMIT = 3000  # ms


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--page", type=Path, help="use this existing page instead")
    parser.add_argument("nodes", type=int, nargs="*", default=[10_000, 100_000])
    options = parser.parse_args()
    exceeded = False
    print(f"{'nodes':>9} {'MB':>7} {'opens ms':>9} {'a node ms':>9}", flush=True)
    for nodes in [0] if options.page else options.nodes:
        with tempfile.TemporaryDirectory(prefix="whence-page-") as name:
            folder = Path(name)
            page = options.page or folder / "report.html"
            if not options.page:
                model = folder / "model.onnx"
                large_model.write_model(model, max(nodes // large_model.NODES_PER_BLOCK, 1), annotated=True)
                command.run("report", model, "-o", page)
            window = Browser(folder)
            opened = []
            for _ in range(options.runs):
                window.open(page)
                opened.append(int(window.wait("document.documentElement.dataset.ready")))
            chosen = window.run("const start = performance.now(); chooseNode(Math.floor(nodeCount / 2));"
                                "document.body.getBoundingClientRect(); return performance.now() - start;")
            count = window.run("return nodeCount;")
            complaints = window.complaints()
            window.close()
            if complaints:
                raise RuntimeError(f"the page complains: {complaints}")
            exceeded |= min(opened) > LIMIT
            print(f"{count:>9} {page.stat().st_size / 1e6:>7.1f} {min(opened):>9} {chosen:>9.0f}", flush=True)
    return int(exceeded)


if __name__ == "__main__":
    sys.exit(main())
