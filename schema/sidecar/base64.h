// Base64 (RFC 4648, with padding), for the bytes of small constants in a sidecar.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace whence {

std::string to_base64(std::span<const std::byte> bytes);
std::optional<std::string> from_base64(std::string_view text);  // the bytes; nullopt if `text` is not base64

}  // namespace whence
