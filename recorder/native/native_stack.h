// The native stack at the moment an operation is recorded, which shows the code of the user's program that called it.
// Taking a stack costs some microseconds and reads no symbols; names and lines are looked up afterwards, each address
// once.
//
// With debug information (-g) an address also names the functions that were inlined there and has a file and a line;
// without, the symbol table has the function's name; in a stripped program only the address is known.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "schema/program.h"

namespace whence::native {

// A frame of the user's program, not of LibTorch or of whence.
struct NativeFrame {
  std::uintptr_t site = 0;      // the call instruction
  std::uintptr_t function = 0;  // the address at which its function begins
  std::uintptr_t base = 0;      // the address of the frame itself: the same throughout one call
};
using NativeStack = std::vector<NativeFrame>;  // innermost first

// Returns the frames from here to where recording began.
NativeStack take_native_stack();

// Registers code that is in the user's program and does not belong to the model.
void leave_out(const void* begin, const void* end);
bool is_left_out(const void* address);

class Symbols {
 public:
  Symbols();
  // Returns the functions at an address, the innermost inlined one first. Names without arguments:
  // "vision::Block::forward".
  const std::vector<Frame>& at(std::uintptr_t site);

 private:
  std::unordered_map<std::uintptr_t, std::vector<Frame>> known_;
};

// True for functions from headers of LibTorch and the standard library, which are compiled into the user's program.
bool of_headers(const std::string& function);

// "std::vector<int> f<int>(std::vector<int> const&) const::{lambda()#1}::operator()() const" -> its name alone.
std::string function_name(std::string demangled);

}  // namespace whence::native
