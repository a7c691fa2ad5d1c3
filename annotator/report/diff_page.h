// The page of `whence diff`: one self-contained HTML file with the module trees of two files aligned, the graphs of a
// module side by side, and figures measured of either file. Its size is bounded (PageLimits); it says what it leaves
// out.
#pragma once

#include <array>
#include <vector>

#include "annotator/functions/value_shapes.h"
#include "annotator/report/diff_table.h"
#include "annotator/report/figures.h"
#include "annotator/report/page_parts.h"
#include "annotator/view/diff.h"

namespace whence::report {

// One of the two files.
struct DiffSide {
  const onnx_file::OnnxSummary* model = nullptr;
  functions::ValueShapes shapes;
  std::vector<Figures> figures;
};

// Returns the page's data. `program` resolves stamps; may be null. The comparison is that of the sides' models, which
// it refers to.
PageData diff_page_data(const view::Comparison& comparison, const std::array<DiffSide, 2>& sides,
                        const Program* program, const PageLimits& limits = {});

void write_diff_page(const PageData& data, AtomicFile& to);

}  // namespace whence::report
