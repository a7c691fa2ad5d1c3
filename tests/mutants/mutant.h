// Which mutant runs (run_mutants.py): the environment variable WHENCE_MUTANT, 0 for none.
#pragma once

#include <cstdlib>

#pragma GCC diagnostic ignored "-Wparentheses"  // a mutant may have && beside ||

inline bool is_mutant(int number) {
  static const int chosen = [] {
    const char* const text = std::getenv("WHENCE_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return chosen == number;
}
