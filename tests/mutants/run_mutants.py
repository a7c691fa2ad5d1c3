"""Measures which mutants of mutants.txt the tests detect: first the C++ tests, then pytest on the room's files.

    PYTHONPATH=tests build/venv/bin/python -m mutants.run_mutants [--jobs N] [--unit] [--pytest] [--only NUMBER...]

Works in build/mutants, a copy of the tree. Results are stored in build/results.json there, and a run continues the last
one.
"""

import argparse
import functools
import json
import os
import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path

import command
from mutants.planting import LIST, Mutant, plant, read_list

TREE = command.ROOT / "build" / "mutants"
RESULTS = TREE / "build" / "results.json"
UNIT_SECONDS, PYTEST_SECONDS = 60, 60
MEMORY = Path("/dev/shm")
# Test files of a room, most likely first; each has PYTEST_SECONDS.
FILES = json.loads(Path(__file__).with_name("test_files.json").read_text())


def cache_options() -> list[str]:
    """Returns the CMake options of the tree's build."""
    cache = (command.ROOT / "build" / "CMakeCache.txt").read_text()
    return [f"-D{name}={value}" for name, value in re.findall(r"^(WHENCE_\w+|ONNX_ROOT|CMAKE_BUILD_TYPE):\w+=(.*)$", cache,
                                                              re.MULTILINE)]


def build(jobs: int) -> None:
    """Compiles the copy, with the Python environment of the tree."""
    cmake = str(command.ROOT / "build" / "venv" / "bin" / "cmake")
    (TREE / "build").mkdir(parents=True, exist_ok=True)
    if not (TREE / "build" / "venv").exists():
        (TREE / "build" / "venv").symlink_to(command.ROOT / "build" / "venv")
    subprocess.run([cmake, "-S", TREE, "-B", TREE / "build", "-G", "Ninja", *cache_options()], check=True,
                   stdout=subprocess.DEVNULL)
    subprocess.run([cmake, "--build", TREE / "build", f"-j{jobs}"], check=True)


def run(arguments: list, number: int, seconds: int) -> tuple[bool, str]:
    """Returns whether the program failed, and its output, or "timeout" as the output if it was stopped."""
    environment = {**os.environ, "WHENCE_MUTANT": str(number), "PYTHONPATH": str(TREE / "tests"),
                   "WHENCE": str(TREE / "build" / "bin" / "whence")}
    if MEMORY.is_dir():
        environment["TMPDIR"] = str(MEMORY)
    process = subprocess.Popen(arguments, cwd=TREE, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               text=True, errors="replace", start_new_session=True)
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode not in (0, 4, 5), output  # 4, 5: pytest ran no test
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.communicate()
        return False, "timeout"


def detected_by_units(number: int) -> list[str]:
    """Returns the first failing test of each program, or how the program ended."""
    found = []
    for program in sorted((TREE / "build" / "bin").glob("*_tests")):
        failed, output = run([program, "--gtest_brief=1"], number, UNIT_SECONDS)
        if failed or output == "timeout":
            test = re.search(r"\[  FAILED  \] ([\w/.]+)", output)
            found.append(f"{program.name}: {test[1] if test else output.strip().splitlines()[-1][:100] if output else 'crashed'}")
    return found


@functools.cache
def first_failure(words: str, number: int) -> str:
    """Returns the first test that fails with a mutant, or an empty string. Number 0 means no mutant."""
    failed, output = run([TREE / "build" / "venv" / "bin" / "python", "-m", "pytest", *words.split(), "-x", "-q", "-rfE", "-n0",
                          "-p", "no:cacheprovider"], number, PYTEST_SECONDS)
    if not failed:
        return ""
    test = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return test[1] if test else words


def detected_by_pytest(mutant: Mutant, files: list[str]) -> str:
    """Returns the first failing test. Ignores files that also fail without a mutant."""
    for file in files:
        words = f"tests/{file}".format(file=Path(mutant.file).stem)
        test = first_failure(words, mutant.number)
        if test and not first_failure(words, 0):
            return test
    return ""


def table(mutants: list[Mutant], results: dict) -> str:
    rows = Counter(), Counter(), Counter(), Counter()
    for mutant in mutants:
        result = results.get(mutant.text, {})
        by_units, by_pytest = bool(result.get("units")), bool(result.get("pytest"))
        for counter, value in zip(rows, (True, by_units, by_units or by_pytest, by_units or "pytest" in result), strict=True):
            counter[mutant.room] += value
    lines = ["| room | mutants | detected by C++ tests | by any test | detected or run by pytest |",
             "|---|--:|--:|--:|--:|"]
    lines += [f"| {room} | {' | '.join(str(row[room]) for row in rows)} |" for room in sorted(rows[0])]
    lines.append(f"| all | {' | '.join(str(row.total()) for row in rows)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--unit", action="store_true", help="rerun the C++ tests")
    parser.add_argument("--pytest", action="store_true", help="then run pytest on the mutants that they miss")
    parser.add_argument("--only", type=int, nargs="*", help="numbers of mutants")
    options = parser.parse_args()
    mutants = read_list(LIST.read_text())
    plant(mutants, TREE)
    build(options.jobs)
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if broken := detected_by_units(0):
        raise SystemExit(f"the C++ tests fail without a mutant: {broken}")
    for mutant in mutants:
        if options.only and mutant.number not in options.only:
            continue
        result = results.setdefault(mutant.text, {})
        if options.unit or "units" not in result:
            result["units"] = detected_by_units(mutant.number)
        if options.pytest and not result["units"] and "pytest" not in result:
            result["pytest"] = detected_by_pytest(mutant, FILES.get(mutant.room, []))
        RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False))
        detected_by = "; ".join(result["units"]) or result.get("pytest") or "undetected"
        print(f"{mutant.number} {mutant.file}: {detected_by}", flush=True)
    print(table(mutants, results))


if __name__ == "__main__":
    main()
