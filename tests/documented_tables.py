"""Replaces the part of a page between two markers: <!-- NAME --> and <!-- end of NAME -->."""

from pathlib import Path


def write(page: Path, name: str, text: str) -> None:
    before, marker, rest = page.read_text().partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- end of {name} -->\n")
    if not marker or not end:
        raise SystemExit(f"{page} has no place for the table: <!-- {name} --> and <!-- end of {name} -->")
    page.write_text(before + marker + text + end + after)
