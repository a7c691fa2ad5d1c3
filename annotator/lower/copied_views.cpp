// y = permute_copy(x)   ->   y = permute(x)
// Replaces the copying forms of views, which functionalised programs contain, with views. After functionalisation
// nothing writes any more, so a view gives the same values as a copy.
#include <string>
#include <utility>

#include "annotator/lower/pass.h"
#include "annotator/lower/pipeline.h"
#include "schema/operator_facts.h"
#include "schema/program_walk.h"

namespace whence::lower {
void views_for_copies(Lowering& lowering) {
  each_node(lowering.program.body, [](Node& node) {
    if (std::string view = view_of_copy(node.target); !view.empty()) node.target = std::move(view);
  });
}

}  // namespace whence::lower
