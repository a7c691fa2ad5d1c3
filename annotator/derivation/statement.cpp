#include "annotator/derivation/statement.h"

#include <algorithm>
#include <utility>

#include "annotator/derivation/distinct_keys.h"
#include "annotator/onnx_file/carried_data.h"
#include "annotator/onnx_file/data_file.h"
#include "schema/files/files.h"
#include "schema/files/sha256.h"
#include "schema/printable.h"

namespace whence::derivation {
namespace {

using Json = nlohmann::ordered_json;

bool has_array(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_array();
}

bool has_text(const Json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string();
}

bool has_digest(const Json& file) {
  return has_text(file, "name") && file.contains("digest") && has_text(file["digest"], "sha256");
}

bool is_source(const Json& file) {
  constexpr std::size_t digits = 64;
  if (!has_digest(file)) return false;
  const auto& digest = file["digest"]["sha256"].get_ref<const std::string&>();
  return digest.size() == digits && digest.find_first_not_of("0123456789abcdef") == std::string::npos;
}

template <class Check>
bool has_list_of(const Json& predicate, const char* key, const Check& check) {
  return has_array(predicate, key) && std::ranges::all_of(predicate[key], check);
}

// Returns what the predicate lacks of what attest always writes; "" if nothing.
std::string missing_in(const Json& predicate) {
  const auto is_text = [](const Json& each) { return each.is_string(); };
  const auto is_object = [](const Json& each) { return each.is_object(); };
  if (!has_list_of(predicate, "sources", is_source) || predicate["sources"].empty())
    return "sources with name and SHA-256";
  if (!has_list_of(predicate, "absent", is_object)) return "a list of absent parameters";
  return has_list_of(predicate, "differences", is_text) ? "" : "a list of differences";
}

}  // namespace

std::vector<FileDigest> digests_of(const std::string& path, const onnx_file::OnnxSummary& model) {
  std::vector<FileDigest> files = {{base_name(path), sha256_of_file(path)}};
  for (const auto& [location, end] : onnx_file::data_files_of(model).locations) {
    const std::string data = onnx_file::require_data_file(path, location, {.file = path, .stage = "read"}).string();
    files.push_back({location, sha256_of_file(data)});
  }
  return files;
}

Statement Statement::read(const std::string& path) {
  const Place place{.file = path, .stage = "read"};
  const auto text = MappedFile::open(path);
  Json json = parse_distinct(text->text(), place);
  const bool is_statement = has_array(json, "subject") && json.contains("predicate") &&
                            has_array(json["predicate"], "tensors") && has_array(json["predicate"], "nodes");
  const auto states = [&](const char* key, std::string_view value) {
    return is_statement && has_text(json, key) && json[key].get_ref<const std::string&>() == value;
  };
  if (!states("_type", statement_type) || !states("predicateType", predicate_type)) {
    throw Error(Code::wrong_kind, "the file is not a statement of `whence attest`, or of another version",
                "pass the file of `whence attest -o`", place);
  }
  const auto corrupt = [&](const std::string& what) {
    return Error(Code::corrupt_file, "the statement has " + what, "write it again with `whence attest`", place);
  };
  Statement statement;
  for (const Json& file : json["subject"]) {
    if (!has_digest(file)) throw corrupt("a subject without name or SHA-256");
    statement.subject.push_back({file["name"].get<std::string>(), file["digest"]["sha256"].get<std::string>()});
  }
  if (const std::string missing = missing_in(json["predicate"]); !missing.empty()) throw corrupt("no " + missing);
  statement.predicate = std::move(json["predicate"]);
  return statement;
}

std::optional<std::string> Statement::difference(const std::vector<FileDigest>& files) const {
  // The order of subjects has no meaning in in-toto's form.
  if (std::ranges::find(subject, files.front().sha256, &FileDigest::sha256) == subject.end())
    return "the statement is about another file";
  for (std::size_t i = 1; i < files.size(); ++i) {
    const auto stated = std::ranges::find(subject, files[i].name, &FileDigest::name);
    if (stated == subject.end() || stated->sha256 != files[i].sha256) {
      return "the statement is about another content of the data file '" + printable(files[i].name) + "'";
    }
  }
  return std::nullopt;
}

}  // namespace whence::derivation
