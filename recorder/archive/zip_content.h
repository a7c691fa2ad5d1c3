// The content of a zip archive's members, inflated where they are deflated, and compared with the checksums that the
// archive states. LibTorch's own reader does not compare them, and crashes on some contents that were damaged.
#pragma once

#include <string>
#include <string_view>

#include "schema/files/zip_archive.h"

namespace whence::recorder {

// Of one member: in the archive, or in `storage` if it had to be inflated. Throws Error(corrupt_file) when the content
// is not what the archive's checksum was made of; `remedy` is the error's.
std::string_view checked_content(const ZipArchive& archive, const ZipArchive::Entry& entry, std::string& storage,
                                 const std::string& remedy);

}  // namespace whence::recorder
