// TensorSources: which parameters of the reference an initializer of the foreign file may hold, found by its name, by
// digests of its bytes (`tensor_content.h`), by sketches (`tensor_sketches.h`), and by sizes that only one parameter
// has.
//
// Exporters store equal tensors once, under the name of one of them. So the name of a parameter with equals may also
// mean each of the equals that the file does not name.
//
// Bytes are read once, directly from the mapped file, by one thread for each core, and released again. Tensors with a
// size that fits no parameter are not read.
#pragma once

#include <cstdint>
#include <vector>

#include "annotator/match/file_structure.h"
#include "annotator/match/match.h"
#include "annotator/match/reference.h"

namespace whence::match {

struct TensorSource {
  // part: the tensor has several blocks, and the parameter is one of them; sketch: other bytes, the same elements
  // except for rounding and scales; shape: no other parameter has its sizes
  enum class How : std::uint8_t { name, bytes, part, sketch, shape };
  ParameterIndex parameter;
  How how = How::name;
  double candidates = 1;   // number of parameters that fit as well
  bool is_common = false;  // content of many constants, all zeros or all ones: no proof by itself

  // Returns true for a name that may mean other parameters as well.
  bool is_open_name() const { return how == How::name && candidates > 1; }
  bool by_content() const { return how == How::bytes || how == How::part; }
};

class TensorSources {
 public:
  TensorSources(const onnx_file::OnnxSummary& model, const FileStructure<Side::foreign>& file,
                const Reference& reference);

  const std::vector<TensorSource>& of(ForeignTensor tensor) const { return sources_[tensor]; }

  const ParameterCounts& counts() const { return counts_; }
  const WeightCounts& weights() const { return weights_; }

 private:
  void match_names(const ForeignStructure& foreign, const Reference& reference);
  void match_bytes(const onnx_file::OnnxSummary& model, const FileStructure<Side::foreign>& file,
                   const Reference& reference);
  void open_names_of_equals(const ForeignStructure& foreign, const Reference& reference);
  void match_shapes(const ForeignStructure& foreign, const Reference& reference);
  void count(const ForeignStructure& foreign, const Reference& reference);

  IndexedVector<ForeignTensor, std::vector<TensorSource>> sources_;
  ParameterCounts counts_;
  WeightCounts weights_;
};

}  // namespace whence::match
