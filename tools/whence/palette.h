// The colours of standard output for the annotator's views: empty if it is not a terminal or NO_COLOR is set.
#pragma once

#include "annotator/text/table.h"
#include "tools/whence/cli.h"

namespace whence {

inline text::Palette output_palette() {
  return {color_out(Color::bold),   color_out(Color::dim),   color_out(Color::red),
          color_out(Color::yellow), color_out(Color::green), color_out(Color::reset)};
}

// The remedy for --no-pager, a removed option of commands with colours.
inline constexpr const char* no_pager =
    "leave it out: text is printed without a pager; pipe it to `less -R` to page it";

}  // namespace whence
