"""What fails today, by route: seeds of the tests, and programs of found_programs.py, each with its verdict.
list_known_failures.py writes it. The tests expect these to fail, and fail themselves once they do not.
"""

FAILING_SEEDS: dict[str, dict[int, str]] = {
    "trace": {
        1: "does not run, at size 0, ScatterND",
        409: "wrong, at size 0",
        532: "does not run, at size 0, Squeeze",
    },
    "script": {
        21: "does not run, at size 0, If",
        142: "does not run, at size 0, Gather",
        152: "does not run, at size 0, Gather",
        290: "does not run, at size 0, Squeeze",
        311: "does not run, at size 0, If",
        328: "does not run, at size 0, Loop",
        359: "does not run, at size 0, Squeeze",
        441: "wrong, at size 0",
        506: "does not run, at size 0, Loop",
    },
    "export": {
        46: "does not run, at size 1, Squeeze where the archive's guards refuse",
        142: "does not run, at another size, Reshape where the archive's guards refuse",
        177: "does not run, at size 1, Expand where the archive's guards refuse",
    },
    "native": {
        9: "does not run, at size 1, Gather",
        30: "wrong, at size 1",
        62: "does not run, at size 1, Reshape",
        94: "wrong, at size 1",
        111: "does not run, at size 1, Split",
        121: "wrong, at another size",
        153: "wrong, at size 1",
        188: "wrong, at size 0",
        189: "does not run, at size 0, Squeeze",
    },
}

FAILING_FOUND: dict[str, dict[str, str]] = {
    "trace": {
        "a written range of rows that may be none": "wrong, at size 0",
    },
    "script": {
        "a written range of rows that may be none": "wrong, at size 0",
        "squeeze of an axis that is 1 or 0": "does not run, at size 0, Squeeze",
    },
    "export": {},
    "native": {},
}
