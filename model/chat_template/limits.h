// What a chat template may use at most: it comes with the model, from whoever made the file. Plain data, any thread.
#pragma once

#include <cstddef>
#include <cstdint>

namespace winnow {

// The largest published templates have 17 kB, nest 8 statements and 6 macro calls, and take some 10,000 steps for a
// short conversation.
struct TemplateLimits {
  size_t max_template_bytes = size_t(1) << 20;
  int max_nesting = 100;                        // of statements, and of parentheses
  int max_expression_depth = 200;               // operands below each other: a + b + c has 2
  int max_call_depth = 800;                     // expressions and statements being evaluated, one inside the other
  int64_t max_steps = 20'000'000;               // expressions evaluated, and what costs as much
  int64_t max_work_bytes = int64_t(512) << 20;  // of all intermediate texts and lists together
};

namespace jinja {

inline constexpr size_t kMaxTextBytes = size_t(16) << 20;  // of one text
inline constexpr int64_t kMaxValueSize = 1 << 20;  // values in a list or mapping, those inside them counted as well
inline constexpr size_t kMaxKeys = 10'000;         // of one mapping
inline constexpr int kMaxValueDepth = 100;         // lists and mappings inside each other
inline constexpr int64_t kMaxRange = 100'000;      // as jinja2.sandbox.MAX_RANGE

}  // namespace jinja
}  // namespace winnow
