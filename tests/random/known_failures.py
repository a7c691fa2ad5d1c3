"""What fails today, by route: seeds of the tests, and programs of found_programs.py, each with its verdict.
list_known_failures.py writes it. The tests expect these to fail, and fail themselves once they do not.
"""

FAILING_SEEDS: dict[str, dict[int, str]] = {
    "trace": {
        0: "does not run, at size 0, Reshape",
        1: "does not run, at size 0, ScatterND",
        5: "does not run, at size 0, Reshape",
        10: "does not run, at size 0, Reshape",
        23: "does not run, at size 0, Reshape",
        26: "does not run, at size 0, Reshape",
        37: "does not run, at size 0, Reshape",
    },
    "script": {
        17: "does not run, at size 0, Reshape",
        48: "wrong, at the example's size",
    },
    "export": {
        1: "does not run, at another size, Gather where the archive's guards refuse",
        4: "does not run, at size 0, Reshape",
    },
    "native": {},
}

FAILING_FOUND: dict[str, dict[str, str]] = {
    "trace": {
        "a column that is not there is written over itself": "does not run, at another size, Reshape",
        "a flat view of an empty tensor is written": "does not run, at size 0, Reshape",
        "a range that ends before the first number": "wrong, at size 1",
        "a view of an empty tensor is written": "does not run, at size 0, Reshape",
        "a written range at the end that reaches outside": "does not run, at another size, ScatterND",
        "a written range of a part that is empty": "does not run, at another size, Reshape",
        "a written range of rows that may be none": "wrong, at size 0",
        "a written stride of rows that may be none": "does not run, at size 0, ScatterElements",
        "an empty range after another": "wrong, at size 1",
        "reshape of an empty axis": "does not run, at size 0, Reshape",
        "rows behind the last are written": "does not run, at the example's size, Reshape",
    },
    "script": {
        "a chunk of an empty axis": "does not run, at size 0, SplitToSequence",
        "a chunk of what a split left": "does not run, at size 1, SplitToSequence",
        "a diagonal of an empty axis": "does not run, at size 0, Reshape",
        "a flat view of an empty tensor is written": "does not run, at size 0, Reshape",
        "a loop rebinds what another wrote": "wrong, at another size",
        "a part of an empty axis": "does not run, at size 0, SequenceAt",
        "a range that ends before the first number": "wrong, at size 1",
        "a view of an empty tensor is written": "does not run, at size 0, Reshape",
        "a written range at the end that reaches outside": "does not run, at another size, ScatterND",
        "a written range of rows that may be none": "wrong, at size 0",
        "a written stride of rows that may be none": "does not run, at size 0, ScatterElements",
        "an empty range after another": "wrong, at size 1",
        "reshape of an empty axis": "does not run, at size 0, Reshape",
        "rows and a loop's branch": "does not run, at size 0, If",
        "rows of a column are put in a loop": "does not run, at another size, Loop",
        "squeeze of an axis that is 1 or 0": "does not run, at size 0, Squeeze",
        "written under an alias that a size decides": "wrong, at size 1",
    },
    "export": {
        "a flat view of an empty tensor is written": "does not run, at size 0, Reshape",
        "a place from the end that a guard fixes": "does not run, at another size, ScatterElements where the archive's guards refuse",
        "a place that a guard fixes": "wrong, at another size where the archive's guards refuse",
        "a range whose length a guard fixes": "wrong, at another size where the archive's guards refuse",
        "a view of an empty tensor is written": "does not run, at size 0, Reshape",
        "an axis of one number of an archive": "does not run, at size 1, ScatterElements",
        "reshape of an empty axis": "does not run, at size 0, Reshape",
    },
    "native": {},
}
