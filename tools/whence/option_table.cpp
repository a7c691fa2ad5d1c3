// Declares the rows of an option table on a command line.
#include "tools/whence/option_table.h"

namespace whence {

void declare(CommandLine& line, std::span<const OptionRow> rows) {
  for (const OptionRow& row : rows) {
    switch (row.kind) {
      case OptionRow::Kind::text:
        line.option(row.name, row.placeholder, row.help);
        break;
      case OptionRow::Kind::list:
        line.repeated(row.name, row.placeholder, row.help);
        break;
      case OptionRow::Kind::flag:
        line.flag(row.name, row.help);
        break;
      case OptionRow::Kind::output:
        line.output(row.name, row.help);
        break;
    }
  }
}

}  // namespace whence
