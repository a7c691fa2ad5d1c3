// The files with a model's weights, when the model is written under another name.
//
// A data file stays where it is, and keeps its name, as long as the output finds it there: in the same folder. Beside
// an output in another folder it is copied, under a name that begins with the output's, so that two models in one
// folder never share a name by chance. So it is on request (ModelOutput::copy_data) in the same folder, too:
//
//   location in m.onnx   location in out/one.onnx
//   m.onnx_data          one.onnx_data               a name that begins with the model's begins with the output's
//   w.bin                one.onnx.data               the model's only data file
//   w.bin, s/v.bin       one.onnx.w.bin, one.onnx.s_v.bin
//
// The output records the former names, and strip restores them where no file has the name or the file there holds the
// same bytes. A file that already has the new name and the same bytes stays; one with other bytes is replaced only with
// `overwrite`.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "annotator/onnx_file/onnx_summary.h"
#include "schema/files/output_files.h"

namespace whence::onnx_file {

// A model file to write.
struct ModelOutput {
  template <std::convertible_to<std::string> Path>  // which keeps it from standing for a copy
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  ModelOutput(Path&& file) : path(std::forward<Path>(file)) {}

  std::string path;
  bool overwrite = false;                // data files that hold something else may be replaced
  bool draft = false;                    // for whence alone, to be read as ModelSource: its data is not copied
  bool copy_data = false;                // files of its own also where it could name those of the model
  std::vector<std::string> needed = {};  // files that are never replaced: what the command reads
  Diagnostics* notes = nullptr;          // receives a note on data files that the model and the output share
};

using Locations = std::map<std::string, std::string, std::less<>>;  // from one location of a data file to another

struct DataFiles {
  // End of the last tensor in each file, in bytes, by the file's location. The empty location stands for tensors that
  // name no file.
  std::map<std::string, std::uint64_t> locations;
  Locations former;  // before whence copied them

  // Adds a tensor with its `offset` and `length` as a file states them; an empty text counts as 0. Throws
  // Error(corrupt_file) for anything but digits, and for a sum that is too large.
  void add(std::string_view location, std::string_view offset, std::string_view length);
};

// Returns the data files that tensors of the model name: initializers and attributes, also in functions and bodies.
DataFiles data_files_of(const OnnxSummary& model);
// Parses the model's metadata under the key data_files. Entries that are not strings are ignored.
Locations parse_former(std::string_view text);

// The new file for the content of `data`; null when the same bytes stand under the name `target` already. Throws Error:
// cannot_write when other bytes stand there; usage for a file that the command reads or writes.
AtomicFile* add_data_file(const std::string& data, const std::string& target, const ModelOutput& output,
                          OutputFiles& files);

class CarriedData {
 public:
  // `restore`: under the former names. Throws Error: what require_data_file() throws (a file that stays may be
  // missing); truncated_file when a file that is copied ends before its last tensor; usage when the output itself is
  // one of the data files.
  CarriedData(const DataFiles& files, const std::string& model, const ModelOutput& output, bool restore = false);

  const Locations& new_locations() const { return names_; }  // new names of copied files
  std::string former() const;                                // for the model's key data_files; empty: leave it out
  void add_to(OutputFiles& files) const;                     // throws what add_data_file() throws

 private:
  bool stays(const std::string& location) const;
  void report_shared() const;
  bool free_for(const std::string& location, const std::string& data) const;
  std::string new_name(const std::string& location, bool only_one) const;

  std::string model_;
  const ModelOutput& output_;
  Locations names_, former_;
  std::map<std::string, FileIdentity> kept_;  // data files that stay
};

}  // namespace whence::onnx_file
