// Deriver: the state of derive(), and the steps that find the expressions of a file's tensors. A step looks at tensors
// that no earlier step found. Its parts: derive.cpp (unchanged elements, the order of the steps), derive_folded.cpp
// (what was folded, computed or laid out anew), derive_quantised.cpp (integers and their scales), derive_choices.cpp
// (what one run of a tool does in one way).
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "annotator/derivation/content_index.h"
#include "annotator/derivation/derive.h"
#include "annotator/derivation/evaluate.h"
#include "annotator/derivation/find_scheme.h"
#include "annotator/derivation/folded_norms.h"
#include "annotator/derivation/folded_vectors.h"
#include "annotator/derivation/likeness.h"
#include "annotator/derivation/name_fit.h"

namespace whence::derivation {

class Deriver {
 public:
  Deriver(const FileTensors& tensors, Contents& contents, const Weights& weights, const ProgramConstants* constants,
          const ProgramFacts& facts)
      : tensors_(tensors),
        contents_(contents),
        weights_(weights),
        constants_(constants),
        likeness_(weights),
        orientations_(facts.orientations),
        norms_(weights, facts.pairs),
        vectors_(weights, facts.chains),
        found_(tensors.all().size()) {
    for (const FileTensor& tensor : tensors.all()) names_.emplace_back(tensor);
  }

  std::vector<Derivation> run();

 private:
  Derivation& found(TensorNumber tensor) { return found_[static_cast<std::size_t>(tensor)]; }
  TensorNumber number_of(const Derivation& derivation) const {
    return static_cast<TensorNumber>(&derivation - found_.data());
  }
  bool known(TensorNumber tensor) { return tensor == no_tensor || found(tensor).verdict != Verdict::unaccounted; }
  NameFit fit_of(TensorNumber tensor) const {
    const TensorNames& names = names_[static_cast<std::size_t>(tensor)];
    return [&names](std::string_view parameter) { return names.fit(parameter); };
  }
  Sources sources() const {
    return {weights_, [this](const std::string& name) {
              const TensorNumber tensor = tensors_.find(name);
              return contents_.data(tensors_[tensor]);
            }};
  }
  const ContentIndex& index(DType dtype) {
    auto& index = indexes_[dtype];
    if (!index) index = std::make_unique<ContentIndex>(weights_, dtype);
    return *index;
  }

  // derive.cpp
  void find_content(TensorNumber number);
  // Evaluates the expression and stores it if it gives the tensor's bytes.
  bool prove(TensorNumber number, Expression expression);
  void find_unchanged();
  // Tensors that the same node reads belong to the same module, mostly.
  void note_neighbours();
  void choose_again();
  void set_exact(TensorNumber tensor, Expression expression);
  // Only operators with gates or heads have the rows of a parameter in another order than the program.
  void require_order(TensorNumber number);
  // The forward direction of a recurrent layer comes before the reverse one, whose parameters PyTorch names after it.
  static bool begins_with_reverse(const Expression& expression);
  // A measurement gives a positive scale.
  void note_range(TensorNumber range);
  // Returns true for zeros as the scale of a norm. A scale of ones may be left out, one of zeros is another model.
  bool is_zero_scale(const FileTensor& tensor, const TensorData& data);
  void find_constants();
  // Lists the equals of parameters that were found by the layer they belong to, such as biases.
  void list_equals();
  // Adds a remark to each unaccounted tensor without one.
  void give_reasons();
  // Exporters store equal tensors once, so a tensor may stand for every parameter with its bytes that no other tensor
  // holds. If the names distinguish all of them, nothing was merged.
  void drop_certain_equals();

  // derive_folded.cpp
  // The weight with a norm, or with numbers by channel.
  std::vector<Expression> folded_candidates(const Expression& source, const TensorData& real,
                                            const SampledTensor& tensor, std::int64_t axis) const;
  std::vector<Expression> folded_biases(const Expression& weight) const;
  void find_folded(const Product& product);
  // Finds the norm in the weight of a transposed convolution with groups: [inputs, channels of a group, ...].
  void find_grouped(const Product& product, const Expression& source);
  void find_folded_bias(const Product& product);
  // Finds a weight in one of the layouts of blocked convolutions.
  void find_blocked(TensorNumber number);
  static Expression padded(Expression input, std::vector<std::int64_t> dims);
  // Finds a bias with zeros for the channels that fill up a block.
  void find_blocked_bias(TensorNumber number);
  // Finds the biases that are added by a node of their own, with the norms that were folded into weights.
  void find_remaining_biases();
  // Chooses the expression that gives the tensor's bytes, or else the first one that differs only by the rounding of
  // single precision.
  void choose(TensorNumber number, const std::vector<Expression>& candidates);
  // As choose() for a float16 tensor.
  void choose_half(TensorNumber number, const TensorData& tensor, const std::vector<Expression>& candidates);
  // Returns true if arithmetic gives the value, whose rounding tools choose.
  static bool is_computed(const Expression& expression);
  // Returns the largest difference of two tensors if it may come from rounding.
  static std::optional<float> rounding_difference(const TensorData& tensor, const TensorData& result);
  // Returns true if each element of a float16 tensor is a number of single precision within that difference, rounded.
  static bool is_rounded_from(const TensorData& half, const TensorData& result);
  // Finds tensors that were rounded in a way of their own: to float16 within a range.
  void find_rounded(TensorNumber number);
  // Finds a result of the program that another tool computed with other roundings.
  void find_computed(TensorNumber number);
  // Returns what the program computes from the parameters of a source, in the same sizes, and then the source: the
  // length of a new weight's direction is the weight's, so that both may be like a tensor.
  std::vector<Expression> with_computed_from(const Expression& source) const;
  // Returns the computed tensors of these sizes, as they are, reshaped or transposed.
  std::vector<Expression> computed_sources(const std::vector<std::int64_t>& dims) const;

  // derive_quantised.cpp
  StoredParts stored_parts(const QuantisedWeight& weight);
  // What happened to a weight before it was quantised, in the order in which it is tried: the later ones are slower to
  // compute.
  enum class Before : std::uint8_t { unchanged, folded, float16 };
  static constexpr std::array before_quantising = {Before::unchanged, Before::folded, Before::float16};
  // Returns the expressions that may be the weight before it was quantised. `source`: the parameter that it is like.
  std::vector<Expression> quantised_candidates(const QuantisedWeight& weight, const SampledTensor& numbers,
                                               const std::optional<Expression>& source, Before before);
  void find_quantised(const QuantisedWeight& weight);
  // As find_scheme() for the numbers of an expression.
  SchemeFinding find_scheme_of(const Expression& candidate, const QuantisedWeight& weight,
                               const StoredParts& stored) const;
  // Finds the scales with which the file quantises a weight when it runs (derive_run_time.cpp).
  void find_run_time_scales(const RunTimeWeight& weight);
  // Returns true for the scale or zero point of a weight in floating point, which no calibration measures.
  bool is_scale_of_weight(TensorNumber tensor);
  // Returns what a weight is like, and the same transposed for a square one: the integers of a matrix that is nearly
  // symmetric do not distinguish both. The way in which the program reads it comes first.
  std::vector<Expression> orientations_of(const QuantisedWeight& weight, const Expression& source) const;
  // Finds an expression with scales that follow from this rule.
  bool find_by_rule(const QuantisedWeight& weight, ScaleRule rule);
  // Returns the parameters with these few elements: too few to compare by likeness.
  std::vector<Expression> small_sources(const std::vector<std::int64_t>& dims) const;
  // Finds a computed weight that the tool rounded otherwise before it was quantised.
  bool find_near_quantised(const QuantisedWeight& weight, const std::vector<Expression>& candidates,
                           const StoredParts& stored);
  void set_quantised(const QuantisedWeight& weight, const Expression& source, const Scheme& scheme, bool with_integers);
  // Describes integers that no scheme gives, such as those of GPTQ: how far they are from the weight, in steps.
  void note_distance(const QuantisedWeight& weight, const SampledTensor& numbers, const Expression& source);
  // Finds a constant of the program that the tool quantised.
  void find_quantised_constant(const QuantisedWeight& weight, const StoredParts& stored);
  // Returns the source with each norm or vector that may have been folded into it.
  std::vector<Expression> folded_sources(const QuantisedWeight& weight, const Expression& source,
                                         const SampledTensor& numbers);
  void find_quantised_bias(const QuantisedBias& bias);
  // Finds the scale of a bias that is the product of the scales of input and weight as the file states them.
  void find_bias_scale(const QuantisedBias& bias);
  // Returns true for 32-bit integers that differ by the rounding of single precision.
  static bool differs_little(const TensorData& theirs, const TensorData& ours);
  // The biases that may belong to a weight: the parameter `bias` beside it, with a norm if one was folded in, and any
  // vector of the checkpoint with these sizes, those with fitting names first.
  std::vector<Expression> bias_sources(const Expression& weight_scale, const std::vector<std::int64_t>& dims,
                                       const NameFit& fit);

  // derive_choices.cpp
  // One run of a tool uses one rule for its scales. Chooses the rule that gives most of them, and refuses tensors whose
  // scale does not follow from it: it may have been changed to what another rule gives by chance.
  void choose_scale_rules();
  // One run of a tool rounds in one way. Chooses for each tensor the rounding that gives most tensors of its form, of
  // those that give its own integers: weights of a new model may distinguish them.
  void choose_roundings();
  // One tool folds all norms in one arithmetic. Chooses for each norm the arithmetic that gives the tensors of most
  // norms, of those that give its own tensors: weights of a new model may distinguish them.
  void choose_arithmetics();
  // One converter puts all numbers into one range before it rounds them to float16. Chooses for each tensor the range
  // of the most tensors that show one, of those that give its own bytes.
  void choose_ranges();
  // Returns true if the expression gives the tensor's bytes.
  bool gives(const Expression& expression, TensorNumber tensor);

  const FileTensors& tensors_;
  Contents& contents_;
  const Weights& weights_;
  const ProgramConstants* constants_;
  Likeness likeness_;
  const Orientations& orientations_;
  FoldedNorms norms_;
  FoldedVectors vectors_;
  std::vector<Derivation> found_;
  std::vector<TensorNames> names_;
  std::map<DType, std::unique_ptr<ContentIndex>> indexes_;
  std::string integers_, scales_, zeros_;
};

}  // namespace whence::derivation
