// SHA-256, for statements that other tools check (FIPS 180-4). whence itself identifies bytes by xxh3 (files.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace whence {

std::string sha256(std::string_view bytes);           // 64 lower-case hex digits
std::string sha256_of_file(const std::string& path);  // streams; throws Error(missing_file)

}  // namespace whence
