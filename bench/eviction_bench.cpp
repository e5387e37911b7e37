// What does an eviction cost, and what do the statistics that it scores with? SmolLM2-135M's cache (30 layers, 3 KV
// heads of 64, groups of 3, bf16) at budget 1,024 and interval 128, one sequence, one rank: the median eviction with
// everything it does (observe, score, select, compact, clear), and the time that observing adds to attention at 1,088
// slots, the mean between two evictions, for the rows that the policy observes. Prints a table and JSON lines.
//   eviction_bench [threads] [kernels]
#include <fmt/format.h>

#include <bit>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "bench/caches.h"
#include "dist/communicator.h"
#include "engine/evictor.h"
#include "kv/page_pool.h"
#include "model/rotary.h"
#include "policies/key_redundancy.h"

namespace winnow::bench {
namespace {

constexpr int kRounds = 30;
constexpr int64_t kLayers = 30, kKvHeads = 3, kGroup = 3, kHeadDim = 64, kBudget = 1024, kInterval = 128;

// Microseconds that observation adds to a decoded token whose row is observed: all layers.
double ObservationMicroseconds(Backend& backend) {
  Caches caches(backend, {kKvHeads, kGroup, kHeadDim, DType::kBF16, kBudget + kInterval / 2, 32});
  caches.SetRows(1);
  std::vector<double> plain, observed;
  const auto layers = [&](bool observe) {
    return TimeOnce([&] {
      for (int64_t layer = 0; layer < kLayers; ++layer) caches.Attend(observe);
    });
  };
  for (int round = 0; round < 4 * kRounds; ++round) {
    plain.push_back(layers(false));
    observed.push_back(layers(true));
  }
  // A small difference of two times: the fastest ones, since other work on the machine only ever adds time.
  return (Summary(observed).best - Summary(plain).best) * 1e6;
}

std::vector<float> RandomFloats(int64_t count) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(OpenUnitFloat(Philox(1, {uint32_t(i), 0, 0, 0})[0]) - 0.5f);
  return values;
}

// Random keys and values, as policies that look at keys should see them.
void FillPages(PagePool& pool) {
  const int64_t page_words = pool.layout().page_bytes() / 4;  // two bf16 each
  std::vector<uint32_t> words;
  for (float value : RandomFloats(2 * page_words)) {
    const uint32_t upper = std::bit_cast<uint32_t>(value) >> 16;
    words.push_back(upper << 16 | upper);
  }
  for (int64_t page = 0; page < pool.num_pages(); ++page) {  // each begins at another word
    pool.backend().CopyToDevice(
        pool.pages().Rows(page * page_words, page_words),
        std::as_bytes(std::span(words).subspan(size_t(page * 37 % page_words), size_t(page_words))));
  }
}

// Seconds of evictions, one after another, of a sequence that is filled up again in between.
Result<std::vector<double>> TimeEvictions(Backend& backend, const std::string& name) {
  Request request;
  request.prompt.assign(size_t(kBudget), 1);
  WINNOW_ASSIGN_OR_RETURN(request.eviction, ResolveEviction({.policy = name, .budget = kBudget, .interval = kInterval},
                                                            {.prompt_tokens = kBudget}));
  WINNOW_ASSIGN_OR_RETURN(const std::unique_ptr<EvictionPolicy> policy, MakePolicy(name));
  // Twice what even heads need: policies that let heads compete have longer ones.
  const int64_t num_pages = 2 * kLayers * kKvHeads * (kBudget + kInterval) / kPageSlots;
  const Observations observations = policy->observations();
  const bool with_mass = observations.mass != ObservedMass::kNone;
  WINNOW_ASSIGN_OR_RETURN(const std::unique_ptr<PagePool> pool,
                          PagePool::Make(backend, {kHeadDim, DType::kBF16}, num_pages, with_mass));
  const std::unique_ptr<Communicator> communicator = MakeLocalCommunicator();
  SequenceCache cache(*pool, kLayers, kKvHeads, 0);
  FillPages(*pool);
  const int64_t window = observations.Window(request.eviction.recent_tokens);
  const std::vector<float> queries =
      RandomFloats(observations.queries ? kLayers * window * kKvHeads * kGroup * kHeadDim : 0);
  const RotaryTable rotary(100000, kHeadDim);
  // Policies whose window spans evictions have the older part of it already.
  const int64_t queries_kept = observations.window_spans_evictions ? std::max<int64_t>(0, window - kInterval) : 0;
  if (policy->positions() == kCompactedPositions) cache.CompactPositions(rotary.frequencies());
  std::vector<int64_t> mass;
  for (int64_t i = 0; i < num_pages * kPageSlots; ++i) mass.push_back(Philox(3, {uint32_t(i), 0, 0, 0})[0]);
  std::vector<double> seconds;
  for (int round = -2; round < kRounds; ++round) {  // two warm-ups
    const int64_t missing = cache.evictions() == 0 ? request.eviction.Trigger() : kInterval;
    WINNOW_RETURN_IF_ERROR(cache.Reserve(missing));
    cache.Append(missing);
    if (observations.queries) {
      const int64_t rows = cache.evictions() == 0 ? window : window - queries_kept;
      cache.AppendQueries(rows, std::span(queries).first(queries.size() / size_t(window) * size_t(rows)));
    }
    if (with_mass) backend.CopyToDevice(pool->mass(), std::as_bytes(std::span(mass)));
    const DueEviction due{.policy = policy.get(),
                          .request = &request,
                          .cache = &cache,
                          .num_kv_heads = kKvHeads,
                          .rotary_frequencies = rotary.frequencies(),
                          .queries_kept = queries_kept};
    const double time = TimeOnce([&] { EvictToBudget(*communicator, std::span(&due, 1)); });
    if (round >= 0) seconds.push_back(time);
  }
  return seconds;
}

// Microseconds of the part of R-KV that is quadratic in the slots, of one eviction: every key with every other, in all
// heads. Everything else that it does is in its eviction, too.
double QuadraticMicroseconds() {
  const std::vector<float> keys = RandomFloats((kBudget + kInterval) * kHeadDim);
  constexpr int kHeads = 6;
  return Time(3,
              [&] {
                for (int head = 0; head < kHeads; ++head) MeanCosines(keys, kHeadDim, 0.5f);
              })
             .median *
         1e6 * double(kLayers * kKvHeads) / kHeads;
}

constexpr const char* kJson =
    R"({{"question":"eviction","policy":"{}","kernels":"{}","threads":{},"eviction_us":{:.1f},)"
    R"("statistics_us_per_token":{:.2f},"quadratic_us":{:.1f}}})";

Status Measure(Backend& backend, int threads) {
  const double observation = ObservationMicroseconds(backend);
  std::printf("kernels %s, threads %d; observing a row: %.1f us in all layers\n", backend.kernels().c_str(), threads,
              observation);
  std::printf("policy                    one eviction: median, fastest      statistics a token      quadratic part\n");
  std::vector<std::string> json;
  for (const std::string& name : PolicyNames()) {
    WINNOW_ASSIGN_OR_RETURN(const std::unique_ptr<EvictionPolicy> policy, MakePolicy(name));
    if (!policy->evicts() || policy->timing() != EvictionTiming::kChunked) continue;
    if (policy->observations().future) continue;  // an oracle for studies
    WINNOW_ASSIGN_OR_RETURN(const std::vector<double> seconds, TimeEvictions(backend, name));
    const Observations observations = policy->observations();
    const ObservedMass mass = observations.mass;
    const int64_t window =
        observations.window_tokens > 0 ? observations.window_tokens : EvictionSettings().recent_tokens;
    const double observed_share = mass == ObservedMass::kCumulative ? 1
                                  : mass == ObservedMass::kWindow   ? double(window) / double(kInterval)
                                                                    : 0.0;
    const Seconds times = Summary(seconds);
    const double quadratic = name == "r-kv" ? QuadraticMicroseconds() : 0;
    std::printf("%-25s %10.0f us %10.0f us        %10.2f us    %10.0f us\n", name.c_str(), times.median * 1e6,
                times.best * 1e6, observation * observed_share, quadratic);
    json.push_back(fmt::format(kJson, name, backend.kernels(), threads, times.median * 1e6,
                               observation * observed_share, quadratic));
  }
  for (const std::string& line : json) std::puts(line.c_str());
  return OkStatus();
}

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
  auto backend = MakeCpuBackend(threads, argc > 2 ? argv[2] : "auto");
  const Status status = backend.ok() ? Measure(**backend, threads) : backend.status();
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", status.message().c_str());
  return 2;
}

}  // namespace
}  // namespace winnow::bench

int main(int argc, char** argv) {
  return winnow::bench::Main(argc, argv);
}
