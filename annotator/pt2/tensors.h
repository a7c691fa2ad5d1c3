// Tensors of a torch.export archive: their metadata, and the location of their bytes.
#pragma once

#include <map>
#include <string>

#include "annotator/pt2/part.h"
#include "schema/files/zip_archive.h"
#include "schema/program.h"

namespace whence::pt2 {

// Maps ScalarType of torch/_export/serde/schema.py; undefined for types that whence does not support.
DType exported_dtype(std::int64_t scalar_type);

// Return layouts and memory formats by PyTorch's names: "strided", "channels_last".
std::string exported_layout(std::int64_t layout);
std::string exported_memory_format(std::int64_t format);

// One of the two folders with tensors: data/weights, data/constants.
class StoredTensors {
 public:
  // `folder`: the prefix of the member names, "model/data/weights/".
  StoredTensors(const ZipArchive& archive, std::string folder, const std::string& config);

  struct Tensor {
    TensorData data;  // row-major; a span of the archive if it is stored that way
    std::string member;
    std::string storage;  // equal for tensors with the same bytes and strides
    bool requires_grad = false;
  };
  bool has(const std::string& name) const { return tensors_.contains(name); }
  // Throws Error(corrupt_file) if there is no tensor of that name.
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
