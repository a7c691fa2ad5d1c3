// Archive: a TorchScript file loaded by LibTorch, with its weights left in the mapped file.
//
// LibTorch copies each tensor that it reads into new memory. MappedReader skips the copy for weights and notes the file
// range of each buffer; each storage is then pointed at the mapped file. So loading reads no weights, running reads
// only the weights that it uses, and each tensor's offset in the file is known.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "recorder/base/live_mark.h"
#include "recorder/base/torch_pch.h"
#include "schema/files/files.h"

namespace whence::recorder::archive {

class MappedReader;

class Archive {
 public:
  // Errors: missing_file, empty_file, wrong_kind (not a zip, a torch.export archive, a plain torch.save file),
  // truncated_file, corrupt_file, unsupported_feature (operators that this LibTorch does not have).
  explicit Archive(const std::string& path);

  torch::jit::Module& module() { return module_; }
  const std::string& path() const { return path_; }

  // Returns the mark of an archive that was made from a live C++ module; none for other archives.
  std::optional<LiveMark> live();

  // Returns the example inputs as the trace recorded them: tensors have dtype and shape, but not their values. Returns
  // None if the archive has no trace.
  c10::IValue traced_inputs();

  // Returns the tensor's bytes in row-major order: a span of the archive if the tensor is stored there, else memory of
  // the tensor or of a contiguous copy. Sets `member` to the archive member that contains them.
  Bytes bytes_of(const at::Tensor& tensor, std::string* member = nullptr) const;

 private:
  void point_storages_at_file();

  std::string path_;
  std::shared_ptr<MappedReader> reader_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;
  std::map<std::uint64_t, std::string> members_;  // archive members with weights, by offset
};

// Throws Error(side_effect) if the program has operators that reach outside it: files, processes, Python. The message
// names them. To be called before any part of the program runs.
void refuse_side_effects(Archive& archive);

}  // namespace whence::recorder::archive
