// Tensors of a torch.export archive: what the program says of them, and where their bytes lie.
#pragma once

#include <map>
#include <string>

#include "annotator/pt2/part.h"
#include "schema/files/zip_archive.h"
#include "schema/program.h"

namespace whence::pt2 {

// torch/_export/serde/schema.py, ScalarType; undefined for what whence has no type for.
DType exported_dtype(std::int64_t scalar_type);

// The layout and memory-format enumerations, by PyTorch's names: "strided", "channels_last".
std::string exported_layout(std::int64_t layout);
std::string exported_memory_format(std::int64_t format);

// One of the two folders that hold tensors: data/weights, data/constants.
class StoredTensors {
 public:
  // `folder`: the member names' beginning, "model/data/weights/".
  StoredTensors(const ZipArchive& archive, std::string folder, const std::string& config);

  struct Tensor {
    TensorData data;  // row-major, a span of the archive wherever it lies so there
    std::string member;
    std::string storage;  // equal for tensors that see the same bytes in the same way
    bool requires_grad = false;
  };
  bool has(const std::string& name) const { return tensors_.contains(name); }
  // Throws Error(corrupt_file) when there is none of that name.
  const Tensor& of(const std::string& name) const;
  const std::map<std::string, Tensor>& all() const { return tensors_; }

 private:
  Tensor read(const Part& payload) const;
  void require_sane(const std::vector<std::int64_t>& sizes, std::size_t element) const;

  const ZipArchive& archive_;
  std::string folder_;
  Reading reading_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace whence::pt2
