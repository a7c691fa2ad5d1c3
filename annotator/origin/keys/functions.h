// The metadata keys that inline reads: on functions that whence made, on constants moved into them, and on calls.
#pragma once

#include <string_view>

namespace whence::origin::keys {

inline constexpr std::string_view function = "pkg.whence.function";
inline constexpr std::string_view constant = "pkg.whence.constant";  // its original form: "initializer" or "node"
inline constexpr std::string_view differs = "pkg.whence.differs";    // functions/call_text.h
inline constexpr std::string_view ir_before = "pkg.whence.ir_before_functions";  // on the model

// The placeholder for the module of the call in bodies of these functions. whence replaces it when it inlines a call;
// other tools copy it unchanged.
inline constexpr std::string_view module_placeholder = "{module}";

}  // namespace whence::origin::keys
