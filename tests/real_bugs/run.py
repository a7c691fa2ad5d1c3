"""Makes the files of the bugs, measures what whence and other tools say of them, and writes the table:
`python run.py [--again PART]... [--table] [--docs] [NAME...]`.

Writes build/real_bugs/table.json and table.md. --again measures a part again, --table only writes the table, and --docs
also writes its totals into docs/accuracy.md.
"""

from __future__ import annotations

import argparse
import inspect
import json
import os
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import make_files
from make_files import FILES  # first, because it sets the search path

import environments
import peers
from bug import Bug, selected_bugs

HERE = Path(__file__).resolve().parent
SOURCE = environments.ROOT / "python"
TITLES = {"torch": "torch.onnx.verification", "diagnostic": "onnx-diagnostic, side by side",
          "polygraphy": "Polygraphy, with the right file"}


def in_environment(python: Path, program: str, *arguments: str) -> int:
    """Runs a program of this folder in an environment. Returns its exit code, negative for a signal."""
    path = os.pathsep.join(filter(None, [str(SOURCE), os.environ.get("PYTHONPATH")]))
    variables = {**os.environ, "PYTHONPATH": path, "REAL_BUGS_FILES": str(FILES)}
    # A peer writes files into the current folder.
    return subprocess.run([python, HERE / program, *arguments], cwd=FILES, check=False, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL, env=variables).returncode


def run_each(python: Path, program: str, file: str, bugs: list[Bug], *arguments: str) -> None:
    """Runs a program on all bugs in one process, and on those without its result file in one each, because a tool or
    runtime may end the process."""
    in_environment(python, program, *arguments, *[bug.name for bug in bugs])
    for bug in bugs:
        place = FILES / bug.name / file
        if not place.exists():
            code = in_environment(python, program, *arguments, bug.name)
            if not place.exists():
                place.write_text(json.dumps({"error": f"the process ended with {code}"}) + "\n")


def measure(bugs: list[Bug], again: list[str]) -> None:
    """Writes whence.json and peer-*.json for bugs that lack them, and those of the parts `again` for all."""

    def missing(file: str) -> list[Bug]:
        for bug in bugs:
            if file.removesuffix(".json").removeprefix("peer-") in again:
                (FILES / bug.name / file).unlink(missing_ok=True)
        return [bug for bug in bugs if not (FILES / bug.name / file).exists()]

    todo = missing("whence.json")
    if todo:
        print(f"measuring {len(todo)} bugs with whence", flush=True)
        run_each(Path(sys.executable), "measure.py", "whence.json", todo)
    todo = missing("peer-torch.json")
    for pins in sorted({bug.wrong for bug in todo}):
        group = [bug for bug in todo if bug.wrong == pins]
        print(f"measuring {len(group)} bugs with torch.onnx.verification, {', '.join(pins)}", flush=True)
        run_each(environments.python_of(pins), "peers.py", "peer-torch.json", group, "torch")
    for peer, pins in peers.PINS.items():
        todo = missing(f"peer-{peer}.json")
        if todo:
            print(f"measuring {len(todo)} bugs with {pins[0]}", flush=True)
            run_each(environments.python_of(pins), "peers.py", f"peer-{peer}.json", todo, peer)


def names_module(bug: Bug, answer: dict[str, Any]) -> bool:
    """Whether the answer is the bug's module, one that was merged with it, or a module inside of them."""
    answered = answer.get("module")
    return answered is not None and any(answered == module or bool(module) and answered.startswith(module + ".")
                                        for module in (bug.module, *bug.merged))


def names_operation(bug: Bug, answer: dict[str, Any]) -> bool:
    """Whether the answer is the bug's operation, or one of the operations that it consists of."""
    return bool(bug.operation) and answer.get("operation") in bug.operation.split()


def names_line(bug: Bug, answer: dict[str, Any]) -> bool:
    """Whether the answer's line, "file.py:12 forward", is one of the class of the bug's module or of one merged with it."""
    file, _, number = (answer.get("line") or "").split(" ")[0].partition(":")
    modules = dict(bug.build().named_modules())
    for base in {base for name in (bug.module, *bug.merged) for base in type(modules[name]).__mro__[:2]}:
        lines, first = inspect.getsourcelines(base)
        if Path(inspect.getsourcefile(base) or "").name == file and first <= int(number) < first + len(lines):
            return True
    return False


def row_of(bug: Bug) -> dict[str, Any]:
    """Returns a row of the table."""
    result = json.loads((FILES / bug.name / "whence.json").read_text())
    wrong, right = result.get("wrong", result), result.get("right", result)
    row = {"name": bug.name, "title": bug.title, "link": bug.link, "kind": bug.kind, "step": bug.step, "module": bug.module,
           "operation": bug.operation, "whence": wrong, "module_named": names_module(bug, wrong),
           "operation_named": names_operation(bug, wrong), "line_named": names_line(bug, wrong),
           "seconds": wrong.get("seconds"),
           "bundle": result.get("bundle", ""), "alarm": "module" not in right or right["module"] is not None, "right": right}
    for peer in peers.PEERS:
        answer = json.loads((FILES / bug.name / f"peer-{peer}.json").read_text())
        row[peer] = {**answer, "module_named": names_module(bug, answer), "operation_named": names_operation(bug, answer)}
    return row


def bundles(rows: list[dict[str, Any]]) -> str:
    """Returns how many bundles were written, and their shares of the nodes. A bundle is only written if its script fails."""
    found = [re.match(r"(\d+) of (\d+) nodes were written", row["bundle"]) for row in rows]
    shares = [int(each[1]) / int(each[2]) for each in found if each]
    text = f"`--repro` writes a bundle that fails without whence for {share(len(shares), len(rows))}."
    return text if not shares else text + f" It has\n{100 * statistics.median(shares):.0f} % of the nodes in the median, " \
        f"{100 * max(shares):.0f} % at most; the models have {statistics.median(int(each[2]) for each in found if each):.0f} " \
        "nodes in the median."


def share(part: int, of: int) -> str:
    return f"{part} of {of}" + (f" ({100 * part / of:.0f} %)" if of else "")


def totals(rows: list[dict[str, Any]]) -> str:
    """Returns what each tool names, and what whence names by the tool that has the bug."""
    with_operation = [row for row in rows if row["operation"]]
    lines = ["| asked | module named | operation named |", "|---|--:|--:|"]
    answers = {"whence accuracy": {row["name"]: row for row in rows},
               **{title: {row["name"]: row[peer] for row in rows} for peer, title in TITLES.items()}}
    for title, answer in answers.items():
        other = sum(answer[row["name"]].get("error", "").startswith("not applicable") for row in rows)
        title += f" (not applicable to {other})" if other else ""
        modules = sum(answer[row["name"]]["module_named"] for row in rows)
        operations = sum(answer[row["name"]]["operation_named"] for row in with_operation)
        lines.append(f"| {title} | {share(modules, len(rows))} | {share(operations, len(with_operation))} |")
    inside = share(sum(row["line_named"] for row in rows), len(rows))
    lines += ["", f"whence names a line of the module's class in {inside}. "
              f"Its alarms on right files: {sum(row['alarm'] for row in rows)} of {len(rows)}.", "", bundles(rows), "",
              "| bugs of | bugs | whence: module | whence: operation | best other tool: module |", "|---|--:|--:|--:|--:|"]
    for tool in sorted({row["name"].split("-")[0] for row in rows}):
        group = [row for row in rows if row["name"].split("-")[0] == tool]
        best = max(sum(row[peer]["module_named"] for row in group) for peer in peers.PEERS)
        lines.append(f"| {tool} | {len(group)} | {sum(row['module_named'] for row in group)} | "
                     f"{sum(row['operation_named'] for row in group)} | {best} |")
    return "\n".join(lines) + "\n"


def markdown(rows: list[dict[str, Any]]) -> str:
    """Returns the totals and one line for each bug."""
    lines = [totals(rows), "| bug | kind | module | operation | whence | s | torch | diagnostic | Polygraphy |",
             "|---|---|---|---|---|--:|---|---|---|"]
    for row in rows:
        cells = [f"[{row['name']}]({row['link']})", row["kind"], f"`{row['module']}`",
                 (f"`{row['operation'].split()[0]}`" if row["operation"] else "") + (f" {row['step']}" if row["step"] else ""),
                 cell(row), f"{row['seconds'] or 0:.1f}", *[cell(row[peer]) for peer in peers.PEERS]]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def write_docs(rows: list[dict[str, Any]]) -> None:
    """Replaces the totals in the documentation."""
    page = environments.ROOT / "docs" / "accuracy.md"
    before, marker, rest = page.read_text().partition("<!-- real bugs -->\n")
    _, end, after = rest.partition("<!-- end of real bugs -->\n")
    if not marker or not end:
        raise SystemExit(f"{page} has no place for the totals: <!-- real bugs --> and <!-- end of real bugs -->")
    page.write_text(before + marker + totals(rows) + end + after)


def cell(answer: dict[str, Any]) -> str:
    return "operation" if answer["operation_named"] else "module" if answer["module_named"] else "–"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bugs; the default is all")
    parser.add_argument("--again", action="append", default=[], choices=["whence", *peers.PEERS], help="measure again")
    parser.add_argument("--table", action="store_true", help="only write the table of what was measured")
    parser.add_argument("--docs", action="store_true", help="write the totals into docs/accuracy.md")
    options = parser.parse_args()
    bugs = selected_bugs(options.names)
    failed = 0
    if not options.table:
        failed = make_files.make(bugs)
        bugs = [bug for bug in bugs if make_files.is_made(bug)]
        measure(bugs, options.again)
    bugs = [bug for bug in bugs if all((FILES / bug.name / file).exists()
                                       for file in ("whence.json", *[f"peer-{peer}.json" for peer in peers.PEERS]))]
    rows = [row_of(bug) for bug in bugs]
    (FILES / "table.json").write_text(json.dumps(rows, indent=1) + "\n")
    (FILES / "table.md").write_text(markdown(rows))
    if options.docs:
        write_docs(rows)
    print(totals(rows))
    print(f"the table of {len(rows)} bugs is in {FILES / 'table.md'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
