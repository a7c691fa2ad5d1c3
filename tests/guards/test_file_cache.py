"""Files that are kept between test runs are created again when their sources change, and are never partial."""

import pytest

import file_cache


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setattr(file_cache, "FOLDER", tmp_path / "kept")
    (tmp_path / "source.py").write_text("first")
    yield tmp_path / "source.py"
    file_cache.folder.cache_clear()


def folder(source):
    file_cache.folder.cache_clear()  # simulates a new run
    return file_cache.folder("some", source)


def test_a_file_is_created_once(source):
    file_cache.cached(folder(source) / "file", lambda path: path.write_text("made"))
    file = file_cache.cached(folder(source) / "file", lambda path: pytest.fail("created twice"))
    assert file.read_text() == "made"


@pytest.mark.parametrize("change", ["source", "packages"])
def test_a_file_is_created_again_after_a_change(source, monkeypatch, change):
    before = file_cache.cached(folder(source) / "file", lambda path: path.write_text("made"))
    if change == "source":
        source.write_text("second")
    else:
        packages = file_cache.environment_text()
        assert "torch-" in packages
        monkeypatch.setattr(file_cache, "environment_text", lambda: packages.replace("torch-", "torch-1"))
    after = file_cache.cached(folder(source) / "file", lambda path: path.write_text("made again"))
    assert after.read_text() == "made again" and not before.exists()


def test_a_failure_leaves_no_partial_file(source):
    def fail(path):
        path.write_text("partial")
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        file_cache.cached(folder(source) / "file", fail)
    assert not list(folder(source).iterdir())
