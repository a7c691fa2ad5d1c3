// PageRelease: releases the pages of a mapped file at intervals, however often and in which order it is read, so that
// little of a large file is in memory at a time. Released pages stay readable.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>

#include "schema/files/files.h"

namespace whence::onnx_file {

class PageRelease {
 public:
  explicit PageRelease(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  void was_read(std::size_t bytes) {
    if (read_.fetch_add(bytes, std::memory_order_relaxed) + bytes < interval) return;
    read_.store(0, std::memory_order_relaxed);
    file_->release_all();
  }

 private:
  static constexpr std::size_t interval = std::size_t{32} << 20;  // bytes; releasing them takes negligible time

  std::shared_ptr<const MappedFile> file_;
  std::atomic<std::size_t> read_ = 0;
};

}  // namespace whence::onnx_file
