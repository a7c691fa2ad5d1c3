// The native stack at the moment an operation is recorded. It shows the code of the user's program that called the
// operation. Taking a stack costs some microseconds and reads no symbols. Names and lines are looked up afterwards,
// once for each address.
//
// With debug information (-g) an address has a file, a line and the functions that were inlined there. Without it, the
// symbol table has the function's name. In a stripped program only the address is known.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "schema/program.h"

namespace whence::native {

// A frame of the user's program, not of LibTorch or whence.
struct NativeFrame {
  std::uintptr_t site = 0;      // the call instruction
  std::uintptr_t function = 0;  // the start of its function
  std::uintptr_t base = 0;      // the address of the frame itself: the same throughout one call
};
using NativeStack = std::vector<NativeFrame>;  // innermost first

// Returns the frames from the caller to the start of the recording.
NativeStack take_native_stack();

// Registers code of the user's program that does not belong to the model.
void exclude_code(const void* begin, const void* end);
bool is_excluded(const void* address);

class Symbols {
 public:
  Symbols();
  // Returns the functions at an address, the innermost inlined one first. Names have no arguments:
  // "vision::Block::forward".
  const std::vector<Frame>& at(std::uintptr_t site);

 private:
  std::unordered_map<std::uintptr_t, std::vector<Frame>> cache_;
};

// Returns true for functions from headers of LibTorch, whence and the standard library, which are compiled into the
// user's program.
bool is_in_headers(const std::string& function);

// Returns the name without return type, arguments and qualifiers:
// "int a::f<int>(int) const" -> "a::f<int>".
std::string function_name(std::string demangled);

}  // namespace whence::native
