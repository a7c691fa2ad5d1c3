"""Files kept between test runs are created again after a change of their sources, and are never partial."""

import pytest

import kept


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "FOLDER", tmp_path / "kept")
    (tmp_path / "source.py").write_text("first")
    yield tmp_path / "source.py"
    kept.folder.cache_clear()


def folder(source):
    kept.folder.cache_clear()  # as in a new run
    return kept.folder("some", source)


def test_a_file_is_created_once(source):
    kept.made(folder(source) / "file", lambda path: path.write_text("made"))
    again = kept.made(folder(source) / "file", lambda path: pytest.fail("made twice"))
    assert again.read_text() == "made"


@pytest.mark.parametrize("changed", ["source", "packages"])
def test_a_changed_source(source, monkeypatch, changed):
    before = kept.made(folder(source) / "file", lambda path: path.write_text("made"))
    if changed == "source":
        source.write_text("other")
    else:
        packages = kept.environment_text()
        assert "torch-" in packages
        monkeypatch.setattr(kept, "environment_text", lambda: packages.replace("torch-", "torch-1"))
    after = kept.made(folder(source) / "file", lambda path: path.write_text("made anew"))
    assert after.read_text() == "made anew" and not before.exists()


def test_a_failure_leaves_no_part(source):
    def fail(path):
        path.write_text("a part")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        kept.made(folder(source) / "file", fail)
    assert not list(folder(source).iterdir())
