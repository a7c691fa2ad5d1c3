// Parses a sidecar: checks that the text is a complete sidecar of a supported version and reads the header.
// program_reader.cpp reads the tables.
#include <algorithm>

#include "schema/files/files.h"
#include "schema/json_text.h"
#include "schema/sidecar/form.h"
#include "schema/sidecar/program_reader.h"
#include "schema/sidecar/row_reader.h"
#include "schema/sidecar/sidecar.h"

namespace whence {
namespace {

constexpr int max_levels = 64;  // our sidecars need 9, plus the depth of nested list arguments

// Refuses other files by their first bytes.
void check_text(std::string_view text, const Place& place) {
  const std::size_t start = text.find_first_not_of(" \t\r\n");
  if (start == std::string_view::npos) {
    throw Error(Code::empty_file, "the file is empty", "write the file again with whence record", place);
  }
  if (text.starts_with("PK\x03\x04")) {
    throw Error(Code::wrong_kind, "this is a zip archive (a PyTorch model?), not a sidecar",
                "make its sidecar first: whence record MODEL -o model.whence.json", place);
  }
  if (text[start] != '{') {
    throw Error(Code::wrong_kind, "this is not a sidecar: it does not start with '{'",
                "pass the .whence.json that whence record wrote", place);
  }
}

std::unique_ptr<const JsonDocument> parse_json(std::string_view text, const Place& place) {
  JsonDocument::Failure failure;
  if (auto document = JsonDocument::parse(text, max_levels, &failure)) return document;
  if (failure.at_end) {
    throw Error(Code::truncated_file, "the file ends in the middle", "copy it again, or write it with whence record",
                place);
  }
  const std::string refused =
      failure.too_deep ? "nested deeper than " + std::to_string(max_levels) + " levels" : "not JSON";
  throw Error(Code::corrupt_file, refused + " at byte " + std::to_string(failure.byte),
              "write the file again with whence record", place);
}

class Reader {
 public:
  Reader(JsonValue document, const std::string& file) : document_(document), text_{file, {}} {}

  Sidecar read() {
    Sidecar sidecar;
    sidecar.minor = minor_version();
    read_strings();
    sidecar.program = read_program(document_, text_);
    read_header(sidecar.program);
    sidecar.bindings = bindings();
    if (document_.find("complete")) sidecar.complete = field("complete", JsonKind::boolean).flag();
    sidecar.unknown = unknown();
    sidecar.unknown_columns = unknown_columns();
    if (field("program_digest", JsonKind::string).text() != program_digest(sidecar.program)) {
      text_.corrupt("/program_digest", "the digest does not match the operations: the file was changed");
    }
    return sidecar;
  }

 private:
  JsonValue field(const std::string& name, JsonKind kind) const {
    const auto found = document_.find(name);
    if (!found) text_.corrupt("/" + name, "the field is missing");
    if (found->kind() != kind) text_.corrupt("/" + name, std::string("expected ") + name_of(kind));
    return *found;
  }

  static const char* name_of(JsonKind kind) {
    return kind == JsonKind::boolean  ? "true or false"
           : kind == JsonKind::string ? "a string"
           : kind == JsonKind::object ? "an object"
                                      : "a list";
  }

  int minor_version() const {
    const Place place{.file = text_.file, .stage = "read"};
    const auto format = document_.find("format");
    if (!format || !format->is_string() || format->text() != sidecar_form::format) {
      throw Error(Code::wrong_kind, "this JSON file is not a sidecar: it lacks \"format\": \"whence-sidecar\"",
                  "pass the .whence.json that whence record wrote", place);
    }
    const std::string version(field("version", JsonKind::string).text());
    const std::size_t dot = version.find('.');
    const auto number = [&](std::string_view digits) {
      const bool valid = !digits.empty() && digits.size() < 7 &&
                         std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
      if (!valid) text_.corrupt("/version", "'" + version + "' is not a version: expected MAJOR.MINOR");
      return std::stoi(std::string(digits));
    };
    const int major = number(std::string_view(version).substr(0, dot));
    const int minor = number(dot == std::string::npos ? "" : std::string_view(version).substr(dot + 1));
    if (major > sidecar_major) {
      throw Error(Code::newer_version,
                  "the sidecar has version " + version + "; this whence reads " + std::to_string(sidecar_major) + ".x",
                  "use a newer whence, or record the model again with this one", place);
    }
    if (major < 1) text_.corrupt("/version", "there is no version " + version);
    return minor;
  }

  void read_header(Program& program) const {
    program.producer = field("producer", JsonKind::string).text();
    program.ran = field("ran", JsonKind::boolean).flag();
    const JsonValue source = field("source", JsonKind::object);
    const auto part = [&](const char* name) -> std::string {
      const auto found = source.find(name);
      if (!found || !found->is_string()) text_.corrupt(std::string("/source/") + name, "expected a string");
      return std::string(found->text());
    };
    const auto size = source.find("size");
    if (!size || !size->is_unsigned()) text_.corrupt("/source/size", "expected a number of bytes");
    program.source = {part("kind"), part("file"), size->unsigned_integer(), part("digest")};
  }

  void read_strings() {
    const JsonValue strings = field("strings", JsonKind::array);
    text_.strings.reserve(strings.size());
    for (std::size_t i = 0; i < strings.size(); ++i) {
      if (!strings[i].is_string()) text_.corrupt("/strings/" + std::to_string(i), "expected a string");
      text_.strings.emplace_back(strings[i].text());
    }
  }

  std::vector<Binding> bindings() const {
    return TableReader(text_, document_, sidecar_form::bindings).read<Binding>([](RowReader& row) {
      Binding binding;
      binding.file = row.next().word();
      binding.digest = row.next().word();
      binding.opset = static_cast<int>(row.next().integer(0, INT32_MAX));
      binding.nodes = row.next().size();
      return binding;
    });
  }

  std::shared_ptr<const std::string> unknown() const {
    Json unknown = Json::object();
    for (std::size_t i = 0; i < document_.size(); ++i) {
      const std::string_view name = document_.key(i);
      const auto& known = sidecar_form::fields;
      const auto& bases = sidecar_form::bases;
      const bool known_key = std::find(known.begin(), known.end(), name) != known.end() ||
                             std::find(bases.begin(), bases.end(), name) != bases.end() ||
                             name == sidecar_form::constraints || name == sidecar_form::places ||
                             name == sidecar_form::complete;
      if (!known_key) unknown[std::string(name)] = document_.member(i).to_json();
    }
    return unknown.empty() ? nullptr : std::make_shared<const std::string>(json_text(unknown));
  }

  std::shared_ptr<const std::string> unknown_columns() const {
    Json unknown = Json::object();
    for (const sidecar_form::Table* form : sidecar_form::tables) {
      Json columns = TableReader(text_, document_, *form).unknown_columns();
      if (!columns.is_null()) unknown[std::string(form->name)] = std::move(columns);
    }
    return unknown.empty() ? nullptr : std::make_shared<const std::string>(json_text(unknown));
  }

  JsonValue document_;
  SidecarText text_;
};

}  // namespace

Result<Sidecar> parse_sidecar(std::string_view text, const std::string& file) {
  return guarded([&] {
    const Place place{.file = file, .stage = "read"};
    check_text(text, place);
    const auto document = parse_json(text, place);
    return Reader(document->root(), file).read();
  });
}

Result<Sidecar> read_sidecar(const std::string& path) {
  return guarded([&] {
    const auto file = MappedFile::open(path);
    Result<Sidecar> sidecar = parse_sidecar(file->text(), path);
    if (!sidecar) throw Error(sidecar.diagnostics());
    return std::move(*sidecar);
  });
}

}  // namespace whence
