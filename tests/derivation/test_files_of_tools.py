"""Parts of the corpus: honest files of three models, changes in them, and refitted files. `make attest` has the others."""

import pytest

import attest_corpus
import attested_files
import command
import corpus_files
import file_cache
import planted_changes
import refitted_files
from accuracy import models

MODELS = ("vit", "lstm_tagger", "convnext")
EXPORTERS = ("dynamo", "torchscript")
TOOLS = ("exported", "ort_extended", "ort_all", "float16", "dynamic", "static", "blocks_of_4", "blocks_of_8_symmetric",
         "ort_extended+dynamic")


@pytest.fixture(scope="module")
def files():
    folder = file_cache.folder("attest", *attest_corpus.sources())

    def written(model: str, seed: int = 0) -> list[corpus_files.File]:
        chosen = [each for each in corpus_files.files_of(model, folder, seed)
                  if each.exporter in EXPORTERS and each.tool in TOOLS]
        return corpus_files.write(chosen, models.digest_of(command.BINARY), seed)

    return written


@pytest.mark.parametrize("model", MODELS)
def test_honest_files_have_no_alarm(files, model):
    results = [attested_files.attest(each) for each in files(model)]
    assert sum(each.counts.files for each in results) == len(EXPORTERS) * len(TOOLS)
    assert attested_files.details(results) == []


# Without lstm_tagger: the layers and directions of one LSTM are not told apart.
@pytest.mark.parametrize("model", ["vit", "convnext"])
def test_planted_changes_are_found_with_their_modules(files, model):
    results = [each for file in files(model)[::5] for each in planted_changes.plant(file, 4)]
    assert len(results) > 8
    assert [each for each in results if not each.is_found] == []
    assert sum(each.is_module_right for each in results) >= 0.8 * len(results)


@pytest.mark.parametrize("model", MODELS)
def test_no_refitted_file_is_wrong(files, model):
    pairs = list(zip(files(model), files(model, 1), strict=True))[::4]
    results = [refitted_files.refit(old, new) for old, new in pairs]
    assert sum(each.outcome == refitted_files.EQUAL for each in results) > len(results) / 2
    assert not refitted_files.has_failed(results), refitted_files.details(results)
