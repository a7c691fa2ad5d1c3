// A round trip preserves a sidecar, including unknown fields of newer versions. Errors name the invalid cell.
#include "schema/sidecar/sidecar.h"

#include <functional>
#include <nlohmann/json.hpp>

#include <gtest/gtest.h>

#include "schema/files/files.h"
#include "schema/sidecar/form.h"
#include "tests/schema/expect_error.h"
#include "tests/schema/sample_program.h"
#include "tests/schema/temporary_folder.h"

namespace whence {
namespace {

using Json = nlohmann::ordered_json;

Sidecar parsed(const std::string& text) {
  Result<Sidecar> result = parse_sidecar(text, "model.whence.json");
  if (!result) throw Error(result.diagnostics());
  return std::move(*result);
}

std::string fixture(const std::string& version) {
  return std::string(WHENCE_SOURCE_DIR) + "/schema/fixtures/v" + version + "/sample.whence.json";
}

TEST(Sidecar, ARoundTripPreservesTheBytes) {
  const std::string text = to_json_text(sample_sidecar());
  EXPECT_EQ(to_json_text(parsed(text)), text);
  EXPECT_EQ(to_json_text(sample_sidecar()), text);
}

TEST(Sidecar, ARoundTripPreservesTheProgram) {
  const Sidecar original = sample_sidecar();
  const Sidecar copy = parsed(to_json_text(original));
  const Program& a = original.program;
  const Program& b = copy.program;
  EXPECT_EQ(b.modules[ModuleId(1)].aliases, a.modules[ModuleId(1)].aliases);
  EXPECT_EQ(b.scopes.items(), a.scopes.items());
  EXPECT_EQ(b.stacks.items(), a.stacks.items());
  EXPECT_EQ(b.values[ValueId(0)].type.dims, a.values[ValueId(0)].type.dims);
  EXPECT_FALSE(b.values[ValueId(3)].type.dims);
  const auto expected = operations(a), actual = operations(b);
  ASSERT_EQ(actual.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(qualified(*actual[i]), qualified(*expected[i]));
    EXPECT_EQ(actual[i]->outputs, expected[i]->outputs);
    EXPECT_EQ(actual[i]->origin.op, expected[i]->origin.op);
    EXPECT_EQ(actual[i]->origin.text, expected[i]->origin.text);
    ASSERT_EQ(actual[i]->arguments.size(), expected[i]->arguments.size());
    for (std::size_t k = 0; k < expected[i]->arguments.size(); ++k) {
      EXPECT_EQ(actual[i]->arguments[k].name, expected[i]->arguments[k].name);
      EXPECT_EQ(actual[i]->arguments[k].value, expected[i]->arguments[k].value) << expected[i]->arguments[k].name;
    }
  }
}

TEST(Sidecar, ContainsOnlySmallConstants) {
  const Sidecar sidecar = parsed(to_json_text(sample_sidecar()));
  const Constant& small = sidecar.program.constants[ConstantId(0)];
  ASSERT_EQ(small.data.bytes.size(), 8u);
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(small.data.bytes.in_memory().value().data()), -7);
  const Constant& large = sidecar.program.constants[ConstantId(1)];
  EXPECT_FALSE(large.data.bytes.in_memory());
  EXPECT_EQ(large.data.bytes.size(), 5000u);
  EXPECT_EQ(large.digest.size(), 32u);
  const Parameter& weight = sidecar.program.parameters[ParameterId(0)];
  EXPECT_FALSE(weight.data.bytes.in_memory());
  EXPECT_EQ(weight.data.bytes.file(), "model.pt");  // without the folder
  EXPECT_EQ(weight.data.bytes.offset(), 512u);
}

TEST(Sidecar, RefusesNamesThatAreNotUtf8) {
  Sidecar sidecar = sample_sidecar();
  sidecar.program.modules[ModuleId(1)].path = "bl\xff";
  expect_error(Code::unsupported_feature, [&] { to_json_text(sidecar); });
}

TEST(Sidecar, FilesAreWrittenAtomically) {
  const TemporaryFolder folder;
  write_sidecar(sample_sidecar(), folder / "a.whence.json");
  EXPECT_TRUE(read_sidecar(folder / "a.whence.json"));
  expect_error(Code::cannot_write, [&] { write_sidecar(sample_sidecar(), folder / "none/a.whence.json"); });
  const auto missing = read_sidecar(folder / "none");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.diagnostics().front().code, Code::missing_file);
}

// Files of every version stay readable. A change of the output needs a new version.
TEST(Sidecar, ReadsTheFrozenFiles) {
  for (const int minor : {0, 1, 2, 3, 4}) {
    const auto frozen = read_sidecar(fixture("1." + std::to_string(minor)));
    ASSERT_TRUE(frozen) << to_text(frozen.diagnostics().front());
    EXPECT_EQ(frozen->minor, minor);
    EXPECT_EQ(frozen->program.modules.size(), 3u);
    EXPECT_EQ(operations(frozen->program).size(), 4u);
    EXPECT_EQ(program_digest(frozen->program), "f375a8a5462b5e2e91ab43f726d2e657");
    // Sketches were added in 1.1.
    const std::vector<std::int8_t> sketch =
        minor < 1 ? std::vector<std::int8_t>{} : sample_sidecar().program.parameters[ParameterId(0)].sketch;
    EXPECT_EQ(frozen->program.parameters[ParameterId(0)].sketch, sketch);
    // Kinds of symbols and conditions on sizes were added in 1.2.
    EXPECT_EQ(frozen->program.symbols[SymbolId(0)].kind, minor < 2 ? SymbolKind::unknown : SymbolKind::axis);
    EXPECT_EQ(frozen->program.constraints.size(), minor < 2 ? 0u : 1u);
    // Memory layouts were added in 1.3.
    EXPECT_EQ(frozen->program.placed, minor >= 3);
    EXPECT_EQ(frozen->program.places.size(), minor < 3 ? 0u : 3u);
  }
  EXPECT_EQ(content_of(fixture("1.4")), to_json_text(sample_sidecar()));
}

// A checkpoint does not have these buffers.
TEST(Sidecar, HoldsSmallBuffersThatAreNotPersistent) {
  Sidecar sidecar = sample_sidecar();
  const std::vector<float> numbers = {1.0F, 0.5F, 0.25F};
  Parameter buffer;
  buffer.name = "frequencies";
  buffer.kind = ParameterKind::buffer;
  buffer.persistent = false;
  buffer.data = {DType::float32, {3}, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(float))};
  Parameter kept = buffer;
  kept.name = "persistent";
  kept.persistent = true;
  sidecar.program.parameters.items().push_back(buffer);
  sidecar.program.parameters.items().push_back(kept);
  const Sidecar read = parsed(to_json_text(sidecar));
  const auto& parameters = read.program.parameters.items();
  EXPECT_EQ(as_text(parameters[parameters.size() - 2].data.bytes.in_memory().value()),
            as_text(buffer.data.bytes.in_memory().value()));
  EXPECT_FALSE(parameters.back().data.bytes.in_memory());
}

// TorchScript does not know which buffers are not persistent.
TEST(Sidecar, HoldsSmallBuffersOfIntegers) {
  Sidecar sidecar = sample_sidecar();
  const std::vector<std::int64_t> numbers = {3, 1, 2};
  Parameter buffer;
  buffer.name = "positions";
  buffer.kind = ParameterKind::buffer;
  buffer.data = {DType::int64, {3}, Bytes::copy_of(numbers.data(), numbers.size() * sizeof(std::int64_t))};
  sidecar.program.parameters.items().push_back(buffer);
  const Sidecar read = parsed(to_json_text(sidecar));
  EXPECT_EQ(as_text(read.program.parameters.items().back().data.bytes.in_memory().value()),
            as_text(buffer.data.bytes.in_memory().value()));
}

TEST(Sidecar, PreservesFieldsOfNewerMinorVersions) {
  Json newer = Json::parse(to_json_text(sample_sidecar()));
  newer["version"] = "1.7";
  newer["matches"] = Json::parse(R"({"rows": [[1, "two", null]], "deep": {"z": 1, "a": 2}})");
  newer["note"] = "later";
  const std::string text = to_json_text(parsed(newer.dump()));
  const Json written = Json::parse(text);
  EXPECT_EQ(written.dump(), newer.dump());
  EXPECT_EQ(to_json_text(parsed(text)), text);
}

TEST(Sidecar, ARoundTripPreservesSizes) {
  const Program& original = sample_sidecar().program;
  const std::string text = to_json_text(sample_sidecar());
  const Program program = parsed(text).program;
  EXPECT_EQ(program.symbols[SymbolId(1)].kind, SymbolKind::derived);
  EXPECT_EQ(program.symbols[SymbolId(1)].size, Size::symbol(SymbolId(0)) * 2 + 1);
  EXPECT_EQ(program.constraints, original.constraints);
  for (const char* size : {"\"2*s1\"", "\"s7\"", "\"2*\"", "\"\"", "null", "3", "\"9223372036854775808\""}) {
    Json invalid = Json::parse(text);
    invalid["symbols"]["rows"][1][5] = Json::parse(size);
    EXPECT_NE(expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); }).find("/symbols"), std::string::npos)
        << size;
  }
  for (const char* constraint : {"\"s0\"", "\"s1 < 4\"", "\"s0 < 4 and s0 > 1\"", "3", "null"}) {
    Json invalid = Json::parse(text);
    invalid["constraints"][0] = Json::parse(constraint);
    EXPECT_NE(expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); }).find("/constraints"),
              std::string::npos);
  }
}

TEST(Sidecar, ARoundTripPreservesMemoryLayouts) {
  const Program& original = sample_sidecar().program;
  const std::string text = to_json_text(sample_sidecar());
  const Program program = parsed(text).program;
  ASSERT_EQ(program.places.size(), original.places.size());
  for (std::size_t i = 0; i < program.places.size(); ++i) {
    EXPECT_EQ(program.places[i].value, original.places[i].value);
    EXPECT_EQ(program.places[i].place, original.places[i].place);
  }
  for (const char* row : {"[]", "[400]", "[-1]", "[3, 3]", "[2, 400, \"0\", [\"1\", \"1\"]]", "[2, 2, \"0\", [\"1\"]]",
                          "[2, 2, \"d7\", [\"1\", \"1\"]]", "[3, 3, \"0\", []]", "[2, 2, 0, [\"1\", \"1\"]]", "7"}) {
    Json invalid = Json::parse(text);
    invalid["places"] = Json::array({Json::parse(row)});
    EXPECT_NE(expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); }).find("/places"), std::string::npos)
        << row;
  }
}

// In version 1.2, some reshapes have an additional argument with the observed layout.
TEST(Sidecar, OlderFilesHaveNoMemoryLayouts) {
  Json older = Json::parse(to_json_text(sample_sidecar()));
  older["version"] = "1.2";
  older.erase("places");
  Json& arguments = older["operations"]["rows"][0][5];
  arguments.push_back(older["strings"].size());
  arguments.push_back(nullptr);
  older["strings"].push_back("memory_of_self");
  const Program program = parsed(older.dump()).program;
  EXPECT_FALSE(program.placed);
  EXPECT_EQ(program.body.nodes[0].arguments.size(), sample_sidecar().program.body.nodes[0].arguments.size());
  EXPECT_EQ(place_of_owner(program, ValueId(0)), std::nullopt);
}

TEST(Sidecar, ListsOperationsWithoutAnObservedScope) {
  Sidecar sidecar = sample_sidecar();
  sidecar.program.body.nodes[0].origin.basis = ScopeBasis::enclosing;
  sidecar.program.body.nodes[1].origin.basis = ScopeBasis::inferred;
  const std::string text = to_json_text(sidecar);
  EXPECT_EQ(Json::parse(text)["enclosing"].dump(), "[0]");
  EXPECT_EQ(Json::parse(text)["version"], "1.4");
  const Sidecar parsed_sidecar = parsed(text);
  EXPECT_EQ(parsed_sidecar.program.body.nodes[0].origin.basis, ScopeBasis::enclosing);
  EXPECT_EQ(parsed_sidecar.program.body.nodes[1].origin.basis, ScopeBasis::inferred);
  EXPECT_EQ(to_json_text(parsed_sidecar), text);
  Json invalid = Json::parse(text);
  invalid["inferred"] = Json::array({4000});
  EXPECT_NE(expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); }).find("/inferred"), std::string::npos);
}

TEST(Sidecar, ARoundTripPreservesTheSignature) {
  const Signature original = sample_sidecar().program.signature;
  const Signature copy = parsed(to_json_text(sample_sidecar())).program.signature;
  EXPECT_EQ(copy.inputs, original.inputs);
  EXPECT_EQ(copy.outputs, original.outputs);
  Json invalid = Json::parse(to_json_text(sample_sidecar()));
  invalid["signature"] =
      Json::parse(R"({"columns": ["role", "kind", "name", "target", "persistent"], "rows": [["both"]]})");
  EXPECT_NE(expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); }).find("/signature"), std::string::npos);
}

TEST(Sidecar, NewerMajorVersionIsRefused) {
  Json newer = Json::parse(to_json_text(sample_sidecar()));
  newer["version"] = "2.0";
  newer.erase("operations");  // the version is checked first
  EXPECT_NE(expect_error(Code::newer_version, [&] { parsed(newer.dump()); }).find("2.0"), std::string::npos);
}

TEST(Sidecar, InvalidTextIsRefused) {
  const std::pair<std::string, Code> rows[] = {
      {"", Code::empty_file},
      {" \n", Code::empty_file},
      {std::string("PK\x03\x04zip"), Code::wrong_kind},
      {"\x08\x0aonnx", Code::wrong_kind},
      {"[1, 2]", Code::wrong_kind},
      {"{}", Code::wrong_kind},
      {R"({"format": "other"})", Code::wrong_kind},
      {R"({"format": 1})", Code::wrong_kind},
      {R"({"format": "whence-sidecar")", Code::truncated_file},
      {R"({"format": "whence-sid)", Code::truncated_file},
      {R"({"format": "whence-sidecar"})", Code::corrupt_file},
      {R"({"format": "whence-sidecar", "version": 1})", Code::corrupt_file},
      {R"({"format": "whence-sidecar", "version": "1"})", Code::corrupt_file},
      {R"({"format": "whence-sidecar", "version": "0.9"})", Code::corrupt_file},
      {R"({"format": "whence-sidecar", "version": "1.x"})", Code::corrupt_file},
      {R"({"format": "whence-sidecar", "version": "1.99999999999999999999"})", Code::corrupt_file},
      {R"({"format": "whence-sidecar"} trailing)", Code::corrupt_file},
      {"{\"format\": \"\xff\"}", Code::corrupt_file},
      {R"({"x": 1e999})", Code::corrupt_file},
      {"{\"x\": " + std::string(1'000'000, '['), Code::corrupt_file},
  };
  for (const auto& [text, code] : rows) {
    expect_error(code, [&] { parsed(text); });
  }
}

TEST(Sidecar, EveryTruncationIsAnError) {
  const std::string text = to_json_text(sample_sidecar());
  for (std::size_t size = 1; size + 2 < text.size(); size += 7) {
    EXPECT_EQ(label(parse_sidecar(text.substr(0, size), "x").diagnostics().at(0).code), label(Code::truncated_file))
        << size;
  }
}

// Each row changes one cell of a valid file. The error contains the JSON pointer of the cell.
TEST(Sidecar, ErrorsNameTheInvalidCell) {
  struct Row {
    const char* pointer;
    const char* content;
    const char* expected_pointer;  // nullptr: equals `pointer`
  };
  const Row rows[] = {
      {"/ran", "1", nullptr},
      {"/producer", "null", nullptr},
      {"/source", "[]", nullptr},
      {"/source/size", "-1", nullptr},
      {"/source/digest", "5", nullptr},
      {"/program_digest", "\"0\"", nullptr},
      {"/strings", "{}", nullptr},
      {"/strings/3", "4", nullptr},
      {"/modules", "null", nullptr},
      {"/modules/columns", "[]", nullptr},
      {"/modules/rows", "{}", nullptr},
      {"/modules/rows", "[]", nullptr},
      {"/modules/rows/1", "[]", nullptr},
      {"/modules/rows/1/0", "99", nullptr},
      {"/modules/rows/1/0", "-1", nullptr},
      {"/modules/rows/1/0", "1.0", nullptr},
      {"/modules/rows/1/0", "\"path\"", nullptr},
      {"/modules/rows/0/2", "0", nullptr},
      {"/modules/rows/1/2", "1", nullptr},
      {"/modules/rows/1/2", "-1", nullptr},
      {"/modules/rows/2/4", "[0]", "/modules"},
      {"/modules/rows/2/4", "[3]", nullptr},
      {"/modules/rows/1/6", "0", nullptr},
      {"/modules/rows/1/7", "[2]", nullptr},
      {"/modules/rows/1/8", "18446744073709551615", nullptr},
      {"/scopes/rows", "[]", nullptr},
      {"/scopes/rows/2/0", "2", nullptr},
      {"/scopes/rows/2/1", "3", nullptr},
      {"/stacks/rows/0/0", "[7]", nullptr},
      {"/parameters/rows/0/2", "\"weight\"", nullptr},
      {"/parameters/rows/0/5", "\"float31\"", nullptr},
      {"/parameters/rows/0/5", "\"torch.float32\"", nullptr},
      {"/parameters/rows/0/6", "[5, 3]", "/parameters/rows/0/10"},
      {"/parameters/rows/0/6", "[-4, 3]", "/parameters/rows/0/6"},
      {"/parameters/rows/0/6", "[4294967296, 4294967296, 4]", "/parameters/rows/0/10"},
      {"/constants/rows/0/4", "\"!\"", nullptr},
      {"/constants/rows/0/4", "\"AAAA\"", nullptr},
      {"/constants/rows/1/6", "[4]", nullptr},
      {"/values/rows/0/1", "\"matrix\"", nullptr},
      {"/values/rows/0/3", "[[2]]", nullptr},
      {"/values/rows/0/3", "[[2, 2]]", nullptr},
      {"/values/rows/0/3", "[-2]", nullptr},
      {"/values/rows/0/5", "1", nullptr},
      {"/values/rows/0/6", "2", nullptr},
      {"/inputs/rows/0/1", "8", nullptr},
      {"/outputs/rows/0/1", "{\"value\": 8}", nullptr},
      {"/blocks/rows", "[]", nullptr},
      {"/blocks/rows/0/0", "0", nullptr},
      {"/blocks/rows/1/0", "-1", nullptr},
      {"/blocks/rows/1/0", "2", "/operations"},
      {"/operations/rows/0/2", "5", nullptr},
      {"/operations/rows/0/3", "2", nullptr},
      {"/operations/rows/0/5", "[1]", nullptr},
      {"/operations/rows/0/5", "[1, {}]", nullptr},
      {"/operations/rows/0/5", "[1, {\"value\": 0, \"float\": 1}]", nullptr},
      {"/operations/rows/0/5", "[1, {\"float\": \"one\"}]", nullptr},
      {"/operations/rows/0/5", "[1, {\"complex\": [1]}]", nullptr},
      {"/operations/rows/0/5", "[1, {\"weights\": 1}]", nullptr},
      {"/operations/rows/0/5", "[1, \"text\"]", nullptr},
      {"/operations/rows/0/6", "2", nullptr},
      {"/operations/rows/3/6", "[3, 6]", "/operations/rows/3"},
      {"/operations/rows/0/8", "3", nullptr},
      {"/operations/rows/0/8", "1", "/operations"},
      {"/bindings/rows/0/0", "null", nullptr},
  };
  const Json valid = Json::parse(to_json_text(sample_sidecar()));
  for (const Row& row : rows) {
    Json invalid = valid;
    const Json::json_pointer pointer{std::string(row.pointer)};
    ASSERT_TRUE(invalid.contains(pointer)) << row.pointer;
    invalid[pointer] = Json::parse(row.content);
    const std::string text = expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); });
    EXPECT_NE(text.find(row.expected_pointer != nullptr ? row.expected_pointer : row.pointer), std::string::npos)
        << row.pointer << " = " << row.content << ": " << text;
  }
}

// A newer minor version may append columns.
TEST(Sidecar, PreservesColumnsOfNewerMinorVersions) {
  Json newer = Json::parse(to_json_text(sample_sidecar()));
  newer["scopes"]["columns"].push_back("thread");
  for (Json& row : newer["scopes"]["rows"]) row.push_back({{"id", 7}});
  newer["version"] = "1.9";
  EXPECT_EQ(Json::parse(to_json_text(parsed(newer.dump()))).dump(), newer.dump());

  newer["scopes"]["rows"][1].erase(3);
  expect_error(Code::corrupt_file, [&] { parsed(newer.dump()); });
}

TEST(Sidecar, ErrorsNameTheMissingField) {
  const Json valid = Json::parse(to_json_text(sample_sidecar()));
  for (const auto field : sidecar_form::fields) {
    if (field == "format") continue;  // without it, the file is not a sidecar
    Json invalid = valid;
    invalid.erase(std::string(field));
    const std::string text = expect_error(Code::corrupt_file, [&] { parsed(invalid.dump()); });
    EXPECT_NE(text.find("/" + std::string(field)), std::string::npos) << text;
  }
}

TEST(Sidecar, JsonSchemaMatchesTheWrittenFields) {
  const Json schema = Json::parse(content_of(std::string(WHENCE_SOURCE_DIR) + "/schema/sidecar.schema.json"));
  const Json written = Json::parse(to_json_text(sample_sidecar()));
  Json names = Json::array(), fields(sidecar_form::fields);
  for (const auto& [name, content] : written.items()) {
    names.push_back(name);
    if (!content.is_object() || !content.contains("columns")) continue;
    const Json& table = schema["properties"][name]["properties"];
    Json columns = Json::array();
    for (const Json& column : table["columns"]["prefixItems"]) columns.push_back(column["const"]);
    EXPECT_EQ(columns.dump(), content["columns"].dump()) << name;
    EXPECT_EQ(table["rows"]["items"]["prefixItems"].size(), content["columns"].size()) << name;
    EXPECT_EQ(table["rows"]["items"]["minItems"], table["columns"]["minItems"]) << name;
  }
  Json written_fields = fields;
  written_fields.push_back(sidecar_form::constraints);
  written_fields.push_back(sidecar_form::places);
  EXPECT_EQ(names.dump(), written_fields.dump());
  EXPECT_EQ(schema["required"].dump(), fields.dump());
}

}  // namespace
}  // namespace whence
