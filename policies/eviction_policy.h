// The interface of an eviction policy: it scores slots from read-only views, and says when it may be asked. Selection,
// protection of sinks and recent tokens, compaction and page return are done once, by engine/evictor and kv.
// A policy holds no state per sequence and is shared by all of them. Engine thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace winnow {

// Who shares a kept set: every KV head has its own, the heads of a layer share one, or all heads of all layers do.
enum class EvictionScope { kHead, kLayer, kSequence };
std::string_view Name(EvictionScope scope);
// InvalidArgument naming the known scopes.
Result<EvictionScope> ParseEvictionScope(std::string_view name);

// Among which heads a budget is divided by score. Heads that share a kept set (a wider scope) have equal budgets.
enum class BudgetAllocation {
  kHead,      // every head has its own budget
  kLayer,     // the heads of a layer compete for the sum of theirs
  kSequence,  // all heads of all layers do
};
std::string_view Name(BudgetAllocation allocation);  // "head", "layer", "sequence"
// InvalidArgument naming the known ones.
Result<BudgetAllocation> ParseBudgetAllocation(std::string_view name);

// What a budget is cut by, for policies that give layers different shares.
struct LayerShare {
  int64_t layer;
  int64_t num_layers;
  int64_t budget;           // slots per head, the mean over layers
  int64_t protected_slots;  // of each head
  int64_t slots;            // that a head would hold now if all budgets were equal
};

// When a policy acts. Two forms of one method are two policies with two names.
enum class EvictionTiming {
  kChunked,       // whenever heads hold budget + interval slots, also while the prompt is read: memory is bounded
  kAfterPrefill,  // once, when the whole prompt is in the cache, if it is larger than the budget; what is generated
                  // then adds to it. Admission reserves the whole prompt, and results say so
};
std::string_view Name(EvictionTiming timing);  // "chunked", "after_prefill"

// Softmax weight that slots received, summed over queries; counted only for the sequences of policies that ask.
enum class ObservedMass {
  kNone,
  kCumulative,  // from every query since the slot was written, evictions included
  kWindow,      // from the queries of the newest tokens before the eviction alone: the observation window
};

// How much of a context each slot carries, told by an extra pass that makes the model repeat it (KVzip's replay).
enum class ObservedReplay {
  kNone,
  kAttention,  // the most attention that any query of the replay pays to the slot
  kUpdate,     // the same, times the size of what the slot then adds to the query's hidden state, relative to it
};

// What EvictionPolicy::positions() says.
inline constexpr std::string_view kAbsolutePositions = "absolute", kCompactedPositions = "compacted";

// What a policy scores with. It gets exactly what it names.
struct Observations {
  ObservedMass mass = ObservedMass::kNone;
  int64_t window_tokens = 0;  // of kWindow and queries; 0: as many as there are recent tokens
  bool keys = false;
  bool values = false;
  bool queries = false;  // those of the observation window
  // The window goes back over evictions: those of its tokens that came before the last one are looked at again.
  bool window_spans_evictions = false;  // with queries
  // Sums over the queries of all tokens that were read, instead of the queries themselves; kAfterPrefill only.
  bool query_moments = false;
  int64_t moments_begin = 0;  // the first position that counts for them
  bool future = false;        // attention of the text that is still to come: a recorded text's, in a study only
  ObservedReplay replay = ObservedReplay::kNone;  // kAfterPrefill only

  bool has_window() const { return mass == ObservedMass::kWindow || queries; }
  int64_t Window(int64_t recent_tokens) const { return window_tokens > 0 ? window_tokens : recent_tokens; }

  bool operator==(const Observations&) const = default;
};

// Sums over n queries x of each query head of a group, as attention uses them but not rotated (at position 0).
struct QueryMoments {
  int64_t num_queries = 0;
  // [group][head_dim] sum of x, then [group][head_dim][head_dim] sum of x_i x_j for j >= i, 0 elsewhere; each sum in
  // the order of tokens. Empty if there are none.
  std::span<const double> sums = {};
};

// What a policy may know of one head of one sequence when it scores it. Everything here is the same for any rank count.
// A set of heads that share a kept set (a wider scope) is scored once: layer and global_head are then kAllOfThem.
struct HeadView {
  static constexpr int64_t kAllOfThem = -1;

  int64_t layer;
  int64_t global_head;                 // KV head, counted over all ranks
  std::span<const int32_t> positions;  // [length] absolute position of each slot, ascending
  // [length] in steps of 2^-30 of a query's softmax weight, summed over the query heads of the group (and over the
  // heads that share the kept set); empty if the policy observes no mass.
  std::span<const int64_t> mass;
  std::span<const float> keys;  // [length][head_dim] rotated, as they are cached; empty if the policy observes no keys
  int64_t head_dim;
  // [tokens of the window][group][head_dim] rotated and scaled, as attention uses them, oldest token first: of the
  // query heads that share the KV head. After an eviction the window begins anew (unless the policy lets it span
  // evictions), so an interval shorter than it means fewer tokens, but never none. Empty if the policy observes no
  // queries.
  std::span<const float> queries = {};
  std::span<const int64_t> query_positions = {};  // [tokens of the window] that they are rotated by, ascending
  QueryMoments query_moments = {};                // none unless the policy observes them
  int64_t group = 0;                              // query heads of queries or query_moments; 0 without either
  std::span<const float> values = {};             // [length][head_dim]; empty if the policy observes no values
  // [head_dim / 2] of the model: position p turns the pair (x[i], x[i + head_dim / 2]) by the angle p * frequency[i].
  std::span<const double> rotary_frequencies = {};
  // [length] most attention of a block of `interval` queries of the text's rest, with a full cache: mean over the
  // block's queries and the query heads of the group. Empty if the policy observes no future.
  std::span<const float> future = {};
  std::span<const float> replay = {};  // [length] see ObservedReplay; empty if the policy observes none
  int64_t window_begin = 0;            // the first slot of the observation window's tokens, as many as the policy named
  int64_t recent_begin;                // the first slot of the protected newest tokens; [length] if none
  int64_t tokens_seen;                 // of the sequence
  int64_t prompt_tokens;
  int64_t eviction_index;  // evictions of this sequence before this one
  uint64_t seed;           // of the request; random numbers are keyed by it (design: counter-based)
  int64_t choice_index;    // n-th answer to the same request
};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;

  virtual std::string_view name() const = 0;
  // Who shares a kept set unless the user asks for another scope.
  virtual EvictionScope scope() const { return EvictionScope::kHead; }
  virtual bool SupportsScope(EvictionScope scope) const {
    (void)scope;
    return true;
  }
  virtual EvictionTiming timing() const { return EvictionTiming::kChunked; }
  // How heads get their budgets unless the user asks for another allocation.
  virtual BudgetAllocation allocation() const { return BudgetAllocation::kHead; }
  // With kLayer and kSequence: the share of its own budget, protected slots aside, that a head's best candidates get
  // before heads compete (Ada-KV's safeguard).
  virtual double FloorShare() const { return 0; }
  // Whether layers have different budgets, whatever the numbers are.
  virtual bool HasLayerBudgets() const { return false; }
  // Slots per head that a layer keeps; the sum over layers is num_layers * budget.
  virtual int64_t LayerBudget(const LayerShare& share) const { return share.budget; }
  virtual Observations observations() const { return {}; }
  // False for a policy that keeps everything: it has no budget and is never asked to score.
  virtual bool evicts() const { return true; }
  // How many of the newest tokens are protected, given the budget and what the user asked for.
  virtual int64_t RecentTokens(int64_t budget, int64_t asked) const {
    (void)budget;
    return asked;
  }
  // How survivors are placed: keys stay rotated at their original position, or they are turned to the index of the slot
  // that they move to. The latter needs one kept set for all heads: scope kSequence alone.
  virtual std::string_view positions() const { return kAbsolutePositions; }

  // Writes a score for every slot of the head: scores [length]; the highest survive. Never NaN.
  // Protected slots (sinks, recent) are scored too and ignored.
  virtual void Score(const HeadView& head, std::span<float> scores) const = 0;
};

// ---- registry (policies/registry.cpp: one line a policy) ----
// Names in the order of the registry.
std::vector<std::string> PolicyNames();
// InvalidArgument naming the known policies.
Result<std::unique_ptr<EvictionPolicy>> MakePolicy(const std::string& name);

}  // namespace winnow
