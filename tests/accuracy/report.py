"""Prints the accuracy table, and how often each confidence value is correct."""

import collections

from accuracy.transformations import BY_NAME

CLASSES = ("exact", "set", "high", "wrong", "none")
ORDER = ("exact", "matched", "inferred", "ancestor", "unattributed", "none", "failed")


def text(scores: dict, verbose: bool) -> str:
    """Formats `scores`, whose keys are (model, source, transformation)."""
    lines = []
    for (model, source, name), score in scores.items() if verbose else []:
        for key, operator, expected, answer, kind in score.nodes:
            found = answer.module if len(answer.modules) < 2 else sorted(answer.modules)
            lines.append(f"{kind:5} {model}/{source}/{name} {operator} {key}\n      truth {expected}\n"
                         f"      found {found!r} ({answer.confidence}; {answer.rule})")
    lines += failures(scores)
    for source in dict.fromkeys(source for _, source, _ in scores):
        lines += ["", *table(source, {key: score for key, score in scores.items() if key[1] == source})]
    return "\n".join([*lines, "", *calibration(scores)]) + "\n"


def failures(scores: dict) -> list[str]:
    """Returns a line for each kind of failure of the command, by exit code and error code."""
    by_kind = collections.defaultdict(list)
    for (model, source, name), score in scores.items():
        for failure in score.failures:
            by_kind[failure[:16]].append((f"{model}/{source}/{name}", failure))
    return [f"failed on {len(files)} files, the first {files[0][0]}: {files[0][1]}" for files in by_kind.values()]


def failed_files(reasons: dict) -> str:
    """Lists the corpus files that an exporter or a tool failed to create: {(model, source, transformation): reason}."""
    lines = [f"not created: {model}/{source}/{name}: {reason[:90]}"
             for (model, source, name), reason in reasons.items()]
    return "\n".join(["", *lines, ""]) if lines else ""


def total(scores):
    """Adds several scores; each corpus file counts once."""
    scores = list(scores)
    result = type(scores[0])()
    for score in scores:
        result.add(score)
    return result


def table(source: str, scores: dict) -> list[str]:
    heads = "".join(f"{kind:>8}" for kind in CLASSES)
    lines = [f"{source:28}{heads}    call   nodes, without truth"]
    for name in BY_NAME:
        of_row = [score for key, score in scores.items() if key[2] == name]
        if of_row:
            together = total(of_row)
            shares = "".join(f"{together.share(kind):8.2f}" for kind in CLASSES)
            lines.append(f"{name:28}{shares}{together.calls_right():8.2f}   {together.total():5} {together.unknown:5}")
    return lines


def calibration(scores: dict) -> list[str]:
    together = collections.defaultdict(collections.Counter)
    for score in scores.values():
        for confidence, counts in score.confidence.items():
            together[confidence] += counts
    heads = "".join(f"{kind:>8}" for kind in CLASSES)
    lines = [f"{'confidence':28}{heads}   nodes"]
    for confidence in [*ORDER, *sorted(set(together) - set(ORDER))]:
        counts = together.get(confidence)
        if counts:
            shares = "".join(f"{100 * counts[kind] / counts.total():8.2f}" for kind in CLASSES)
            lines.append(f"{confidence:28}{shares}   {counts.total():5}")
    return lines
