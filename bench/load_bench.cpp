// How fast is a model loaded? Reading, packing into tiles, and the rank's memory while it goes on.
//   load_bench [THREADS]                  packing alone: 128 MiB of each type of weights, already in memory
//   load_bench MODEL [THREADS [RUNS]]     a whole model from its files; read it once before (the page cache is warm)
//   load_bench make CONFIG.json DIR       writes a directory with made-up weights for a config.json, to load
// The fastest of the runs, because other work on the machine only ever adds time. Bound: a byte of a BF16 file is read
// once, written once as a tile, and the line it is written to is read before: 3 bytes of memory traffic a byte.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "base/philox.h"
#include "bench/measure.h"
#include "engine/rank_engine.h"
#include "model/checkpoint.h"
#include "model/hf_names.h"
#include "model/safetensors.h"

namespace winnow::bench {
namespace {

constexpr int kRuns = 5;

// A line of /proc/self/status, in bytes.
int64_t StatusBytes(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(key + ":")) return std::atoll(line.c_str() + key.size() + 1) * 1024;
  }
  return 0;
}

void Pack(int threads) {
  constexpr int64_t kColumns = 4096, kBytes = int64_t(128) << 20;
  const auto backend = MakeBackend({.backend = "cpu", .num_threads = threads}).value();
  fmt::print("{} threads, kernels {}\n| type | GB/s of the file |\n|---|---|\n", threads, backend->kernels());
  for (const DType dtype :
       {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
        DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K}) {
    const int64_t row_bytes = BytesOf(dtype, kColumns), num_rows = kBytes / row_bytes;
    std::vector<std::byte> file(static_cast<size_t>(num_rows * row_bytes));
    for (size_t i = 0; i + 4 <= file.size(); i += 4) {
      const uint32_t bits = Philox(1, {uint32_t(i), 0, 0, 0})[0] & 0x3f3f3f3f;
      std::memcpy(&file[i], &bits, 4);
    }
    WeightSource source{dtype, file, kColumns, std::vector<int64_t>(size_t(num_rows)), 0, kColumns};
    std::iota(source.rows.begin(), source.rows.end(), 0);
    const double seconds = Time(kRuns, [&] { backend->Pack(source).value(); }).best;
    fmt::print("| {} | {:.2f} |\n", Name(dtype), double(file.size()) / seconds * 1e-9);
  }
}

int Load(const std::string& path, int threads, int runs) {
  std::vector<double> seconds;
  int64_t bytes = 0, packed = 0;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const auto model = Checkpoint::Open(path);
    if (!model.ok()) {
      fmt::print(stderr, "load_bench: {}\n", model.status().message());
      return int(model.status().code());
    }
    const auto communicator = MakeLocalCommunicator();
    const auto engine = RankEngine::Make((*model)->weights(), (*model)->config(),
                                         {.num_threads = threads, .pool_slots = 128}, *communicator, nullptr);
    if (!engine.ok()) {
      fmt::print(stderr, "load_bench: {}\n", engine.status().message());
      return int(engine.status().code());
    }
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
    bytes = (*model)->weights().total_bytes();
    packed = (*engine)->transformer().weight_bytes();
  }
  const Seconds time = Summary(seconds);
  fmt::print(
      "{}: {:.2f} GB, {} threads: {:.2f} s, {:.2f} GB/s (median {:.2f} s); packed {:.2f} GB, most resident at "
      "any moment {:.2f} GB\n",
      path, double(bytes) * 1e-9, threads, time.best, double(bytes) / time.best * 1e-9, time.median,
      double(packed) * 1e-9, double(StatusBytes("VmHWM")) * 1e-9);
  return 0;
}

int Make(const std::string& config, const std::string& directory) {
  const auto model = Checkpoint::OpenDummy(config);
  if (!model.ok()) {
    fmt::print(stderr, "load_bench: {}\n", model.status().message());
    return int(model.status().code());
  }
  std::map<std::string, std::vector<std::byte>> data;
  std::map<std::string, SafetensorsTensor> tensors;
  const TensorSource& weights = (*model)->weights();
  for (const TensorInfo* tensor : weights.tensors()) {
    std::vector<int64_t> rows(tensor->shape.size() == 2 ? size_t(tensor->shape[1]) : 1);
    std::iota(rows.begin(), rows.end(), 0);
    const std::string name = HfNameOf(tensor->name);
    data[name] = weights.Rows(*tensor, rows).value().made;
    const SafetensorsType type = tensor->dtype == DType::kF32   ? SafetensorsType::kF32
                                 : tensor->dtype == DType::kF16 ? SafetensorsType::kF16
                                                                : SafetensorsType::kBF16;
    tensors[name] = {type,
                     {tensor->shape.rbegin(), tensor->shape.rend()},
                     {reinterpret_cast<const uint8_t*>(data[name].data()), data[name].size()}};
  }
  std::filesystem::create_directories(directory);
  std::filesystem::copy_file(config, directory + "/config.json", std::filesystem::copy_options::overwrite_existing);
  const Status status = WriteSafetensors(directory + "/model.safetensors", {{"format", "pt"}}, tensors);
  if (!status.ok()) fmt::print(stderr, "load_bench: {}\n", status.message());
  return int(status.code());
}

}  // namespace
}  // namespace winnow::bench

int main(int argc, char** argv) {
  using namespace winnow::bench;
  const auto number = [&](int i, int otherwise) { return argc > i ? std::atoi(argv[i]) : otherwise; };
  if (argc == 4 && std::string_view(argv[1]) == "make") return Make(argv[2], argv[3]);
  if (argc >= 2 && std::atoi(argv[1]) == 0) return Load(argv[1], number(2, 2), number(3, kRuns));
  Pack(number(1, 2));
  return 0;
}
