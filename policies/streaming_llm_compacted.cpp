// StreamingLLM with the positions of its paper: Xiao et al., "Efficient Streaming Language Models with Attention Sinks"
// (arXiv 2309.17453). Sinks and the newest tokens stay, as under streaming-llm, and every key is rotated by the index
// of its slot in the cache: what moves together after an eviction is turned to its new place
// (kv/compacted_positions.cpp), so that no position beyond budget + interval - 1 is ever used, however long the text
// is. Heads share one kept set, since a token has one position.
#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class StreamingLlmCompactedPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "streaming-llm-compacted"; }
  EvictionScope scope() const override { return EvictionScope::kSequence; }
  bool SupportsScope(EvictionScope scope) const override { return scope == EvictionScope::kSequence; }
  std::string_view positions() const override { return kCompactedPositions; }

  // As streaming-llm: the newest stay.
  void Score(const HeadView& head, std::span<float> scores) const override {
    WINNOW_CHECK(scores.size() == head.positions.size());
    for (size_t slot = 0; slot < scores.size(); ++slot) scores[slot] = float(head.positions[slot]);
  }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeStreamingLlmCompactedPolicy() {
  return std::make_unique<StreamingLlmCompactedPolicy>();
}

}  // namespace winnow
