"""Rewrites known_failures.py, the list of tested programs that fail with the command of this tree (or $WHENCE).

    python tests/random/list_known_failures.py --jobs 2
    python tests/random/list_known_failures.py --route script     # keeps the entries of the other routes

The list should only shrink; check every new entry.
"""

import argparse
import json
import multiprocessing
import sys
import tempfile
from pathlib import Path

import run_random
from export_routes import ROUTES
from found_programs import FOUND
from known_failures import FAILING_FOUND, FAILING_SEEDS
from run_random import BLOCK, QUICK_COUNTS, MEMORY, begin_process, run_block, matrix_seeds
from verdicts import judge

FILE = Path(__file__).with_name("known_failures.py")
HEADER = '''"""Known failures by route: seeds of the tests, and programs of found_programs.py, each with its verdict.
list_known_failures.py writes this file. The tests require that these programs still fail.
"""
'''


def summary(verdict) -> str:
    return f"{verdict.word}, {verdict.reason}"


def failing_found(route: str) -> dict[str, str]:
    found = {}
    for each in FOUND:
        if route in each.routes:
            verdict = judge(each.program(), route, run_random.folder)
            if verdict is None or verdict.failed:
                found[each.name] = summary(verdict) if verdict else "PyTorch refuses it"
    return found


def as_text(name: str, kind: str, failures: dict[str, dict]) -> str:
    lines = [f"{name}: dict[str, dict[{kind}, str]] = {{"]
    for route, found in failures.items():
        lines.append(f'    "{route}": {{' + ("" if found else "},"))
        lines += [f"        {json.dumps(key)}: {json.dumps(verdict)}," for key, verdict in sorted(found.items())]
        lines += ["    },"] if found else []
    return "\n".join([*lines, "}"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--route", choices=[*ROUTES], action="append", help="only this route; may be repeated")
    parser.add_argument("--few", action="store_true", help="only the seeds of `make test`, not those of the matrix")
    options = parser.parse_args()
    seeds, programs = dict(FAILING_SEEDS), dict(FAILING_FOUND)
    with tempfile.TemporaryDirectory(prefix="whence-random-", dir=MEMORY if MEMORY.is_dir() else None) as parent, \
            multiprocessing.get_context("spawn").Pool(options.jobs, begin_process, (parent,)) as pool:
        for route in options.route or ROUTES:
            stop = QUICK_COUNTS[route] if options.few else matrix_seeds(route).stop
            tasks = [(route, range(at, min(at + BLOCK, stop)), False) for at in range(0, stop, BLOCK)]
            seeds[route] = {each.seed: summary(each.verdict) for _, _, found in pool.imap_unordered(run_block, tasks)
                            for each in found}
            programs[route] = pool.apply(failing_found, (route,))
            FILE.write_text(HEADER + "\n" + as_text("FAILING_SEEDS", "int", seeds) + "\n\n"
                            + as_text("FAILING_FOUND", "str", programs) + "\n")
            print(f"{route}: {len(seeds[route])} seeds of {stop}, {len(programs[route])} programs", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
