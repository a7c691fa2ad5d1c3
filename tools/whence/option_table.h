// OptionTable: the options of a use, once for all the ways to give them: the flag with its help, the field of the C++
// API's struct and the keyword of Python. tests/guards/test_options_agree.py holds structs and signatures against the
// tables.
#pragma once

#include <span>

#include "tools/whence/cli.h"

namespace whence {

struct OptionRow {
  enum class Kind { text, list, flag, output };

  const char* name;         // the flag, without --
  Kind kind;                // list: may be given several times; output: a file that is written
  const char* placeholder;  // "FILE" names a file that is read; "" for flags and outputs
  const char* help;
  const char* field;    // member of the struct in include/whence/; "" for what the command alone has
  const char* keyword;  // argument of the Python function; "" where Python says it by a type or not at all
};

void declare(CommandLine& line, std::span<const OptionRow> rows);

}  // namespace whence
