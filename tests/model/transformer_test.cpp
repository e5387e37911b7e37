// The forward pass by itself: rows, work space and collectives. What it computes is compared with plain double
// arithmetic in tests/engine/engine_against_naive_test.cpp.
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <bit>
#include <numeric>

#include "kv/page_pool.h"
#include "kv/sequence_cache.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr TinyModelSpec kSpec{.num_query_heads = 6, .num_kv_heads = 3, .ffn_size = 384};
constexpr int64_t kLayers = 2, kHidden = 192;

// One sequence on one rank.
class Pass {
 public:
  Pass(const TinyModel& model, Numerics numerics, Communicator& communicator) : backend_(MakeCpuBackend(1).value()) {
    const KvLayout layout{model.config.head_dim, DType::kBF16};
    const ShardPlan plan = MakeShardPlan(ShardDimsOf(model.config), communicator.size()).value();
    ModelWeights weights = LoadWeights(model.file, model.config, plan, communicator.rank(), *backend_, nullptr).value();
    pool_ = PagePool::Make(*backend_, layout, 100).value();
    transformer_ = std::make_unique<Transformer>(model.config, plan, std::move(weights), layout, numerics, *backend_,
                                                 communicator);
    const Range heads = transformer_->kv_heads();
    cache_ = std::make_unique<SequenceCache>(*pool_, kLayers, heads.size(), heads.begin);
    batch_ = std::make_unique<KvBatch>(*backend_);
  }

  // Bits of the logits [wanted][local vocabulary].
  std::vector<uint32_t> Feed(const std::vector<int32_t>& tokens, const std::vector<int32_t>& logit_rows) {
    std::vector<int64_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), cache_->tokens_seen());
    EXPECT_TRUE(cache_->Reserve(int64_t(tokens.size())).ok());
    cache_->Append(int64_t(tokens.size()));
    const KvBatchItem item{cache_.get(), int64_t(tokens.size())};
    EXPECT_TRUE(batch_->Build({&item, 1}).ok());
    ForwardResult result;
    const Status status = transformer_->Forward({.token_ids = tokens,
                                                 .positions = positions,
                                                 .logit_rows = logit_rows,
                                                 .kv = batch_.get(),
                                                 .pages = pool_->pages()},
                                                &result);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<uint32_t> bits;
    for (float logit : result.logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    return bits;
  }

  Transformer& transformer() { return *transformer_; }

 private:
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<SequenceCache> cache_;
  std::unique_ptr<KvBatch> batch_;
};

std::vector<int32_t> Text(int32_t count) {
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < count; ++i) tokens.push_back((i * 37 + 11) % 256);
  return tokens;
}
std::vector<int32_t> Slice(const std::vector<int32_t>& tokens, size_t begin, size_t end) {
  return {tokens.begin() + int64_t(begin), tokens.begin() + int64_t(end)};
}

class TransformerTest : public testing::Test {
 protected:
  std::vector<uint32_t> FeedWhole(const std::vector<int32_t>& tokens, const std::vector<int32_t>& logit_rows) {
    return Pass(model_, Numerics::kExact, *local_).Feed(tokens, logit_rows);
  }

  TinyModel model_{kSpec};
  std::unique_ptr<Communicator> local_ = MakeLocalCommunicator();
};

TEST_F(TransformerTest, OnlyTheWantedRowsComeBackAndNoneIsFine) {
  const size_t vocab = size_t(model_.config.vocab_size);
  const auto all = FeedWhole(Text(9), {0, 1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_EQ(all.size(), 9 * vocab);
  const auto some = FeedWhole(Text(9), {2, 8});
  ASSERT_EQ(some.size(), 2 * vocab);
  EXPECT_TRUE(std::equal(some.begin(), some.begin() + int64_t(vocab), all.begin() + int64_t(2 * vocab)));
  EXPECT_TRUE(std::equal(some.begin() + int64_t(vocab), some.end(), all.begin() + int64_t(8 * vocab)));
  EXPECT_TRUE(FeedWhole(Text(9), {}).empty());
}

TEST_F(TransformerTest, RanksHoldTheLogitsOfTheirVocabularyRowsBitForBit) {
  const std::vector<int32_t> wanted = {0, 5, 11};
  const auto whole = FeedWhole(Text(12), wanted);
  const int64_t vocab = model_.config.vocab_size;
  for (int num_ranks : {2, 3}) {
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      Pass pass(model_, Numerics::kExact, communicator);
      const auto part = pass.Feed(Text(12), wanted);
      const Range rows = pass.transformer().vocab_rows();
      ASSERT_EQ(int64_t(part.size()), 3 * rows.size());
      for (int64_t i = 0; i < 3; ++i) {
        EXPECT_TRUE(std::equal(part.begin() + i * rows.size(), part.begin() + (i + 1) * rows.size(),
                               whole.begin() + i * vocab + rows.begin))
            << "rank " << communicator.rank() << " of " << num_ranks << ", row " << i;
      }
    });
  }
}

TEST_F(TransformerTest, StepsOfAnySizeInAnyOrderGiveTheSameBits) {
  const auto tokens = Text(30);
  const auto whole = FeedWhole(tokens, {29});
  for (const std::vector<size_t>& cuts : {std::vector<size_t>{0, 1, 20, 22, 30}, {0, 25, 26, 30}, {0, 29, 30}}) {
    Pass pass(model_, Numerics::kExact, *local_);  // its work space grows and is then larger than a step
    std::vector<uint32_t> last;
    for (size_t i = 1; i < cuts.size(); ++i) {
      const auto step = Slice(tokens, cuts[i - 1], cuts[i]);
      last = pass.Feed(step, {int32_t(step.size()) - 1});
    }
    EXPECT_EQ(last, whole);
  }
}

TEST_F(TransformerTest, LogitsDependOnEveryTokenAndItsPlace) {
  auto tokens = Text(8);
  const auto original = FeedWhole(tokens, {7});
  std::swap(tokens[2], tokens[3]);
  EXPECT_NE(FeedWhole(tokens, {7}), original);
}

TEST_F(TransformerTest, CollectivesOfAStepEqualTheFormulas) {
  for (int num_ranks : {2, 3}) {
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      Pass pass(model_, Numerics::kExact, communicator);
      for (int64_t rows : {1, 7, 3}) {
        const CollectiveCounters before = communicator.counters();
        pass.Feed(Text(int32_t(rows)), {0});
        EXPECT_EQ(communicator.counters().calls - before.calls, 1 + 2 * kLayers);
        EXPECT_EQ(communicator.counters().payload_bytes - before.payload_bytes,
                  4 * rows * kHidden + 2 * kLayers * 8 * rows * (kHidden + 1));
      }
    });
  }
}

TEST_F(TransformerTest, FastNumericsAgreeWithExactOnesToRoundingAndSendHalf) {
  std::vector<float> exact, fast;
  const auto to_floats = [](const std::vector<uint32_t>& bits) {
    std::vector<float> values;
    for (uint32_t word : bits) values.push_back(std::bit_cast<float>(word));
    return values;
  };
  RunThreadRanks(2, [&](Communicator& communicator) {
    Pass exact_pass(model_, Numerics::kExact, communicator), fast_pass(model_, Numerics::kFast, communicator);
    const auto exact_bits = exact_pass.Feed(Text(10), {9});
    const CollectiveCounters before = communicator.counters();
    const auto fast_bits = fast_pass.Feed(Text(10), {9});
    EXPECT_EQ(communicator.counters().payload_bytes - before.payload_bytes, 4 * 10 * kHidden * (1 + 2 * kLayers));
    if (communicator.rank() != 0) return;
    exact = to_floats(exact_bits);
    fast = to_floats(fast_bits);
  });
  ASSERT_FALSE(exact.empty());
  // Logits of a few units; the int8 steps of activations can turn one rounding into a step of 1 %.
  for (size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(fast[i], exact[i], 0.3) << i;
}

}  // namespace
}  // namespace winnow
