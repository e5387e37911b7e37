// A text that is saved after some tokens, loaded on another number of ranks and continued is the text that never
// stopped: tokens, log-probabilities, every logit, kept sets and counts, bit for bit. Ranks are threads here; the saved
// sequence goes through its file.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "engine/sequence_file.h"
#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kMaxTokens = 40;
constexpr int64_t kDone = 17;  // the middle of an eviction interval of every request below

class SnapshotExactness : public testing::Test {
 protected:
  static RunSettings Settings() { return {.engine = {.pool_slots = 2048, .check_ranks = true}, .limits = {}}; }
  RunOutcome Run(int num_ranks, const Request& request, RunSettings settings = Settings()) {
    RunOutcome outcome = RunOnThreads(num_ranks, model_.file, model_.config, settings, {request});
    EXPECT_TRUE(outcome.status.ok()) << outcome.status.message();
    return outcome;
  }
  SequenceFileModel FileModel(DType dtype = DType::kBF16) const {
    return {.config = model_.config, .fingerprint = 7, .kv_cache_dtype = dtype, .numerics = Numerics::kExact};
  }
  std::string Path() const {
    return (std::filesystem::temp_directory_path() / ("winnow_snapshot_" + std::to_string(getpid()) + ".safetensors"))
        .string();
  }
  void TearDown() override { std::filesystem::remove(Path()); }

  // What `winnow generate --save-kv` and then `--load-kv` do.
  SavedSequence ThroughTheFile(const Request& request, const RunOutcome& run, DType dtype = DType::kBF16) {
    SavedSequence saved{.tokens = request.prompt,
                        .prompt_tokens = request.prompt_tokens(),
                        .eviction = request.eviction,
                        .seed = request.sampling.seed,
                        .choice_index = request.choice_index,
                        .resume = run.saved.at(request.id)};
    const auto& answer = run.requests[0].token_ids;
    saved.tokens.insert(saved.tokens.end(), answer.begin(), answer.end());
    const Status status = SaveSequence(Path(), FileModel(dtype), saved);
    EXPECT_TRUE(status.ok()) << status.message();
    auto loaded = LoadSequence(Path(), FileModel(dtype));
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_EQ(*loaded->resume, *saved.resume);
    return std::move(loaded).value();
  }

  static Request Rest(const Request& request, const SavedSequence& saved, int64_t max_tokens) {
    Request rest = request;
    rest.prompt = saved.tokens;
    rest.original_prompt_tokens = saved.prompt_tokens;
    rest.eviction = saved.eviction;
    rest.resume = saved.resume;
    rest.max_tokens = max_tokens;
    return rest;
  }

  static Request FirstPart(const Request& request, int64_t tokens) {
    Request first = request;
    first.max_tokens = tokens;
    first.save_cache = true;
    return first;
  }

  // Saves after `done` tokens on some ranks, goes on on others, and compares with the run that never stopped.
  void ExpectSameAsWithoutStop(const Request& request, int save_ranks, int load_ranks, int64_t done = kDone,
                               const RunSettings& settings = Settings()) {
    SCOPED_TRACE(request.eviction.policy + ", scope " +
                 std::string(Name(request.eviction.scope.value_or(EvictionScope::kHead))) + ", saved on " +
                 std::to_string(save_ranks) + ", loaded on " + std::to_string(load_ranks) + ", after " +
                 std::to_string(done));
    const RequestOutcome whole = Run(1, request, settings).requests[0];
    const Request first = FirstPart(request, done);
    const RunOutcome begun = Run(save_ranks, first, settings);
    ASSERT_TRUE(begun.saved.contains(0));
    const SavedSequence saved = ThroughTheFile(first, begun, settings.engine.kv_cache_dtype);
    RunSettings rest_settings = settings;
    rest_settings.sampled_before[0] = uint64_t(done);
    const RequestOutcome rest =
        Run(load_ranks, Rest(request, saved, request.max_tokens - done), rest_settings).requests[0];
    RequestOutcome both = rest;
    const RequestOutcome& part = begun.requests[0];
    both.token_ids.insert(both.token_ids.begin(), part.token_ids.begin(), part.token_ids.end());
    both.logprobs.insert(both.logprobs.begin(), part.logprobs.begin(), part.logprobs.end());
    both.logits_digest += part.logits_digest;
    EXPECT_EQ(both.token_ids, whole.token_ids);
    EXPECT_EQ(both.kept_hash, whole.kept_hash);
    EXPECT_EQ(both.evictions, whole.evictions);
    EXPECT_EQ(both.evicted_entries, whole.evicted_entries);
    EXPECT_EQ(both, whole);
  }

  TinyModel model_{TinyModelSpec{}};
};

TEST_F(SnapshotExactness, EveryPolicyAndScopeGoesOnAsIfItHadNeverStopped) {
  int ranks = 0;
  for (const std::string& policy : PoliciesOfAnyText()) {
    for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
      Request request = MixedRequest(3, model_.config.vocab_size, kMaxTokens);  // sampled
      request.id = 0;
      request.eviction.policy = policy;
      request.eviction.scope = scope;
      const auto resolved = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()});
      if (!resolved.ok()) continue;  // a scope that is not defined for the policy
      request.eviction = *resolved;
      // Save on 1, 2, 3 and load on 3, 1, 2; then on 5, 1, 4 and on 2, 7, 5, where KV heads have replicas.
      constexpr std::pair<int, int> kSaveAndLoad[] = {{1, 3}, {5, 2}, {2, 1}, {1, 7}, {3, 2}, {4, 5}};
      const auto [save, load] = kSaveAndLoad[ranks++ % std::size(kSaveAndLoad)];
      ExpectSameAsWithoutStop(request, save, load);
    }
  }
}

TEST_F(SnapshotExactness, TextsGoOnFromAnyTokenOfAnInterval) {
  struct Case {
    int64_t index;
    const char* policy;  // null: the request's own
  };
  // Without observations; attention of a window, and from the start; queries of a window.
  for (const Case& c :
       {Case{0, nullptr}, Case{3, nullptr}, Case{4, nullptr}, Case{3, "r-kv"}, Case{3, "expected-attention"}}) {
    Request request = MixedRequest(c.index, model_.config.vocab_size, kMaxTokens);
    request.id = 0;
    if (c.policy != nullptr) {
      request.eviction.policy = c.policy;
      request.eviction.scope = EvictionScope::kHead;
    }
    request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
    // One whole interval: before, at and after an eviction.
    for (int64_t done = 20; done < 20 + request.eviction.interval; done += 3) {
      ExpectSameAsWithoutStop(request, 2, 3, done);
    }
  }
}

TEST_F(SnapshotExactness, F32CachesAndSmallChunksChangeNothing) {
  Request request = MixedRequest(4, model_.config.vocab_size, kMaxTokens);
  request.id = 0;
  request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
  RunSettings settings = Settings();
  settings.engine.kv_cache_dtype = DType::kF32;
  settings.limits.max_num_batched_tokens = 7;
  ExpectSameAsWithoutStop(request, 3, 2, kDone, settings);
}

TEST_F(SnapshotExactness, TheGuardBackendSavesAndLoadsTheSame) {
  Request request = MixedRequest(3, model_.config.vocab_size, kMaxTokens);
  request.id = 0;
  request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
  RunSettings settings = Settings();
  settings.engine.backend = "guard";
  settings.engine.poison_released_pages = true;
  ExpectSameAsWithoutStop(request, 2, 3, kDone, settings);
}

TEST_F(SnapshotExactness, PinnedSlotsComeAlong) {
  for (const char* policy : {"random", "snapkv", "h2o", "r-kv", "expected-attention"}) {
    Request request = MixedRequest(3, model_.config.vocab_size, kMaxTokens);
    request.id = 0;
    request.eviction.policy = policy;
    if (!MakePolicy(policy).value()->SupportsScope(*request.eviction.scope)) {
      request.eviction.scope = EvictionScope::kHead;
    }
    PinnedBlock block{.after_tokens = 60, .num_slots = 5, .keys = {}, .values = {}};
    const int64_t floats =
        model_.config.num_layers * model_.config.num_kv_heads * block.num_slots * model_.config.head_dim;
    for (int64_t i = 0; i < floats; ++i) {
      block.keys.push_back(float(i % 64) / 64 - 0.5f);
      block.values.push_back(float(i % 32) / 32 - 0.5f);
    }
    request.pinned.push_back(block);
    request.eviction =
        ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens(), .pinned_slots = 5}).value();
    ExpectSameAsWithoutStop(request, 2, 1);
    ExpectSameAsWithoutStop(request, 1, 3);
    ExpectSameAsWithoutStop(request, 5, 4);
  }
}

TEST_F(SnapshotExactness, AHeadWithALargerShareOfTheBudgetKeepsIt) {
  Request request = MixedRequest(3, model_.config.vocab_size, kMaxTokens);
  request.id = 0;
  request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
  request.eviction.scope = EvictionScope::kHead;
  request.eviction.larger_heads = 2;
  request.eviction.num_kv_heads = model_.config.num_kv_heads;
  ExpectSameAsWithoutStop(request, 3, 2);
}

// More text after the answer: the cache is that of one prompt with all of it.
TEST_F(SnapshotExactness, AppendedTextIsReadAsIfItHadBeenThereFromTheStart) {
  const std::vector<int32_t> more = RandomTokens(77, 29, model_.config.vocab_size);
  for (const char* policy : {"streaming-llm", "streaming-llm-compacted", "random", "full", "snapkv", "h2o", "keydiff",
                             "r-kv", "expected-attention"}) {
    Request request = MixedRequest(3, model_.config.vocab_size, kDone);
    request.id = 0;
    request.eviction.policy = policy;
    request.eviction.scope = std::nullopt;
    request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
    const Request first = FirstPart(request, kDone);
    const SavedSequence saved = ThroughTheFile(first, Run(2, first));
    Request second = Rest(request, saved, 20);
    second.prompt.insert(second.prompt.end(), more.begin(), more.end());
    second.original_prompt_tokens = 0;
    Request at_once = second;
    at_once.resume = nullptr;
    const RequestOutcome one = Run(1, at_once).requests[0];
    EXPECT_EQ(Run(3, second).requests[0], one) << policy;
    RunSettings chunked = Settings();
    chunked.limits.max_num_batched_tokens = 5;
    EXPECT_EQ(Run(2, second, chunked).requests[0], one) << policy;
  }
}

TEST_F(SnapshotExactness, ASecondSaveGoesOnFromTheFirst) {
  Request request = MixedRequest(3, model_.config.vocab_size, kMaxTokens);
  request.id = 0;
  request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
  const Request whole = FirstPart(request, 30);
  const Request first = FirstPart(request, kDone);
  const SavedSequence once = ThroughTheFile(first, Run(1, first));
  const Request second = FirstPart(Rest(request, once, 0), 30 - kDone);
  EXPECT_EQ(*Run(3, second).saved.at(0), *Run(2, whole).saved.at(0));
}

// The words are part of the file, and with more text behind it the whole text is repeated from uneven heads.
TEST_F(SnapshotExactness, TheWordsOfAReplayComeAlong) {
  for (const char* policy : {"kvzip", "kvzip-plus"}) {
    Request request = MixedRequest(3, model_.config.vocab_size, kDone);
    request.id = 0;
    request.eviction = {.policy = policy, .budget = 43, .recent_tokens = 8};
    request.eviction = ResolveEviction(request.eviction, {.prompt_tokens = request.prompt_tokens()}).value();
    request.eviction.replay_prompt = {.chunk_tokens = 50, .first = {9, 200}, .next = {}};
    const Request first = FirstPart(request, kDone);
    const SavedSequence saved = ThroughTheFile(first, Run(2, first));
    EXPECT_EQ(saved.eviction.replay_prompt, request.eviction.replay_prompt);
    SequenceFileModel smaller = FileModel();
    smaller.config.vocab_size = 200;
    const Status refused = LoadSequence(Path(), smaller).status();
    EXPECT_EQ(refused.code(), StatusCode::kBadFile);
    EXPECT_NE(refused.message().find("eviction.replay_first: expected token ids from 0 to 199, found '9 200'"),
              std::string::npos)
        << refused.message();
    Request second = Rest(request, saved, 20);
    const std::vector<int32_t> more = RandomTokens(77, 29, model_.config.vocab_size);
    second.prompt.insert(second.prompt.end(), more.begin(), more.end());
    second.original_prompt_tokens = 0;
    const RequestOutcome one = Run(1, second).requests[0];
    EXPECT_EQ(one.evictions, 2);
    EXPECT_EQ(Run(3, second).requests[0], one) << policy;
    RunSettings chunked = Settings();
    chunked.limits.max_num_batched_tokens = 5;
    EXPECT_EQ(Run(2, second, chunked).requests[0], one) << policy;
  }
}

}  // namespace
}  // namespace winnow
