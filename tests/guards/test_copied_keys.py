"""annotate copies every metadata key from the matched node, except the keys that are listed here with a reason.

Without a program (`annotate --from`, or no sidecar), any other key would be silently lost.
"""
import re

import command

METADATA = command.ROOT / "annotator" / "metadata" / "node_keys.cpp"
COPY_SOURCE = command.ROOT / "annotator" / "annotation" / "text_keys.cpp"
KEY = re.compile(r"\bkeys::(\w+)")

NOT_COPIED = {
    "module": "is computed, because several nodes may match",
    "modules": "is collected from all matched nodes",
    "primary": "is computed for the new node's operator",
    "id": "is collected from all matched nodes",
    "confidence": "is the confidence of the match, at most that of the node",
    "rule": "states how the match was found",
    "evidence": "describes the new node; annotate_foreign.cpp writes it",
    "version": "is the version of whence that annotates",
    "confidence_operator": "names the new node's operator; annotate_foreign.cpp writes it",
}


def keys_in(path, function: str) -> set[str]:
    """Returns the keys that the body of a function names."""
    text = path.read_text()
    body = text[text.index(function):]
    return set(KEY.findall(body[:body.index("\n}\n")]))


def test_every_key_is_copied_or_has_a_reason():
    all_keys = keys_in(METADATA, "annotation_keys() {")
    copied = keys_in(COPY_SOURCE, "bool taken_over(")
    assert len(all_keys) > 10 and len(copied) > 5
    assert copied <= all_keys
    assert not copied & set(NOT_COPIED)
    assert all_keys - copied == set(NOT_COPIED)
