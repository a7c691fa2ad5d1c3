"""Known failures by route: seeds of the tests, and programs of found_programs.py, each with its verdict.
list_known_failures.py writes this file. The tests require that these programs still fail.
"""

FAILING_SEEDS: dict[str, dict[int, str]] = {
    "trace": {},
    "script": {},
    "export": {},
    "native": {},
}

FAILING_FOUND: dict[str, dict[str, str]] = {
    "trace": {},
    "script": {},
    "export": {},
    "native": {},
}
