// Reads members of a zip archive: inflates them if they are compressed, and compares them with their checksums.
// LibTorch's own reader does not compare checksums, and crashes on some damaged members.
#pragma once

#include <string>
#include <string_view>

#include "schema/files/zip_archive.h"

namespace whence::recorder::archive {

// Returns the content of one member: a span of the archive, or of `storage` if it had to be inflated. Throws
// Error(corrupt_file) with `remedy` if the content does not match its checksum.
std::string_view checked_content(const ZipArchive& archive, const ZipArchive::Entry& entry, std::string& storage,
                                 const std::string& remedy);

}  // namespace whence::recorder::archive
