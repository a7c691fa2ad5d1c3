"""Measures the cost of recording: the time of a trace during a recording relative to a plain trace. One ratio excludes
the start and stop of the recording, which digest every weight and write the sidecar; the other includes them. Prints
ratios of medians of interleaved measurements.

    WHENCE=build/bin/whence python tests/bench/live_overhead.py [rounds]
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from live_python.live import PLUGIN  # noqa: E402
from models import zoo  # noqa: E402


def trace_time(model, inputs) -> float:
    begin = time.perf_counter()
    zoo.trace_module(model, inputs)
    return time.perf_counter() - begin


def main() -> None:
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    torch.ops.load_library(str(PLUGIN))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("bert_tiny", "resnet50", "gpt2"):
            entry = zoo.MODELS[name]
            model, inputs = entry.model(), entry.inputs(entry.first)
            trace_time(model, inputs)
            plain, recorded, complete = [], [], []
            for _ in range(rounds):
                plain.append(trace_time(model, inputs))
                begin = time.perf_counter()
                torch.ops.whence.start(f"{folder}/m.whence.json")
                recorded.append(trace_time(model, inputs))
                torch.ops.whence.stop()
                complete.append(time.perf_counter() - begin)
            plain_time, tracing, total = map(statistics.median, (plain, recorded, complete))
            print(f"{name}: {plain_time * 1e3:.0f} ms without; {tracing * 1e3:.0f} ms while recording, ratio "
                  f"{tracing / plain_time:.2f}; {total * 1e3:.0f} ms with start and stop, ratio "
                  f"{total / plain_time:.2f}")


if __name__ == "__main__":
    main()
