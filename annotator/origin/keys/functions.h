// The metadata keys that inline needs: on functions that whence cut out, on constants that were pulled into one, on
// calls.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view function = "pkg.whence.function";
inline constexpr std::string_view constant = "pkg.whence.constant";              // "initializer" or "node": what it was
inline constexpr std::string_view differs = "pkg.whence.differs";                // functions/call_text.h
inline constexpr std::string_view ir_before = "pkg.whence.ir_before_functions";  // on the model

}  // namespace whence::origin::keys
