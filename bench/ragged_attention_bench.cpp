// Do threads share decode attention evenly where heads hold different numbers of slots? One row over heads of which one
// holds 4,096 slots and the others 64, and over heads that hold as many each as they do on average. What threads are
// given is the time of one thread divided by their number: an even split of the same work. Prints a table and JSON
// lines.
//   ragged_attention_bench [threads]
#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/caches.h"

namespace winnow::bench {
namespace {

constexpr int kRounds = 200;
constexpr int32_t kLong = 4096, kShort = 64;

double Microseconds(Backend& backend, int64_t kv_heads, int64_t group, const std::vector<int32_t>& slots) {
  Caches caches(backend, {kv_heads, group, 64, DType::kBF16, kLong, 32});
  caches.SetVisible(slots);
  return Time(kRounds, [&] { caches.Attend(false); }).best * 1e6;  // other work only ever adds time
}

constexpr const char* kJson =
    R"({{"question":"ragged attention","kv_heads":{},"group":{},"slots":"{}","threads":{},"one_thread_us":{:.1f},)"
    R"("us":{:.1f},"of_even_split":{:.2f}}})";

int Main(int argc, char** argv) {
  const int threads = argc > 1 ? std::atoi(argv[1]) : 2;
  auto one = MakeCpuBackend(1, "auto"), all = MakeCpuBackend(threads, "auto");
  if (!one.ok() || !all.ok()) return std::fprintf(stderr, "cannot make a backend\n"), 2;
  std::printf("KV heads x group   slots of heads        1 thread   %d threads   of an even split\n", threads);
  std::vector<std::string> json;
  for (const auto& [kv_heads, group] : {std::pair<int64_t, int64_t>{3, 3}, {32, 1}}) {
    for (bool is_ragged : {true, false}) {
      std::vector<int32_t> slots(size_t(kv_heads), kShort);
      slots.back() = kLong;
      if (!is_ragged) slots.assign(slots.size(), int32_t((kLong + kShort * (kv_heads - 1)) / kv_heads));
      const double single = Microseconds(**one, kv_heads, group, slots);
      const double shared = Microseconds(**all, kv_heads, group, slots);
      const char* name = is_ragged ? "one long, others short" : "all the mean";
      std::printf("%8ld x %ld       %-22s %8.1f us %8.1f us %10.2f\n", long(kv_heads), long(group), name, single,
                  shared, shared * threads / single);
      json.push_back(fmt::format(kJson, kv_heads, group, name, threads, single, shared, shared * threads / single));
    }
  }
  for (const std::string& line : json) std::puts(line.c_str());
  return 0;
}

}  // namespace
}  // namespace winnow::bench

int main(int argc, char** argv) {
  return winnow::bench::Main(argc, argv);
}
