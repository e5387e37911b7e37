// Everything one rank needs to take part in a run, built in the right order: backend, weights, page pool, transformer,
// runner. Plus the report of the work done. Engine thread only.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "engine/model_runner.h"
#include "model/model_config.h"
#include "model/tensor_source.h"

namespace winnow {

struct EngineOptions {
  std::string backend = "cpu";       // "cpu", "reference" (quantised), "reference-float", or "guard" (cpu, guarded)
  std::string cpu_kernels = "auto";  // as MakeCpuBackend takes it
  int num_threads = 1;
  Numerics numerics = Numerics::kExact;
  DType kv_cache_dtype = DType::kBF16;
  int64_t pool_slots = 0;         // per layer and KV head
  bool observe_attention = true;  // the pool keeps attention mass, for policies that score by it
  bool check_ranks = false;
  bool poison_released_pages = false;
};

// The backend the options name. InvalidArgument for an unknown name.
Result<std::unique_ptr<Backend>> MakeBackend(const EngineOptions& options);

// What every rank really did. Index: rank.
struct WorkReport {
  int64_t steps = 0, rows = 0, sampled_rows = 0, replay_rows = 0;  // the same on all ranks
  std::vector<int64_t> weight_bytes, kv_peak_bytes, matmul_flops;
  CollectiveCounters forward, sampling, replay, total;  // of one rank; the same on all
  // Of rank 0 with the ranks that hold the same KV head, not in `total`: a rank with fewer of these sends less or
  // nothing.
  CollectiveCounters replicas;
};

class RankEngine {
 public:
  // Loads this rank's shard. communicator must outlive the engine; the source may be closed afterwards. No collective:
  // a failure may be this rank's alone, so callers agree on it.
  static Result<std::unique_ptr<RankEngine>> Make(const TensorSource& source, const ModelConfig& config,
                                                  const EngineOptions& options, Communicator& communicator,
                                                  const std::function<void(int64_t, int64_t)>& progress);

  ModelRunner& runner() { return *runner_; }
  const Backend& backend() const { return *backend_; }
  PagePool& pool() { return *pool_; }
  Transformer& transformer() { return *transformer_; }
  WorkReport GatherWork();  // collective

 private:
  explicit RankEngine(Communicator& communicator) : communicator_(communicator) {}

  Communicator& communicator_;
  std::unique_ptr<Backend> backend_;  // outlives all that holds its memory
  std::unique_ptr<PagePool> pool_;
  std::unique_ptr<Transformer> transformer_;
  std::unique_ptr<ModelRunner> runner_;
};

}  // namespace winnow
