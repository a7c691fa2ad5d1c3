// The colours of standard output as the annotator's views take them: empty when it is not a terminal, or NO_COLOR is
// set.
#pragma once

#include "annotator/text/table.h"
#include "tools/whence/cli.h"

namespace whence {

inline text::Palette output_palette() {
  return {color_out(Color::bold),   color_out(Color::dim),   color_out(Color::red),
          color_out(Color::yellow), color_out(Color::green), color_out(Color::reset)};
}

// The remedy for --no-pager, an option that the commands with colours had.
inline constexpr const char* no_pager = "leave it out: text is printed at once; pipe it to `less -R` to page it";

}  // namespace whence
