"""Every metadata key of a node is copied from the node that it was matched with, or is listed here with a reason.

A key in neither list would be silently lost if `annotate --from` and `annotate` without a sidecar have no program.
"""
import re

import command

METADATA = command.ROOT / "annotator" / "metadata" / "node_keys.cpp"
TAKEN_OVER = command.ROOT / "annotator" / "annotation" / "text_keys.cpp"
KEY = re.compile(r"\bkeys::(\w+)")

NOT_TAKEN_OVER = {
    "module": "follows from the match itself, which may be of several nodes",
    "modules": "holds for all nodes together",
    "id": "holds for all nodes together",
    "confidence": "is that of the match, which is at most the node's",
    "rule": "says how the match was found",
    "evidence": "says what the rules found on the new node; annotate_foreign.cpp writes it",
    "version": "is that of the whence that annotates",
    "confidence_operator": "names the new node's operator; annotate_foreign.cpp writes it",
}


def keys_in(path, function: str) -> set[str]:
    """Returns the keys named in a function, up to the end of its body."""
    text = path.read_text()
    body = text[text.index(function):]
    return set(KEY.findall(body[:body.index("\n}\n")]))


def test_every_key_is_copied_or_has_a_reason():
    every = keys_in(METADATA, "annotation_keys() {")
    taken_over = keys_in(TAKEN_OVER, "bool taken_over(")
    assert len(every) > 10 and len(taken_over) > 5
    assert taken_over <= every
    assert not taken_over & set(NOT_TAKEN_OVER)
    assert every - taken_over == set(NOT_TAKEN_OVER)
