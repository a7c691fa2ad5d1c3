// Archive: a TorchScript file loaded by LibTorch, with its weights left in the mapped file.
//
// LibTorch copies each tensor it reads into fresh memory. The reader below it here answers large reads without copying
// and notes which part of the file each buffer stands for, so that each storage can then be pointed at the mapped file:
// loading reads no weights, running reads only those it computes with, and each tensor's place in the file is known.
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
  // Errors: missing_file, empty_file, wrong_kind (no zip, a torch.export archive, a plain torch.save file),
  // truncated_file, corrupt_file, unsupported_feature (operators that this LibTorch does not know).
  explicit Archive(const std::string& path);

  torch::jit::Module& module() { return module_; }
  const std::string& path() const { return path_; }

  // Returns the mark of an archive that was made of a live C++ module.
  std::optional<LiveMark> live();

  // Returns the example inputs as the trace recorded them: tensors have dtype and shape, but not their values.
  // None when the archive holds no trace.
  c10::IValue traced_inputs();

  // Returns the bytes of a contiguous tensor: a span of the archive if the tensor lies there, else a copy in memory.
  Bytes bytes_of(const at::Tensor& tensor, std::string* member = nullptr) const;

 private:
  void point_storages_at_file();

  std::string path_;
  std::shared_ptr<MappedReader> reader_;
  std::shared_ptr<torch::jit::CompilationUnit> unit_;
  torch::jit::Module module_;
  std::map<std::uint64_t, std::string> members_;  // archive members that hold weights, by offset
};

// Operators that reach outside the program: files, processes, Python. Throws Error(side_effect) naming the first ones,
// before anything of the program has run.
void refuse_side_effects(Archive& archive);

}  // namespace whence::recorder::archive
