// The same weights in a Hugging Face directory and in a GGUF file are the same model, bit for bit, on one rank and on
// two: names, orders of rows and types of numbers are all there is between the formats (field case 76).
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "model/checkpoint.h"
#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/hf_directory.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

TEST(HfDirectoryModel, HasTheLogitsOfItsGgufFileOnAnyNumberOfRanks) {
  const std::string path = TemporaryPath("hf_e2e").string();
  for (const bool tied : {true, false}) {
    const TinyModelSpec spec{.tied_embeddings = tied, .weights = DType::kBF16, .embeddings = DType::kBF16};
    const TinyModel gguf(spec);
    std::filesystem::remove_all(path);
    HfDirectory(spec).Write(path, 3);
    const auto opened = Checkpoint::Open(path);
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    const auto requests = MixedRequests(3, gguf.config.vocab_size, /*max_tokens=*/6);
    const RunSettings settings{.engine = {.pool_slots = 4096, .check_ranks = true}, .limits = {}};
    const RunOutcome expected = RunOnThreads(1, gguf.file, gguf.config, settings, requests);
    ASSERT_TRUE(expected.status.ok()) << expected.status.message();
    for (const int ranks : {1, 2}) {
      const RunOutcome found = RunOnThreads(ranks, (*opened)->weights(), (*opened)->config(), settings, requests);
      EXPECT_TRUE(expected.SameBits(found)) << ranks << " ranks, " << (tied ? "tied" : "a head of its own") << "\n"
                                            << Describe(expected) << Describe(found);
    }
  }
  std::filesystem::remove_all(path);
}

// A line of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::atoll(line.c_str() + key.size() + 1) * 1024;
  }
  return 0;
}

TEST(HfDirectoryModel, IsNeverMuchMoreInMemoryThanWhatIsPacked) {
  const std::string path = TemporaryPath("hf_resident").string();
  const TinyModelSpec spec{.num_layers = 3,
                           .num_query_heads = 16,
                           .num_kv_heads = 4,
                           .head_dim = 64,
                           .ffn_size = 4096,
                           .weights = DType::kBF16,
                           .embeddings = DType::kBF16};
  HfDirectory(spec).Write(path, 2);
  const auto opened = Checkpoint::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak starts again from what is resident now
  const int64_t before = StatusBytes("VmRSS");
  const auto communicator = MakeLocalCommunicator();
  const auto engine =
      RankEngine::Make((*opened)->weights(), (*opened)->config(), {.pool_slots = 16}, *communicator, nullptr);
  ASSERT_TRUE(engine.ok()) << engine.status().message();
  const int64_t packed = (*engine)->transformer().weight_bytes(), grown = StatusBytes("VmHWM") - before;
  EXPECT_GT(packed, 80 << 20);
  // The largest tensor of the file has 8 MiB; 8 MiB more are for everything else.
  EXPECT_LT(grown, packed + packed / 10 + (8 << 20));
  std::filesystem::remove_all(path);
}

}  // namespace
}  // namespace winnow
