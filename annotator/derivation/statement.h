// A statement of `whence attest`: which files it is about, and what it says of them. Whoever reads one checks that it
// is about the files at hand.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"

namespace whence::derivation {

inline constexpr std::string_view statement_type = "https://in-toto.io/Statement/v1";
inline constexpr std::string_view predicate_type = "urn:whence:attestation:1";

// A file with its SHA-256.
struct FileDigest {
  std::string name, sha256;
};

// Returns the digests of a model's file and of its data files, by their locations. Throws Error: missing_file,
// outside_folder.
std::vector<FileDigest> digests_of(const std::string& path, const onnx_file::OnnxSummary& model);

struct Statement {
  std::vector<FileDigest> subject;
  // An object with the arrays `tensors`, `nodes`, `absent` (objects), `differences` (texts) and `sources` (names with
  // SHA-256, at least one).
  nlohmann::ordered_json predicate;

  // Throws Error: missing_file; wrong_kind for another file; corrupt_file, also for a key that is written twice.
  static Statement read(const std::string& path);

  // Returns how the model's files differ from those that the statement is about; nullopt if they are the same. The
  // model may have another name; data files may not.
  std::optional<std::string> difference(const std::vector<FileDigest>& files) const;
};

}  // namespace whence::derivation
