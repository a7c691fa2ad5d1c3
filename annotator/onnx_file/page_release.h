// PageRelease: gives back the pages of a mapped file while its nodes are gone through in order, so that names and
// metadata of a large file are never in memory all at once. What was given back stays readable.
#pragma once

#include <cstddef>

#include "schema/files/files.h"

namespace whence::onnx_file {

class PageRelease {
 public:
  explicit PageRelease(const MappedFile& file) : file_(file) {}
  PageRelease(const PageRelease&) = delete;
  PageRelease& operator=(const PageRelease&) = delete;
  ~PageRelease() { file_.release_all(); }

  void after_node() {
    if (++nodes_ % interval == 0) file_.release_all();
  }

 private:
  static constexpr std::size_t interval = 100'000;  // nodes: some 60 MB, and no time to speak of

  const MappedFile& file_;
  std::size_t nodes_ = 0;
};

}  // namespace whence::onnx_file
