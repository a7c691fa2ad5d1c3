"""What fails today, by route: seeds of the tests, and programs of found_programs.py, each with its verdict.
list_known_failures.py writes it. The tests expect these to fail, and fail themselves once they do not.
"""

FAILING_SEEDS: dict[str, dict[int, str]] = {
    "trace": {
        1: "does not run, at size 0, ScatterND",
        96: "does not run, at size 1, ScatterND",
        302: "wrong, at size 0",
        354: "does not run, at another size, ScatterND",
        409: "wrong, at size 0",
        532: "does not run, at size 0, Squeeze",
    },
    "script": {
        21: "does not run, at size 0, If",
        152: "does not run, at size 0, Gather",
        191: "does not run, at size 0, SplitToSequence",
        290: "does not run, at size 0, Squeeze",
        311: "does not run, at size 0, If",
        359: "does not run, at size 0, Squeeze",
        506: "does not run, at size 0, Loop",
        574: "wrong, at size 1",
        627: "wrong, at size 1",
        639: "does not run, at size 0, ScatterElements",
        644: "does not run, at size 1, SequenceAt",
        679: "does not run, at size 0, SplitToSequence",
        810: "does not run, at size 0, ScatterElements",
        975: "does not run, at size 0, SplitToSequence",
        976: "does not run, at size 0, SequenceAt",
    },
    "export": {
        15: "does not run, at size 1, ScatterElements where the archive's guards refuse",
        32: "wrong, at size 0 where the archive's guards refuse",
        46: "does not run, at size 1, Squeeze where the archive's guards refuse",
        142: "does not run, at another size, Reshape where the archive's guards refuse",
        171: "does not run, at size 1, Reshape where the archive's guards refuse",
        177: "does not run, at size 1, Expand where the archive's guards refuse",
        178: "wrong, at another size where the archive's guards refuse",
        195: "does not run, at another size, ScatterND where the archive's guards refuse",
    },
    "native": {
        9: "does not run, at size 1, Gather",
        30: "wrong, at size 1",
        49: "does not run, at size 0, Reshape",
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
        "a written range at the end that reaches outside": "does not run, at another size, ScatterND",
        "a written range of rows that may be none": "wrong, at size 0",
        "a written stride of rows that may be none": "does not run, at size 0, ScatterElements",
    },
    "script": {
        "a written range at the end that reaches outside": "does not run, at another size, ScatterND",
        "a written range of rows that may be none": "wrong, at size 0",
        "a written stride of rows that may be none": "does not run, at size 0, ScatterElements",
        "squeeze of an axis that is 1 or 0": "does not run, at size 0, Squeeze",
    },
    "export": {
    },
    "native": {},
}
