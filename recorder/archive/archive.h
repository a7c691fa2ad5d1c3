// Archive: a TorchScript file as LibTorch loads it, with its weights left where they are.
//
// LibTorch copies each tensor it reads into fresh memory. Here the reader below it answers large reads without copying
// and remembers what was asked for where, so that afterwards each storage can be pointed at the mapped file: loading
// touches no weight, running touches only what it computes with, and each tensor's place in the file is known.
#pragma once

#include <memory>
#include <string>

#include "recorder/base/torch_pch.h"
#include "schema/files/files.h"

namespace whence::recorder {

class MappedReader;

class Archive {
 public:
  // Errors: missing_file, empty_file, wrong_kind (no zip, a torch.export archive, a plain torch.save file),
  // truncated_file, corrupt_file, unsupported_feature (operators that this LibTorch does not know).
  explicit Archive(const std::string& path);

  torch::jit::Module& module() { return module_; }
  const std::string& path() const { return path_; }

  enum class Live { no, kept, gone };
  // Made of a live C++ module; gone: the archive lasts only as long as the recording.
  Live live();

  // What the trace recorded of its example inputs: tensors carry dtype and shape, their values are not stored.
  // None when the archive holds no trace.
  c10::IValue traced_inputs();

  // The bytes of a contiguous tensor: a span of the archive when it lies there, else a copy in memory.
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

}  // namespace whence::recorder
