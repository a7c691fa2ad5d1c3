// Operations: evaluates the nodes that compute something. A node without a value of the Program is computed on the
// host; any other is recorded, and executed if there are example inputs.
#pragma once

#include "recorder/script/execution.h"
#include "recorder/script/objects.h"
#include "recorder/script/quantized.h"
#include "schema/squeeze.h"

namespace whence::recorder::script {

class Operations {
 public:
  Operations(Recording& recording, Objects& objects, Quantized& quantized)
      : recording_(recording), objects_(objects), quantized_(quantized) {}

  void carry_out(const Step& step);

  // Results of squeeze whose rank depends on a size, with what was assumed. Entries without a node in the finished
  // program are ignored.
  std::unordered_map<ValueId, std::vector<SettledSqueeze>> squeezed;

 private:
  bool in_order_at_some_sizes(const Step& step, const std::vector<Term>& arguments);
  bool on_host(const Step& step, const std::vector<Term>& arguments);
  void note_parts(const Step& step, const std::vector<Term>& arguments, const Node& recorded);
  void note_squeeze(const Step& step, const Node& recorded);

  Recording& recording_;
  Objects& objects_;
  Quantized& quantized_;
};

}  // namespace whence::recorder::script
