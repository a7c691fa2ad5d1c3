"""One table of options defines the command's flags, the fields of the C++ API and the keywords of Python."""
import dataclasses
import inspect
import re

import pytest
import whence

import command

TOOLS = command.ROOT / "tools" / "whence"
API = command.ROOT / "include" / "whence"
ROW = re.compile(r'OptionRow\{\s*"(?P<name>[\w-]+)(?:,\w)?",\s*Kind::(?P<kind>\w+),\s*"[^"]*",\s*(?:"(?:[^"\\]|\\.)*"\s*)+,\s*'
                 r'"(?P<field>\w*)",\s*"(?P<keyword>\w*)"\}')
# Options that only one of the three can have, and why.
FIELDS_OF_LIVE_MODULES = {"archive", "training", "command"}
FIELDS_OF_TWO_FORMS = {"dynamic"}  # the text form of dynamic_axes
FIELDS_WITHOUT_ROW = {"Options": FIELDS_OF_LIVE_MODULES | FIELDS_OF_TWO_FORMS,
                      "AnnotateOptions": {"overwrite", "copy_data", "tokens_go", "is_made_from_it"}, "ValidateOptions": set()}
KEYWORDS_WITHOUT_ROW = {"annotate": {"model", "output", "outputs", "overwrite", "copy_data",
                                     "input_names", "extra_inputs"},
                        "validate": {"model", "values", "input_names", "extra_inputs"}}


def rows(file: str) -> list[dict]:
    return [match.groupdict() for match in ROW.finditer((TOOLS / file).read_text())]


def fields(header: str, struct: str) -> set[str]:
    """Returns the members of a struct of the API: the name before `=` or `;` at the end of each declaration."""
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
         ("annotate.cpp", "annotate", "annotate.h", "AnnotateOptions", "annotate"),
         ("validate.cpp", "validate", "validate.h", "ValidateOptions", "validate")]


@pytest.mark.parametrize("file, subcommand, header, struct, function", CASES)
def test_every_row_is_a_flag_a_field_and_a_keyword(file, subcommand, header, struct, function):
    table = rows(file)
    assert len(table) > 5
    text = command.run(subcommand, "--help").stdout
    keywords = inspect.signature(getattr(whence, function)).parameters
    for row in table:
        assert f"--{row['name']}" in text
        assert not row["field"] or row["field"] in fields(header, struct), row
        assert not row["keyword"] or row["keyword"] in keywords, row


@pytest.mark.parametrize("file, subcommand, header, struct, function", CASES)
def test_every_field_has_a_row(file, subcommand, header, struct, function):
    found = fields(header, struct) - {row["field"] for row in rows(file)}
    assert found == FIELDS_WITHOUT_ROW[struct]


@pytest.mark.parametrize("function", KEYWORDS_WITHOUT_ROW)
def test_every_keyword_has_a_row(function):
    keywords = set(inspect.signature(getattr(whence, function)).parameters)
    assert keywords - {row["keyword"] for row in rows(f"{function}.cpp")} == KEYWORDS_WITHOUT_ROW[function]


def test_the_default_opset_is_one(small_archive, tmp_path):
    """The same in the command, in C++ and in Python."""
    import onnx

    default = int(re.search(r"int opset = (\d+);", (API / "options.h").read_text())[1])
    command.run("export", small_archive, "-o", tmp_path / "m.onnx")
    opset = next(each.version for each in onnx.load(tmp_path / "m.onnx").opset_import if not each.domain)
    assert opset == default
    assert f"{default} by default" in command.run("export", "--help").stdout
    from whence.exporting import options

    assert getattr(options, "DEFAULT_OPSET", default) == default


def names_field(field: str, text: str) -> bool:
    return re.search(rf"\boptions_?\.{field}\b", text) is not None


def test_every_field_of_export_is_used():
    """It is passed to the room that uses it; for live modules it becomes arguments of the command line."""
    app = "".join(path.read_text() for path in (command.ROOT / "annotator" / "app").glob("*.cpp"))
    found = fields("options.h", "Options")
    assert not [field for field in sorted(found - FIELDS_OF_LIVE_MODULES) if not names_field(field, app)]


def test_every_field_of_export_reaches_the_command_from_live_modules():
    """A field that export_arguments() omits would be silently ignored."""
    source = (command.ROOT / "recorder" / "native" / "record.cpp").read_text()
    body = source[source.index("export_arguments(const std::string& path"):]
    body = body[:body.index("\n}\n")]
    assert "--opset" in body
    of_archives = set(re.findall(r'!options\.\w+\.empty\(\), "(\w+)"', source))  # refuse_options_of_archives() names them
    assert "inputs_file" in of_archives
    of_the_recording = {"input_names"} | FIELDS_OF_LIVE_MODULES
    expected = fields("options.h", "Options") - of_archives - of_the_recording
    assert not [field for field in sorted(expected) if not names_field(field, body)]
    assert not [field for field in sorted(fields("options.h", "ExternalData"))
                if not names_field(rf"external_data\.{field}", body)]


def test_every_field_of_pythons_options_reaches_the_command():
    from whence.exporting.options import Options

    source = inspect.getsource(Options.for_command) + inspect.getsource(Options.makers)
    found = {field.name for field in dataclasses.fields(Options)}
    assert "opset" in found
    assert not [field for field in sorted(found) if not re.search(rf"\bself\.{field}\b", source)]


def test_every_keyword_of_export_is_used():
    """It is a field of the request, and a file of exporting/ reads that field."""
    from whence.exporting.request import ExportRequest

    found = [field.name for field in dataclasses.fields(ExportRequest)]
    assert [*found, "unknown"] == list(inspect.signature(whence.export).parameters)
    folder = command.ROOT / "python" / "whence" / "exporting"
    sources = "".join(path.read_text() for path in folder.glob("*.py"))
    assert not [each for each in found if not re.search(rf"\b(request|self)\.{each}\b", sources)]
