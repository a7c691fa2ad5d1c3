"""Files that tests keep from run to run are made anew when what makes them changes, and never in part."""

import pytest

import kept


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    (tmp_path / "source.py").write_text("first")
    yield tmp_path / "source.py"
    kept.folder.cache_clear()


def folder(source):
    kept.folder.cache_clear()  # as in another run
    return kept.folder("some", source)


def test_a_file_is_made_once(source):
    kept.made(folder(source) / "file", lambda path: path.write_text("made"))
    again = kept.made(folder(source) / "file", lambda path: pytest.fail("made twice"))
    assert again.read_text() == "made"


@pytest.mark.parametrize("changed", ["source", "packages"])
def test_what_it_is_made_from_changes(source, monkeypatch, changed):
    before = kept.made(folder(source) / "file", lambda path: path.write_text("made"))
    if changed == "source":
        source.write_text("other")
    else:
        packages = kept.surroundings()
        assert "torch-" in packages
        monkeypatch.setattr(kept, "surroundings", lambda: packages.replace("torch-", "torch-1"))
    after = kept.made(folder(source) / "file", lambda path: path.write_text("made anew"))
    assert after.read_text() == "made anew" and not before.exists()


def test_a_failure_leaves_no_part(source):
    def fail(path):
        path.write_text("a part")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        kept.made(folder(source) / "file", fail)
    assert not list(folder(source).iterdir())
