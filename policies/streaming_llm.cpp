// Attention sinks beside the newest tokens: Xiao et al., "Efficient Streaming Language Models with Attention Sinks"
// (arXiv 2309.17453). Which tokens stay is the paper's choice; their positions are not: the paper counts positions
// inside the cache, so that kept keys move up as others go, while here keys stay rotated at their absolute position, as
// for every policy but one (survivors are not re-rotated). Docs and results therefore say "streaming-llm, positions
// absolute"; the paper's own form is streaming-llm-compacted.
#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class StreamingLlmPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "streaming-llm"; }

  // The score is the position: the newest stay. The sinks are the protected ones. From 2^24 on, floats of neighbouring
  // positions are equal; the tie rule (the higher position wins) still keeps the newest.
  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.positions.size());
    for (size_t slot = 0; slot < scores.size(); ++slot) scores[slot] = float(head.positions[slot]);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeStreamingLlmPolicy() {
  return std::make_unique<StreamingLlmPolicy>();
}

}  // namespace winnow
