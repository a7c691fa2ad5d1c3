// release_part(): lets the kernel drop the pages of bytes that were read, so that many weights need little memory.
#pragma once

#include <string_view>

#include "schema/files/files.h"

namespace whence::onnx_file {

// Does nothing for bytes that are not in this file. Released bytes stay readable: they are read from the file again.
inline void release_part(const MappedFile& file, std::string_view bytes) {
  const std::string_view text = file.text();
  const bool is_inside = bytes.data() >= text.data() && bytes.data() < text.data() + text.size();
  if (is_inside) file.release(static_cast<std::size_t>(bytes.data() - text.data()), bytes.size());
}

}  // namespace whence::onnx_file
