// Writes a comparison as data for its page (page/diff_data.js): rows and modules as columns, with the edges of both
// graphs.
#include "annotator/report/diff_page.h"

#include <algorithm>
#include <cmath>

#include "annotator/metadata/attribution.h"
#include "annotator/onnx_file/graph_index.h"
#include "annotator/origin/confidence.h"
#include "annotator/view/module_tree.h"
#include "generated/report_page.h"

namespace whence::report {

using view::ModuleDiff;

namespace {

constexpr std::size_t longest_name = 300, longest_details = 2000;  // bytes

// Cuts a longer text at a character's start.
std::string shortened(std::string_view text, std::size_t limit) {
  if (text.size() <= limit) return std::string(text);
  std::size_t end = limit;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return std::string(text.substr(0, end)) + "…";
}

std::string label(const onnx_file::OnnxNode& node) {
  const bool by_output = node.name.empty() && !node.outputs.empty();
  return shortened(by_output ? node.outputs.front() : node.name, longest_name);
}

std::string operator_name(const onnx_file::OnnxNode& node) {
  return shortened((node.domain.empty() ? "" : std::string(node.domain) + "::") + std::string(node.op_type),
                   longest_name);
}

std::string_view shape_of(const functions::ValueShapes& shapes, std::string_view value) {
  const auto found = shapes.find(value);
  return found == shapes.end() ? std::string_view() : std::string_view(found->second->text);
}

// Values by a module's place. Finding a key of the ordered Json takes linear time.
using ByPlace = nlohmann::json;

// JSON has no infinity: it is a text, which the page turns into a number.
ByPlace number_json(double number) {
  if (std::isinf(number)) return number > 0 ? "Infinity" : "-Infinity";
  return number;
}

class DiffPageWriter {
 public:
  DiffPageWriter(const view::Comparison& comparison, const std::array<DiffSide, 2>& sides, const Program* program,
                 const PageLimits& limits)
      : comparison_(comparison),
        sides_(sides),
        limits_(limits),
        table_(make_diff_table(comparison, sides[0].shapes, sides[1].shapes)),
        part_(part_for_page(table_, comparison.diff, limits)) {
    for (const std::size_t side : {0U, 1U}) {
      types_[side] = view::module_types(*sides[side].model, program);
      if (program != nullptr && metadata::belongs_to(*sides[side].model, *program)) recorded_[side].emplace(*program);
    }
    place_of_row_.resize(table_.rows.size(), outside);
    for (std::size_t place = 0; place < part_.rows.size(); ++place) place_of_row_[part_.rows[place]] = place;
  }

  PageData data() {
    put_head();
    put_modules();
    put_rows();
    put_edges();
    to_.write("}");
    return {std::move(to_.text), std::move(packed_.elements)};
  }

 private:
  static constexpr std::size_t outside = static_cast<std::size_t>(-1);

  const ModuleDiff& module(std::size_t at) const { return comparison_.diff.modules[at]; }
  bool has_row_without_module() const { return !comparison_.diff.modules.back().path; }

  void add(std::string_view name, const Json& value) {
    to_.write(",\"" + std::string(name) + "\":");
    put(to_, value);
  }
  void add(std::string_view name, const Interned& texts) {
    to_.write(",\"" + std::string(name) + "\":");
    texts.put_all(to_);
  }

  template <class Items, class NumberOf>
  void column(std::string_view name, const Items& items, const NumberOf& number_of) {
    std::vector<std::uint64_t> numbers;
    numbers.reserve(items.size());
    for (const auto& item : items) numbers.push_back(static_cast<std::uint64_t>(number_of(item)));
    packed_.column(name, numbers);
  }

  void put_head() {
    const view::ModelDiff& diff = comparison_.diff;
    Json state_words = Json::array(), module_words = Json::array(), confidences = Json::array();
    for (std::size_t i = 0; i < row_state_count; ++i) state_words.push_back(name_of(static_cast<RowState>(i)));
    for (std::size_t i = 0; i < module_state_count; ++i) module_words.push_back(name_of(static_cast<ModuleState>(i)));
    for (std::size_t i = 0; i < origin::confidence_count; ++i) {
      confidences.push_back(origin::name_of(static_cast<origin::Confidence>(i)));
    }
    Json model = Json::array();
    for (const std::string& difference : diff.model) model.push_back(shortened(difference, longest_name));
    std::string head = embedded({{"files", Json::array({diff.file_a, diff.file_b})},
                                 {"version", WHENCE_VERSION},
                                 {"states", std::move(state_words)},
                                 {"module_states", std::move(module_words)},
                                 {"confidences", std::move(confidences)},
                                 {"piece", piece_size},
                                 {"model", std::move(model)},
                                 {"all_nodes", Json::array({diff.all.nodes_a, diff.all.nodes_b})},
                                 {"all_parameters", Json::array({diff.all.parameters_a, diff.all.parameters_b})},
                                 {"state_counts", table_.states},
                                 {"left_out",
                                  {{"modules", part_.modules_left_out},
                                   {"rows", part_.rows_left_out},
                                   {"differing_rows", part_.differing_rows_left_out}}},
                                 {"fusions", comparison_.pairs.fusions.size()},
                                 {"figures", figures_json()}});
    head.pop_back();
    to_.write(head);
  }

  // Values and remarks by the module's place in the page; `elsewhere` counts those of other modules.
  Json figures_json() const {
    FlatMap<std::string_view, std::size_t> places;
    for (std::size_t place = 0; place < part_.modules.size(); ++place) {
      places.emplace(*module(part_.modules[place]).path, place);
    }
    Json list = Json::array();
    for (const std::size_t side : {0U, 1U}) {
      for (const Figures& figures : sides_[side].figures) {
        std::size_t unplaced = 0;
        Json measures = Json::array();
        ByPlace remarks = ByPlace::object();
        for (const Measure& measure : figures.measures) {
          ByPlace values = ByPlace::object();
          for (const auto& [path, value] : measure.values) {
            const auto place = places.find(path);
            if (place == places.end()) {
              unplaced += &measure == &figures.measures.front() ? 1 : 0;
            } else {
              values[std::to_string(place->second)] = number_json(value);
            }
          }
          measures.push_back(
              {{"key", measure.key}, {"title", measure.title}, {"unit", measure.unit}, {"values", std::move(values)}});
        }
        for (const auto& [path, remark] : figures.remarks) {
          const auto place = places.find(path);
          if (place != places.end()) remarks[std::to_string(place->second)] = remark;
        }
        list.push_back({{"side", side},
                        {"kind", figures.kind},
                        {"file", figures.file},
                        {"model", figures.model},
                        {"summary", figures.summary},
                        {"measures", std::move(measures)},
                        {"remarks", std::move(remarks)},
                        {"unplaced", unplaced}});
      }
    }
    return list;
  }

  // The nodes without a module have the last entry of each column, except for paths and parents.
  void put_modules() {
    std::vector<std::size_t> listed = part_.modules;
    if (has_row_without_module()) listed.push_back(comparison_.diff.modules.size() - 1);
    Interned types;
    packed_.texts("paths", part_.modules,
                  [&](std::size_t at) { return std::string_view(*module(at).path).substr(0, 10 * longest_name); });
    std::vector<std::optional<std::uint64_t>> parents;
    for (const std::size_t at : part_.modules) {
      const std::optional<std::size_t> parent = table_.modules[at].parent;
      parents.push_back(parent ? part_.module_places[*parent] : std::nullopt);
    }
    packed_.column("modules-parent", parents);
    ByPlace other_types = ByPlace::object();
    column("modules-type", listed, [&](std::size_t at) {
      if (!module(at).path) return types.of("");
      const std::string a = type_of(0, *module(at).path), b = type_of(1, *module(at).path);
      if (!a.empty() && !b.empty() && a != b) other_types[std::to_string(*part_.module_places[at])] = a;
      return types.of(b.empty() ? a : b);
    });
    column("modules-nodes-a", listed,
           [&](std::size_t at) { return counted(at, &ModuleDiff::nodes_a, &ModuleDiff::own_a); });
    column("modules-nodes-b", listed,
           [&](std::size_t at) { return counted(at, &ModuleDiff::nodes_b, &ModuleDiff::own_b); });
    column("modules-own-a", listed, [&](std::size_t at) { return module(at).own_a; });
    column("modules-own-b", listed, [&](std::size_t at) { return module(at).own_b; });
    column("modules-parameters-a", listed, [&](std::size_t at) { return module(at).parameters_a; });
    column("modules-parameters-b", listed, [&](std::size_t at) { return module(at).parameters_b; });
    column("modules-state", listed, [&](std::size_t at) { return table_.modules[at].state; });
    std::vector<std::uint64_t> states;  // the columns of all states, concatenated
    for (std::size_t i = 0; i < row_state_count; ++i) {
      for (const std::size_t at : listed) states.push_back(static_cast<std::uint64_t>(table_.modules[at].states[i]));
    }
    packed_.column("modules-states", states);
    to_.write(",\"modules\":{\"count\":");
    put(to_, part_.modules.size());
    add("listed", Json(listed.size()));
    add("types", types);
    add("other_types", other_types);
    add("elsewhere", elsewhere_json(listed));
    add("modules_left_out", modules_left_out());
    add("rows_left_out", rows_left_out());
    to_.write("}");
  }

  std::int64_t counted(std::size_t at, std::int64_t ModuleDiff::* total, std::int64_t ModuleDiff::* own) const {
    return module(at).path ? module(at).*total : module(at).*own;
  }

  std::string type_of(std::size_t side, const std::string& path) const {
    const auto found = types_[side].find(path);
    return found == types_[side].end() ? "" : shortened(found->second, longest_name);
  }

  ByPlace elsewhere_json(const std::vector<std::size_t>& listed) const {
    ByPlace json = ByPlace::object();
    for (std::size_t place = 0; place < listed.size(); ++place) {
      ByPlace places = ByPlace::array();
      for (const std::size_t other : table_.modules[listed[place]].elsewhere) {
        if (const auto found = part_.place_of(table_, other)) places.push_back(*found);
      }
      if (!places.empty()) json[std::to_string(place)] = std::move(places);
    }
    return json;
  }

  static void count_at(ByPlace& json, std::size_t place) {
    ByPlace& count = json[std::to_string(place)];
    count = (count.is_null() ? 0 : count.get<std::int64_t>()) + 1;
  }

  // By module of the page: how many modules below it are left out, and how many nodes at and below it.
  ByPlace modules_left_out() const {
    ByPlace json = ByPlace::object();
    for (std::size_t at = 0; at < table_.modules.size(); ++at) {
      if (!module(at).path || part_.module_places[at]) continue;
      if (const auto place = part_.place_of(table_, at)) count_at(json, *place);
    }
    return json;
  }
  ByPlace rows_left_out() const {
    ByPlace json = ByPlace::object();
    for (std::size_t at = 0; at < table_.rows.size(); ++at) {
      if (place_of_row_[at] != outside) continue;
      count_at(json, part_.place_of(table_, table_.rows[at].module()).value_or(part_.modules.size()));
    }
    return json;
  }

  const onnx_file::OnnxNode& node(const DiffRow& row) const {
    return row.b ? *comparison_.b[*row.b].node : *comparison_.a[*row.a].node;
  }

  metadata::Attribution attribution(std::size_t side, const onnx_file::OnnxNode& node) const {
    return metadata::attribution_of(node, recorded_[side] ? &*recorded_[side] : nullptr);
  }

  // 0: the file lacks the node, 1: no module, else the module's place + 2.
  std::uint64_t side_module(bool has_node, std::optional<std::size_t> at) const {
    if (!has_node) return 0;
    const auto place = part_.place_of(table_, at);
    return place ? *place + 2 : 1;
  }

  std::string details(const DiffRow& row) const {
    if (row.change == nullptr) return "";
    std::string text = row.change->inserted ? "inserted by a tool for the operators around it" : "";
    for (const std::string& difference : row.change->differences) text += (text.empty() ? "" : "\n") + difference;
    return shortened(text, longest_details);
  }

  void put_rows() {
    std::vector<DiffRow> rows;
    rows.reserve(part_.rows.size());
    for (const std::size_t at : part_.rows) rows.push_back(table_.rows[at]);
    Interned operators, sources;
    packed_.texts("names", rows, [&](const DiffRow& row) { return label(node(row)); });
    packed_.texts("names-a", rows, [&](const DiffRow& row) {
      const std::string before = row.a && row.b ? label(*comparison_.a[*row.a].node) : "";
      return row.b && before != label(*comparison_.b[*row.b].node) ? before : std::string();
    });
    packed_.texts("details", rows, [&](const DiffRow& row) { return details(row); });
    column("nodes-op", rows, [&](const DiffRow& row) { return operators.of(operator_name(node(row))); });
    column("nodes-state", rows, [](const DiffRow& row) { return row.state; });
    std::vector<std::optional<std::uint64_t>> modules, fusions;
    for (const DiffRow& row : rows) {
      modules.push_back(row.module() ? part_.place_of(table_, row.module()) : std::nullopt);
      fusions.push_back(row.fusion);
    }
    packed_.column("nodes-module", modules);
    packed_.column("nodes-fusion", fusions);
    column("nodes-module-a", rows, [&](const DiffRow& row) { return side_module(row.a.has_value(), row.module_a); });
    column("nodes-module-b", rows, [&](const DiffRow& row) { return side_module(row.b.has_value(), row.module_b); });
    std::array<std::vector<std::uint64_t>, 2> confidences;
    std::vector<std::uint64_t> source_of;
    for (const DiffRow& row : rows) {
      std::string source;
      for (const std::size_t side : {0U, 1U}) {
        const auto at = side == 0 ? row.a : row.b;
        const metadata::Attribution found =
            at ? attribution(side, *(side == 0 ? comparison_.a : comparison_.b)[*at].node) : metadata::Attribution();
        confidences[side].push_back(static_cast<std::uint64_t>(found.confidence));
        if (!found.source.empty()) source = found.source;
      }
      source_of.push_back(sources.of(shortened(source, longest_name)));
    }
    packed_.column("nodes-confidence-a", confidences[0]);
    packed_.column("nodes-confidence-b", confidences[1]);
    packed_.column("nodes-source", source_of);
    const auto first_shape = [&](std::size_t side, const view::DiffNodes& nodes, std::optional<std::size_t> at) {
      if (!at || nodes[*at].node->outputs.empty()) return shapes_.of("");
      return shapes_.of(shape_of(sides_[side].shapes, nodes[*at].node->outputs.front()));
    };
    column("nodes-shape-a", rows, [&](const DiffRow& row) { return first_shape(0, comparison_.a, row.a); });
    column("nodes-shape-b", rows, [&](const DiffRow& row) { return first_shape(1, comparison_.b, row.b); });
    add("nodes", Json(rows.size()));
    add("operators", operators);
    add("sources", sources);
  }

  // Edges with an end in the page. An end is 0 for an input or output of the graph, 1 for a node that is left out, else
  // the row's place + 2.
  void put_edges() {
    std::int64_t left_out = 0;
    std::vector<std::vector<std::size_t>> rows_of(2);
    for (const std::size_t side : {0U, 1U}) rows_of[side].resize((side == 0 ? comparison_.a : comparison_.b).size());
    for (std::size_t at = 0; at < table_.rows.size(); ++at) {
      if (table_.rows[at].a) rows_of[0][*table_.rows[at].a] = place_of_row_[at];
      if (table_.rows[at].b) rows_of[1][*table_.rows[at].b] = place_of_row_[at];
    }
    for (const std::size_t side : {0U, 1U}) {
      const onnx_file::GraphIndex index(sides_[side].model->graph);
      std::vector<std::uint64_t> from, to, value;
      const auto end_of = [&](std::int32_t node) {
        const std::size_t place = rows_of[side][static_cast<std::size_t>(node)];
        return place == outside ? std::uint64_t{1} : place + 2;
      };
      const auto add_edge = [&](std::uint64_t start, std::uint64_t end, std::string_view name) {
        if (start < 2 && end < 2) return;
        if (from.size() >= limits_.edges / 2) {
          ++left_out;
          return;
        }
        from.push_back(start);
        to.push_back(end);
        value.push_back(values_.of_lasting(name));
      };
      for (const auto& edge : index.edges()) add_edge(end_of(edge.from), end_of(edge.to), edge.value);
      for (const auto& edge : index.input_edges()) add_edge(0, end_of(edge.node), edge.value);
      for (const auto& edge : index.output_edges()) add_edge(end_of(edge.node), 0, edge.value);
      const std::string name = side == 0 ? "edges-a-" : "edges-b-";
      packed_.column(name + "from", from);
      packed_.column(name + "to", to);
      packed_.column(name + "value", value);
    }
    packed_.texts("values", values_.texts(), [](std::string_view name) { return shortened(name, longest_name); });
    for (const std::size_t side : {0U, 1U}) {
      column(side == 0 ? "values-shape-a" : "values-shape-b", values_.texts(),
             [&](std::string_view name) { return shapes_.of(shape_of(sides_[side].shapes, name)); });
    }
    add("values", Json(values_.texts().size()));
    add("shape_texts", shapes_);
    add("edges_left_out", Json(left_out));
  }

  const view::Comparison& comparison_;
  const std::array<DiffSide, 2>& sides_;
  PageLimits limits_;
  DiffTable table_;
  PagePart part_;
  std::array<std::map<std::string, std::string>, 2> types_;
  std::array<std::optional<metadata::Recorded>, 2> recorded_;
  std::vector<std::size_t> place_of_row_;  // by row of the table; `outside` for rows that are left out
  Interned values_, shapes_;
  TextSink to_;
  Packed packed_;
};

}  // namespace

PageData diff_page_data(const view::Comparison& comparison, const std::array<DiffSide, 2>& sides,
                        const Program* program, const PageLimits& limits) {
  return DiffPageWriter(comparison, sides, program, limits).data();
}

void write_diff_page(const PageData& data, AtomicFile& to) { write_page({diff_script, diff_script_digest}, data, to); }

}  // namespace whence::report
