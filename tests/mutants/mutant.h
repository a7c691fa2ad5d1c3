// Returns whether a mutant is active: the environment variable WHENCE_MUTANT contains its number, or 0 for none.
#pragma once

#include <cstdlib>

#pragma GCC diagnostic ignored "-Wparentheses"  // a mutant may mix && and ||

inline bool is_mutant(int number) {
  static const int chosen = [] {
    const char* const text = std::getenv("WHENCE_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return chosen == number;
}
