"""One table of options: the command's flags, the fields of the C++ API and the keywords of Python are those that it names."""
import inspect
import re

import pytest
import whence

import command

TOOLS = command.ROOT / "tools" / "whence"
API = command.ROOT / "include" / "whence"
ROW = re.compile(r'OptionRow\{\s*"(?P<name>[\w-]+)",\s*Kind::(?P<kind>\w+),\s*"[^"]*",\s*(?:"(?:[^"\\]|\\.)*"\s*)+,\s*'
                 r'"(?P<field>\w*)",\s*"(?P<keyword>\w*)"\}')
# What only one of the ways can have, and why.
FIELDS_OF_LIVE_MODULES = {"archive", "training", "command"}
FIELDS_OF_TWO_FORMS = {"dynamic"}  # the text form of dynamic_axes
KEYWORDS_OF_ANNOTATE = {"model", "output", "overwrite"}


def rows(file: str) -> list[dict]:
    return [match.groupdict() for match in ROW.finditer((TOOLS / file).read_text())]


def fields(header: str, struct: str) -> set[str]:
    """The members of a struct of the API: what stands before a `=` or `;` at the end of each declaration."""
    text = re.search(rf"^struct {struct} \{{\n(.*?)^\}};", (API / header).read_text(), re.MULTILINE | re.DOTALL)[1]
    text = re.sub(r"//[^\n]*", "", text)
    text = re.sub(r"\{[^{}]*\}", "", text)
    names = set()
    for declaration in text.split(";"):
        for part in re.sub(r"<[^;]*>", "", declaration).split(","):
            word = re.search(r"(\w+)\s*(=.*)?$", part.strip(), re.DOTALL)
            if word:
                names.add(word[1])
    return names


CASES = [("export_options.cpp", "export", "options.h", "Options", "export"),
         ("annotate.cpp", "annotate", "annotate.h", "AnnotateOptions", "annotate")]


@pytest.mark.parametrize("file, subcommand, header, struct, function", CASES)
def test_every_row_is_a_flag_a_field_and_a_keyword(file, subcommand, header, struct, function):
    table = rows(file)
    assert len(table) > 5
    text = command.run(subcommand, "--help").stdout
    keywords = inspect.signature(getattr(whence, function)).parameters
    for row in table:
        assert f"--{row['name']}" in text
        assert row["field"] in fields(header, struct), row
        assert not row["keyword"] or row["keyword"] in keywords, row


@pytest.mark.parametrize("file, subcommand, header, struct, function", CASES)
def test_every_field_has_a_row(file, subcommand, header, struct, function):
    found = fields(header, struct) - {row["field"] for row in rows(file)}
    allowed = FIELDS_OF_LIVE_MODULES | FIELDS_OF_TWO_FORMS if struct == "Options" else {"overwrite"}
    assert found == allowed


def test_every_keyword_of_annotate_has_a_row():
    keywords = set(inspect.signature(whence.annotate).parameters) - {row["keyword"] for row in rows("annotate.cpp")}
    assert keywords == KEYWORDS_OF_ANNOTATE


def test_the_default_opset_is_one(small_archive, tmp_path):
    """Of the command, of C++ and of Python."""
    import onnx

    default = int(re.search(r"int opset = (\d+);", (API / "options.h").read_text())[1])
    command.run("export", small_archive, "-o", tmp_path / "m.onnx")
    opset = next(each.version for each in onnx.load(tmp_path / "m.onnx").opset_import if not each.domain)
    assert opset == default
    assert f"{default} by default" in command.run("export", "--help").stdout
    from whence import options

    assert getattr(options, "DEFAULT_OPSET", default) == default
