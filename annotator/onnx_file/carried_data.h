// The files with a model's weights, when the model is written under another name.
//
// If the output is in the same folder, a data file stays and keeps its name. If the output is in another folder, or if
// ModelOutput::copy_data requests it, the data file is copied next to the output, under a name that begins with the
// output's name, so that two models in one folder never share a name by chance:
//
//   location in m.onnx   location in out/one.onnx
//   m.onnx_data          one.onnx_data               the output's name replaces the model's at the beginning
//   w.bin                one.onnx.data               the model's only data file
//   w.bin, s/v.bin       one.onnx.w.bin, one.onnx.s_v.bin
//
// The output records the former names. Strip restores a former name if no file has it, or if that file has the same
// bytes. An existing file with the new name stays if it has the same bytes; otherwise it is replaced only with
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
  template <std::convertible_to<std::string> Path>  // keeps the template from replacing the copy constructor
  // NOLINTNEXTLINE(bugprone-forwarding-reference-overload)
  ModelOutput(Path&& file) : path(std::forward<Path>(file)) {}

  std::string path;
  bool overwrite = false;                // data files with other content may be replaced
  bool draft = false;                    // for internal use, to be read as a ModelSource; its data is not copied
  bool copy_data = false;                // copies the data even if the output could refer to the model's files
  std::vector<std::string> needed = {};  // files that the command reads and that are never replaced
  Diagnostics* notes = nullptr;          // receives a note about data files that model and output share
};

using Locations = std::map<std::string, std::string, std::less<>>;  // from one location of a data file to another

struct DataFiles {
  // End of the last tensor in each file, in bytes, by the file's location. The empty location is for tensors that name
  // no file.
  std::map<std::string, std::uint64_t> locations;
  Locations former;  // from the present location to the one before whence copied the file

  // Adds a tensor with the `offset` and `length` in the file; an empty text counts as 0. Throws Error(corrupt_file) if
  // they are not numbers or their sum is too large.
  void add(std::string_view location, std::string_view offset, std::string_view length);
};

// Returns the data files of the model's tensors: initializers and attributes, also in functions and bodies.
DataFiles data_files_of(const OnnxSummary& model);
// Parses the model's metadata under the key data_files. Entries that are not strings are ignored.
Locations parse_former(std::string_view text);

// Returns the new file for weights. Throws Error: cannot_write if `target` exists; usage if the command reads or writes
// it.
AtomicFile& add_new_data_file(const std::string& target, const ModelOutput& output, OutputFiles& files);
// Returns the new file for the content of `data`; null if `target` already exists with the same bytes. Throws Error:
// cannot_write if `target` exists with other bytes; usage if the command reads or writes `target`.
AtomicFile* add_data_file(const std::string& data, const std::string& target, const ModelOutput& output,
                          OutputFiles& files);

class CarriedData {
 public:
  // `restore`: uses the former names. Throws Error: the errors of require_data_file(), but a file that stays may be
  // missing; truncated_file if a file to copy ends before its last tensor; usage if the output itself is a data file.
  CarriedData(const DataFiles& files, const std::string& model, const ModelOutput& output, bool restore = false);

  const Locations& new_locations() const { return new_names_; }  // new names of copied files
  std::string former() const;                                    // value of the model's key data_files; empty: no key
  void add_to(OutputFiles& files) const;                         // throws the errors of add_data_file()

 private:
  bool stays(const std::string& location) const;
  void report_shared() const;
  bool is_available(const std::string& location, const std::string& data) const;
  std::string new_name(const std::string& location, bool only_one) const;

  std::string model_;
  const ModelOutput& output_;
  Locations new_names_, former_;
  std::map<std::string, FileIdentity> kept_;  // data files that stay
};

}  // namespace whence::onnx_file
