"""Annotates a fleet of ONNX files in parallel and can be continued: fleet.py DIRECTORY|LIST --out FOLDER --log FILE"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

WHENCE = os.environ.get("WHENCE", "whence")


# ---- one file -------------------------------------------------------------------------------------------------------

def whence(*arguments: object) -> dict:
    """The JSON object of a subcommand; a RuntimeError with code, message and remedy when it fails."""
    result = subprocess.run([WHENCE, *map(str, arguments), "--json"], capture_output=True, text=True, check=False,
                            stdin=subprocess.DEVNULL)
    try:
        report = json.loads(result.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"exit code {result.returncode}: {result.stderr.strip()[-500:]}") from None
    if result.returncode not in (0, 1):  # 1: findings of validate
        found = report["diagnostics"][0]
        raise RuntimeError(f"{found['code']} {found['message']}; try: {found['remedy']}")
    return report


def annotate(task: dict) -> dict:
    """Annotates one file and returns its line for the log. Never raises: a file that fails must not stop the others."""
    began = time.monotonic()
    source, output = Path(task["file"]), Path(task["output"])
    line = {**task, "ok": False}
    try:
        line["stamp"] = stamp(source)
        output.parent.mkdir(parents=True, exist_ok=True)
        record = source.with_suffix(".whence.json")
        whence("annotate", source, "-o", output, *(["--sidecar", record] if record.exists() else []),
               *(["--overwrite"] if task["again"] else []))
        coverage = whence("validate", output)["coverage"]
        line.update(ok=True, nodes=coverage["nodes"], covered=coverage["covered"])
    except (OSError, RuntimeError) as error:
        line["error"] = str(error)
    line["seconds"] = round(time.monotonic() - began, 3)
    return line


def stamp(path: Path) -> list[int]:
    """Tells whether a file changed since: its size, and when it was written, in nanoseconds."""
    state = path.stat()
    return [state.st_size, state.st_mtime_ns]


# ---- the fleet ------------------------------------------------------------------------------------------------------

def files_of(fleet: Path) -> tuple[Path, list[Path]]:
    """(the folder that outputs are named relative to, the files), of a directory or a list with a path a line."""
    if fleet.is_dir():
        return fleet, sorted(fleet.rglob("*.onnx"))
    lines = [line.strip() for line in fleet.read_text().splitlines()]
    files = [fleet.parent / line for line in lines if line and not line.startswith("#")]
    return Path(os.path.commonpath([path.parent.absolute() for path in files] or ["/"])), files


def tasks_of(fleet: Path, out: Path) -> list[dict]:
    root, files = files_of(fleet)
    root = root.absolute()
    if out.resolve() == root.resolve():
        sys.exit(f"{out} holds the fleet's own files: name another folder with --out")
    return [{"file": str(path), "output": str(out / Path(os.path.normpath(path.absolute())).relative_to(root))}
            for path in dict.fromkeys(files) if out.absolute() not in path.absolute().parents]


def lines_of(log: Path) -> Iterator[dict]:
    """A line that a kill cut off is not a line."""
    for text in log.read_text().splitlines() if log.exists() else []:
        try:
            yield json.loads(text)
        except json.JSONDecodeError:
            continue


def finished(log: Path) -> dict[str, dict]:
    """The last line of each file that says ok."""
    last = {line["file"]: line for line in lines_of(log)}
    return {file: line for file, line in last.items() if line["ok"]}


def is_done(task: dict, done: dict[str, dict]) -> bool:
    line = done.get(task["file"])
    source, output = Path(task["file"]), Path(task["output"])
    return bool(line and line["output"] == task["output"] and source.exists() and output.exists()
                and line["stamp"] == stamp(source))


# ---- engines: tasks in, lines out, in the order in which they are done ----------------------------------------------

def on_processes(tasks: list[dict], jobs: int) -> Iterator[dict]:
    with ProcessPoolExecutor(jobs) as pool:
        futures = {pool.submit(annotate, task): task for task in tasks}
        for future in as_completed(futures):
            try:
                yield future.result()
            except BrokenProcessPool:  # a worker was killed, for want of memory for example
                yield {**futures[future], "ok": False, "error": "the worker process died", "seconds": 0}


def on_ray(tasks: list[dict], jobs: int) -> Iterator[dict]:
    import ray

    if "RAY_ADDRESS" in os.environ:
        ray.init(log_to_driver=False)
    else:
        ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False, configure_logging=False)
    remote = ray.remote(num_cpus=1)(annotate)
    waiting = {remote.remote(task): task for task in tasks}
    while waiting:
        (ready, *_), _ = ray.wait(list(waiting), num_returns=1)
        task = waiting.pop(ready)
        try:
            yield ray.get(ready)
        except ray.exceptions.RayError as error:
            yield {**task, "ok": False, "error": f"Ray: {type(error).__name__}", "seconds": 0}
    ray.shutdown()


ENGINES = {"processes": on_processes, "ray": on_ray}


def end_of_log(log: Path) -> None:
    """Ends a line that a kill cut off, so that the next one stands alone."""
    if log.exists() and log.stat().st_size > 0 and not log.read_bytes().endswith(b"\n"):
        with log.open("a") as file:
            file.write("\n")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("fleet", type=Path, help="a directory, or a text file with a path a line")
    parser.add_argument("--out", type=Path, required=True, help="folder for the annotated files")
    parser.add_argument("--log", type=Path, required=True, help="JSON lines; a run that finds it continues it")
    parser.add_argument("--engine", choices=ENGINES, default="processes")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()

    tasks, done = tasks_of(options.fleet, options.out), finished(options.log)
    ours = {line["output"] for line in lines_of(options.log) if line["ok"]}  # from former runs: may be replaced
    left = [{**task, "again": task["output"] in ours} for task in tasks if not is_done(task, done)]
    options.log.parent.mkdir(parents=True, exist_ok=True)
    end_of_log(options.log)
    failed = 0
    with options.log.open("a") as log:
        for line in ENGINES[options.engine](left, max(1, options.jobs)) if left else ():
            failed += not line["ok"]
            log.write(json.dumps(line) + "\n")
            log.flush()
            if not line["ok"]:
                print(f"failed: {line['file']}: {line['error']}", file=sys.stderr)
    print(f"{len(tasks)} files: {len(tasks) - len(left)} were done, {len(left) - failed} annotated, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
