// Whole models whose matrices have the less usual formats of GGUF files: they load, compute what the reference does in
// the same arithmetic, and are split over ranks inside their blocks of 256 without another bit.
#include <gtest/gtest.h>

#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

class GgufFormats : public testing::TestWithParam<DType> {};

TEST_P(GgufFormats, GiveTheReferencesBitsOnOneRankAndTwo) {
  const TinyModel model({.num_layers = 1,
                         .num_query_heads = 8,
                         .num_kv_heads = 2,
                         .head_dim = 32,
                         .ffn_size = 768,
                         .weights = GetParam(),
                         .embeddings = GetParam()});
  std::vector<Request> requests = MixedRequests(2, model.config.vocab_size, /*max_tokens=*/4);
  RunSettings settings{.engine = {.backend = "reference", .pool_slots = 1024}, .limits = {}};
  const RunOutcome expected = RunOnThreads(1, model.file, model.config, settings, requests);
  ASSERT_TRUE(expected.status.ok()) << expected.status.message();
  for (const RequestOutcome& request : expected.requests) ASSERT_TRUE(request.finish_reason == FinishReason::kLength);
  settings.engine.backend = "cpu";
  for (const int ranks : {1, 2}) {
    const RunOutcome found = RunOnThreads(ranks, model.file, model.config, settings, requests);
    EXPECT_TRUE(expected.SameBits(found)) << ranks << " ranks\n" << Describe(expected) << Describe(found);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GgufFormats,
                         testing::Values(DType::kQ5_0, DType::kQ5_1, DType::kQ2_K, DType::kQ3_K, DType::kQ4_K,
                                         DType::kQ5_K, DType::kQ6_K, DType::kIQ4_NL, DType::kIQ4_XS),
                         [](const auto& tested) { return std::string(Name(tested.param)); });

}  // namespace
}  // namespace winnow
