// The forward pass by itself: rows, work space and collectives. What it computes is compared with plain double
// arithmetic in tests/engine/engine_against_naive_test.cpp.
#include "model/transformer.h"

#include <gtest/gtest.h>

#include <bit>
#include <limits>
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
    pool_ = PagePool::Make(*backend_, layout, 100, /*with_mass=*/true).value();
    transformer_ = std::make_unique<Transformer>(model.config, plan, std::move(weights), layout, numerics, *backend_,
                                                 communicator);
    const Range heads = transformer_->kv_heads();
    cache_ = std::make_unique<SequenceCache>(*pool_, kLayers, heads.size(), heads.begin);
    batch_ = std::make_unique<KvBatch>(*backend_);
  }

  // What a step may ask for beside tokens and logits.
  struct Options {
    bool stop_after_kv = false, observe = false;
    std::vector<int32_t> query_rows = {};
    std::vector<float> embeddings = {};
    std::vector<const Adapter*> adapters = {};
  };

  // Bits of the logits [wanted][local vocabulary].
  std::vector<uint32_t> Feed(const std::vector<int32_t>& tokens, const std::vector<int32_t>& logit_rows) {
    return Feed(tokens, logit_rows, Options());
  }
  std::vector<uint32_t> Feed(const std::vector<int32_t>& tokens, const std::vector<int32_t>& logit_rows,
                             const Options& options) {
    ForwardResult result;
    const Status status = Forward(tokens, logit_rows, options, &result);
    EXPECT_TRUE(status.ok()) << status.message();
    std::vector<uint32_t> bits;
    for (float logit : result.logits) bits.push_back(std::bit_cast<uint32_t>(logit));
    return bits;
  }
  Status Forward(const std::vector<int32_t>& tokens, const std::vector<int32_t>& logit_rows, const Options& options,
                 ForwardResult* result) {
    std::vector<int64_t> positions(tokens.size());
    std::iota(positions.begin(), positions.end(), cache_->next_position());
    EXPECT_TRUE(cache_->Reserve(int64_t(tokens.size())).ok());
    cache_->Append(int64_t(tokens.size()));
    const KvBatchItem item{cache_.get(), int64_t(tokens.size())};
    EXPECT_TRUE(batch_->Build({&item, 1}).ok());
    const std::vector<int32_t> observe(tokens.size(), 1);
    return transformer_->Forward(
        {.token_ids = tokens,
         .positions = positions,
         .logit_rows = logit_rows,
         .kv = batch_.get(),
         .pages = pool_->pages(),
         .observe = options.observe ? std::span<const int32_t>(observe) : std::span<const int32_t>(),
         .mass = pool_->mass(),
         .embeddings = options.embeddings,
         .adapters = options.adapters,
         .query_rows = options.query_rows,
         .stop_after_kv = options.stop_after_kv},
        result);
  }

  // Keys and values of every head, [layer][local head][slot][head_dim]; then the mass.
  std::vector<float> Cached() {
    std::vector<float> all;
    for (int64_t layer = 0; layer < kLayers; ++layer) {
      for (int64_t h = 0; h < cache_->num_kv_heads(); ++h) {
        const HeadCache& head = cache_->head(layer, h);
        std::vector<int32_t> slots;
        for (int64_t slot = 0; slot < head.length(); ++slot) slots.push_back(head.PhysicalSlot(slot));
        std::vector<float> keys(slots.size() * size_t(cache_->head_dim())), values(keys.size());
        pool_->ReadSlots(slots, keys, values);
        all.insert(all.end(), keys.begin(), keys.end());
        all.insert(all.end(), values.begin(), values.end());
      }
    }
    return all;
  }
  // Every byte of the pool.
  std::vector<std::byte> PoolBytes() {
    std::vector<std::byte> bytes(size_t(pool_->pages().bytes()));
    backend_->CopyToHost(bytes, pool_->pages());
    return bytes;
  }

  Transformer& transformer() { return *transformer_; }
  Backend& backend() { return *backend_; }
  SequenceCache& cache() { return *cache_; }
  PagePool& pool() { return *pool_; }

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

// The embedding rows of tokens, as the model's own table gives them.
std::vector<float> EmbeddingsOf(const TinyModel& model, const std::vector<int32_t>& tokens) {
  const auto backend = MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  const ShardPlan plan = MakeShardPlan(ShardDimsOf(model.config), 1).value();
  const ModelWeights weights = LoadWeights(model.file, model.config, plan, 0, *backend, nullptr).value();
  const int64_t rows = int64_t(tokens.size());
  const Buffer ids = std::move(backend->Allocate(4 * rows).value());
  const Buffer out = std::move(backend->Allocate(4 * rows * kHidden).value());
  backend->CopyToDevice(ids.View(DType::kI32, {rows}), std::as_bytes(std::span(tokens)));
  backend->Embed(*weights.embedding, 0, ids.View(DType::kI32, {rows}), out.View(DType::kF32, {rows, kHidden}));
  std::vector<float> embeddings(size_t(rows * kHidden));
  backend->CopyToHost(std::as_writable_bytes(std::span(embeddings)), out.View(DType::kF32, {rows, kHidden}));
  return embeddings;
}

TEST_F(TransformerTest, EmbeddingRowsOfTokensGiveTheBitsOfTheTokensAlsoMixedWithThem) {
  const auto tokens = Text(14);
  const std::vector<int32_t> wanted = {0, 6, 13};
  Pass by_token(model_, Numerics::kExact, *local_);
  const auto expected = by_token.Feed(tokens, wanted);
  for (int32_t stride : {1, 2, 5}) {  // every, every second, every fifth row as an embedding
    std::vector<int32_t> ids = tokens, as_embedding;
    for (size_t row = 0; row < ids.size(); row += size_t(stride)) {
      as_embedding.push_back(ids[row]);
      ids[row] = ForwardBatch::kEmbedding;
    }
    const Pass::Options options{.embeddings = EmbeddingsOf(model_, as_embedding)};
    Pass pass(model_, Numerics::kExact, *local_);
    EXPECT_EQ(pass.Feed(ids, wanted, options), expected) << stride;
    EXPECT_EQ(pass.Cached(), by_token.Cached()) << stride;
    // Ranks hold different vocabulary rows; a given row is the same on all of them.
    RunThreadRanks(3, [&](Communicator& communicator) {
      Pass part(model_, Numerics::kExact, communicator);
      const auto bits = part.Feed(ids, {13}, options);
      const Range rows = part.transformer().vocab_rows();
      EXPECT_TRUE(std::equal(bits.begin(), bits.end(), expected.begin() + 2 * model_.config.vocab_size + rows.begin));
    });
  }
}

TEST_F(TransformerTest, AnEmbeddingThatIsNoTokensGoesItsOwnWay) {
  const auto tokens = Text(5);
  std::vector<int32_t> ids = tokens;
  ids[2] = ForwardBatch::kEmbedding;
  Pass::Options options{.embeddings = EmbeddingsOf(model_, {tokens[2]})};
  options.embeddings[7] += 0.5f;
  Pass pass(model_, Numerics::kExact, *local_);
  const auto bits = pass.Feed(ids, {1, 4}, options);
  const auto expected = FeedWhole(tokens, {1, 4});
  const int64_t vocab = model_.config.vocab_size;
  EXPECT_TRUE(std::equal(bits.begin(), bits.begin() + vocab, expected.begin())) << "rows before it see nothing of it";
  EXPECT_FALSE(std::equal(bits.begin() + vocab, bits.end(), expected.begin() + vocab));
}

using TransformerDeathTest = TransformerTest;

TEST_F(TransformerDeathTest, TooFewOrTooManyEmbeddingRowsEndTheProgram) {
  Pass pass(model_, Numerics::kExact, *local_);
  const std::vector<int32_t> ids = {3, ForwardBatch::kEmbedding};
  EXPECT_DEATH(pass.Feed(ids, {1}), "check failed");
  EXPECT_DEATH(pass.Feed(ids, {1}, {.embeddings = std::vector<float>(2 * kHidden, 0.0f)}), "check failed");
  EXPECT_DEATH(pass.Feed({1, 2}, {1}, {.stop_after_kv = true}), "check failed");  // no logits come from such a pass
}

TEST_F(TransformerTest, StoppingAfterTheKeysWritesTheCacheOfAFullPass) {
  for (int num_ranks : {1, 3}) {
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      Pass full(model_, Numerics::kExact, communicator), stopped(model_, Numerics::kExact, communicator);
      full.Feed(Text(20), {});
      const CollectiveCounters before = communicator.counters();
      const int64_t flops = stopped.backend().work().matmul_flops;
      stopped.Feed(Text(20), {}, {.stop_after_kv = true});
      EXPECT_EQ(stopped.Cached(), full.Cached());
      EXPECT_EQ(stopped.PoolBytes(), full.PoolBytes()) << "slots of nobody were written";
      // The last layer's attention, output and FFN are not computed.
      EXPECT_LT(stopped.backend().work().matmul_flops - flops, full.backend().work().matmul_flops);
      if (num_ranks > 1) {
        EXPECT_EQ(communicator.counters().calls - before.calls, 1 + 2 * (kLayers - 1));
      }
      const std::vector<int32_t> next = {9, 8};
      EXPECT_EQ(stopped.Feed(next, {1}), full.Feed(next, {1}));
    });
  }
}

TEST_F(TransformerTest, StoppingAfterTheKeysTellsOfRowsThatAreNotFinite) {
  Pass pass(model_, Numerics::kExact, *local_);
  std::vector<float> embeddings(size_t(kHidden), 0.25f);
  embeddings[1] = std::numeric_limits<float>::quiet_NaN();
  ForwardResult result;
  ASSERT_TRUE(
      pass.Forward({4, ForwardBatch::kEmbedding, 5}, {}, {.stop_after_kv = true, .embeddings = embeddings}, &result)
          .ok());
  // The row itself; the one behind it has met its keys in the first layer's attention.
  EXPECT_EQ(result.not_finite, (std::vector<int32_t>{0, 1, 1}));
  EXPECT_TRUE(result.logits.empty());
}

TEST_F(TransformerTest, RowsWithAnAdapterAreRefusedAndNoneIsFine) {
  Pass pass(model_, Numerics::kExact, *local_);
  EXPECT_EQ(pass.Feed({1, 2}, {1}, {.adapters = {nullptr, nullptr}}), FeedWhole({1, 2}, {1}));
  ForwardResult result;
  const int somewhere = 0;
  const auto* adapter = reinterpret_cast<const Adapter*>(&somewhere);
  const Status status = pass.Forward({1, 2}, {1}, {.adapters = {nullptr, adapter}}, &result);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("adapter"), std::string::npos);
}

// [layer][row][query heads of the rank][head_dim], of one pass over all tokens.
std::vector<float> QueriesOf(Pass& pass, const std::vector<int32_t>& tokens, const std::vector<int32_t>& rows,
                             bool stop_after_kv = false) {
  ForwardResult result;
  EXPECT_TRUE(pass.Forward(tokens, {}, {.stop_after_kv = stop_after_kv, .query_rows = rows}, &result).ok());
  return result.queries;
}

TEST_F(TransformerTest, QueriesOfTheWantedRowsComeBackAndOnlyThose) {
  const auto tokens = Text(12);
  std::vector<int32_t> every(tokens.size());
  std::iota(every.begin(), every.end(), 0);
  Pass pass(model_, Numerics::kExact, *local_);
  const std::vector<float> all = QueriesOf(pass, tokens, every);
  const size_t row_floats = size_t(model_.config.num_query_heads * model_.config.head_dim);
  ASSERT_EQ(all.size(), size_t(kLayers) * tokens.size() * row_floats);
  const std::vector<int32_t> wanted = {0, 5, 11};
  std::vector<float> expected;
  for (size_t layer = 0; layer < size_t(kLayers); ++layer) {
    for (int32_t row : wanted) {
      const auto from = all.begin() + int64_t((layer * tokens.size() + size_t(row)) * row_floats);
      expected.insert(expected.end(), from, from + int64_t(row_floats));
    }
  }
  for (bool stop_after_kv : {false, true}) {
    Pass again(model_, Numerics::kExact, *local_);
    EXPECT_EQ(QueriesOf(again, tokens, wanted, stop_after_kv), expected);
    EXPECT_EQ(again.Cached(), pass.Cached());
  }
  Pass none(model_, Numerics::kExact, *local_);
  EXPECT_TRUE(QueriesOf(none, tokens, {}).empty());
  // In steps of one row; a rank's are those of its heads.
  for (int num_ranks : {1, 3}) {
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      Pass part(model_, Numerics::kExact, communicator);
      const Range heads = part.transformer().kv_heads();
      const size_t group = row_floats / size_t(model_.config.num_kv_heads), own = size_t(heads.size()) * group;
      for (size_t row = 0; row < tokens.size(); ++row) {
        const std::vector<float> queries = QueriesOf(part, {tokens[row]}, {0});
        ASSERT_EQ(queries.size(), size_t(kLayers) * own);
        for (size_t layer = 0; layer < size_t(kLayers); ++layer) {
          EXPECT_TRUE(std::equal(
              queries.begin() + int64_t(layer * own), queries.begin() + int64_t((layer + 1) * own),
              all.begin() + int64_t((layer * tokens.size() + row) * row_floats) + heads.begin * int64_t(group)));
        }
      }
    });
  }
}

// A probe pass asks the cache something without leaving a trace: rows are appended, run with statistics off, and rolled
// back. What follows must be bit-identical to never having asked, page numbers and attention mass included.
TEST_F(TransformerTest, AProbePassLeavesNoTrace) {
  for (int num_ranks : {1, 3}) {
    RunThreadRanks(num_ranks, [&](Communicator& communicator) {
      Pass probed(model_, Numerics::kExact, communicator), plain(model_, Numerics::kExact, communicator);
      const auto tokens = Text(60);
      const Pass::Options observed{.observe = true};
      size_t fed = 0;
      // 14 + 8 crosses a page, so that pages are taken and given back; 1 and 16 do and do not.
      for (size_t count : {size_t(14), size_t(1), size_t(16), size_t(20)}) {
        const auto step = Slice(tokens, fed, fed + count);
        const std::vector<int32_t> last = {int32_t(count) - 1};
        EXPECT_EQ(probed.Feed(step, last, observed), plain.Feed(step, last, observed));
        fed += count;
        for (bool stop_after_kv : {true, false}) {
          const auto probe_logits =
              probed.Feed(Text(8), stop_after_kv ? std::vector<int32_t>() : std::vector<int32_t>{7},
                          {.stop_after_kv = stop_after_kv});
          EXPECT_EQ(probe_logits.empty(), stop_after_kv);
          probed.cache().Rollback(8);
        }
        EXPECT_EQ(probed.pool().num_used(), plain.pool().num_used());
        EXPECT_EQ(probed.Cached(), plain.Cached());
        EXPECT_EQ(probed.cache().ReadMass(), plain.cache().ReadMass());
        for (int64_t layer = 0; layer < kLayers; ++layer) {
          for (int64_t h = 0; h < plain.cache().num_kv_heads(); ++h) {
            EXPECT_EQ(probed.cache().head(layer, h).pages, plain.cache().head(layer, h).pages);
            EXPECT_EQ(probed.cache().head(layer, h).positions, plain.cache().head(layer, h).positions);
          }
        }
      }
    });
  }
}

}  // namespace
}  // namespace winnow
