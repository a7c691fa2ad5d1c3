// Option tables: each option once, for all interfaces: its flag and help, its field in the C++ API's struct and its
// keyword in Python. tests/guards/test_options_agree.py compares the tables with structs and signatures.
#pragma once

#include <span>

#include "tools/whence/cli.h"

namespace whence {

struct OptionRow {
  enum class Kind { text, list, flag, output };

  const char* name;         // the flag, without --
  Kind kind;                // list: may be passed several times; output: a file that is written
  const char* placeholder;  // "FILE" names a file that is read; "" for flags and outputs
  const char* help;
  const char* field;    // member of the struct in include/whence/; "" if only the command has the option
  const char* keyword;  // argument of the Python function; "" if Python has none or uses a type instead
};

void declare(CommandLine& line, std::span<const OptionRow> rows);

}  // namespace whence
