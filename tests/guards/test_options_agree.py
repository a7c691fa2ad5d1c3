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
# Fields and keywords without a flag.
FIELDS_OF_LIVE_MODULES = {"archive", "training", "command"}
TEXT_FIELDS = {"dynamic"}  # the text form of dynamic_axes
FIELDS_WITHOUT_ROW = {"Options": FIELDS_OF_LIVE_MODULES | TEXT_FIELDS,
                      "AnnotateOptions": {"overwrite", "copy_data", "tokens_go", "is_made_from_it"}, "ValidateOptions": set()}
KEYWORDS_WITHOUT_ROW = {"annotate": {"model", "output", "outputs", "overwrite", "copy_data",
                                     "input_names", "extra_inputs"},
                        "validate": {"model", "values", "input_names", "extra_inputs"}}


def rows(file: str) -> list[dict]:
    return [match.groupdict() for match in ROW.finditer((TOOLS / file).read_text())]


def fields(header: str, struct: str) -> set[str]:
    """Returns the members of a struct of the API: the last name before `=` or `;` of each declaration."""
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
    unlisted = fields(header, struct) - {row["field"] for row in rows(file)}
    assert unlisted == FIELDS_WITHOUT_ROW[struct]


@pytest.mark.parametrize("function", KEYWORDS_WITHOUT_ROW)
def test_every_keyword_has_a_row(function):
    keywords = set(inspect.signature(getattr(whence, function)).parameters)
    assert keywords - {row["keyword"] for row in rows(f"{function}.cpp")} == KEYWORDS_WITHOUT_ROW[function]


def test_all_interfaces_have_one_default_opset(small_archive, tmp_path):
    import onnx

    default = int(re.search(r"int opset = (\d+);", (API / "options.h").read_text())[1])
    command.run("export", small_archive, "-o", tmp_path / "m.onnx")
    opset = next(opset.version for opset in onnx.load(tmp_path / "m.onnx").opset_import if not opset.domain)
    assert opset == default
    assert f"{default} by default" in command.run("export", "--help").stdout
    from whence.exporting import options

    assert getattr(options, "DEFAULT_OPSET", default) == default


def names_field(field: str, text: str) -> bool:
    return re.search(rf"\boptions_?\.{field}\b", text) is not None


def test_every_field_of_export_is_used():
    """annotator/app passes each field to the library that uses it."""
    app = "".join(path.read_text() for path in (command.ROOT / "annotator" / "app").glob("*.cpp"))
    names = fields("options.h", "Options")
    assert not [field for field in sorted(names - FIELDS_OF_LIVE_MODULES) if not names_field(field, app)]


def test_live_modules_pass_every_field_to_the_command():
    """A field that export_arguments() omits would be silently ignored."""
    source = (command.ROOT / "recorder" / "native" / "record.cpp").read_text()
    body = source[source.index("export_arguments(const std::string& path"):]
    body = body[:body.index("\n}\n")]
    assert "--opset" in body
    archive_fields = set(re.findall(r'!options\.\w+\.empty\(\), "(\w+)"', source))  # from refuse_options_of_archives()
    assert "inputs_file" in archive_fields
    recorder_fields = {"input_names"} | FIELDS_OF_LIVE_MODULES
    expected = fields("options.h", "Options") - archive_fields - recorder_fields
    assert not [field for field in sorted(expected) if not names_field(field, body)]
    assert not [field for field in sorted(fields("options.h", "ExternalData"))
                if not names_field(rf"external_data\.{field}", body)]


def test_every_field_of_pythons_options_reaches_the_command():
    from whence.exporting.options import Options

    source = inspect.getsource(Options.for_command) + inspect.getsource(Options.makers)
    names = {field.name for field in dataclasses.fields(Options)}
    assert "opset" in names
    assert not [field for field in sorted(names) if not re.search(rf"\bself\.{field}\b", source)]


def test_every_keyword_of_export_is_used():
    """Every keyword is a field of ExportRequest that exporting/ reads."""
    from whence.exporting.request import ExportRequest

    names = [field.name for field in dataclasses.fields(ExportRequest)]
    assert [*names, "unknown"] == list(inspect.signature(whence.export).parameters)
    folder = command.ROOT / "python" / "whence" / "exporting"
    sources = "".join(path.read_text() for path in folder.glob("*.py"))
    assert not [name for name in names if not re.search(rf"\b(request|self)\.{name}\b", sources)]
