// E1 on SmolLM2 with ranks as threads: 100 greedy and 100 sampled tokens, with evictions, the same logits on 1, 2 and 3
// ranks and with 1, 2 and 3 threads a rank. tests/e2e/mpi_exactness does the same with processes.
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>

#include "tests/e2e/requests.h"
#include "tests/support/golden_logits.h"
#include "tests/support/group_run.h"

namespace winnow {
namespace {

// One greedy and one sampled request over the golden text: evictions in the prompt and while generating.
std::vector<Request> Requests() {
  const auto text = ReadGoldenSequences(std::string(WINNOW_GOLDEN_DIR) + "/logits_ids.bin")[0];
  std::vector<Request> requests(2);
  for (int64_t i = 0; i < 2; ++i) {
    Request& request = requests[size_t(i)];
    request.id = i;
    request.prompt.assign(text.begin() + i * 100, text.begin() + i * 100 + 90);
    request.max_tokens = 100;
    request.eviction = {.policy = i == 0 ? "streaming-llm" : "random",
                        .budget = 64,
                        .interval = 24,
                        .sink_tokens = 4,
                        .recent_tokens = 16};
    request.sampling.seed = 11;
    if (i == 1) request.sampling = {.temperature = 0.9f, .top_k = 100, .top_p = 0.95f, .min_p = 0.02f, .seed = 11};
  }
  return requests;
}

TEST(SmolLm2Exactness, GreedyAndSampledTokensHaveTheSameBitsOnAnyRankAndThreadCount) {
  const char* path = std::getenv("WINNOW_MODEL");
  if (path == nullptr) GTEST_SKIP() << "WINNOW_MODEL is not set";
  const auto file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto config = ReadModelConfig(*file);
  ASSERT_TRUE(config.ok()) << config.status().message();
  RunSettings settings{.engine = {.pool_slots = 512, .check_ranks = true}, .limits = {}};
  const auto requests = Requests();
  const RunOutcome one = RunOnThreads(1, *file, *config, settings, requests);
  for (const RequestOutcome& request : one.requests) {
    EXPECT_EQ(request.token_ids.size(), 100u);
    EXPECT_GT(request.evictions, 4);
  }
  for (const auto& [ranks, threads] : {std::pair{1, 2}, {1, 3}, {2, 1}, {3, 1}, {2, 2}}) {
    settings.engine.num_threads = threads;
    const RunOutcome other = RunOnThreads(ranks, *file, *config, settings, requests);
    EXPECT_TRUE(one.SameBits(other)) << ranks << " ranks, " << threads << " threads\n"
                                     << Describe(one) << Describe(other);
  }
}

}  // namespace
}  // namespace winnow
