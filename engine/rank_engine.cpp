#include "engine/rank_engine.h"

#include <cstring>
#include <span>

namespace winnow {

Result<std::unique_ptr<Backend>> MakeBackend(const EngineOptions& options) {
  if (options.backend == "cpu") return MakeCpuBackend(options.num_threads, options.cpu_kernels);
  if (options.backend == "reference") return MakeReferenceBackend(ReferenceArithmetic::kQuantised);
  if (options.backend == "reference-float") return MakeReferenceBackend(ReferenceArithmetic::kFloat);
  if (options.backend == "guard") {
    WINNOW_ASSIGN_OR_RETURN(auto inner, MakeCpuBackend(options.num_threads, options.cpu_kernels));
    return MakeGuardBackend(std::move(inner));
  }
  return InvalidArgument("backend: expected cpu, guard, reference or reference-float, found '" + options.backend + "'");
}

Result<std::unique_ptr<RankEngine>> RankEngine::Make(const TensorSource& source, const ModelConfig& config,
                                                     const EngineOptions& options, Communicator& communicator,
                                                     const std::function<void(int64_t, int64_t)>& progress) {
  std::unique_ptr<RankEngine> engine(new RankEngine(communicator));
  WINNOW_ASSIGN_OR_RETURN(engine->backend_, MakeBackend(options));
  WINNOW_ASSIGN_OR_RETURN(const ShardPlan plan, MakeShardPlan(ShardDimsOf(config), communicator.size()));
  const int rank = communicator.rank();
  WINNOW_ASSIGN_OR_RETURN(ModelWeights weights, LoadWeights(source, config, plan, rank, *engine->backend_, progress));
  const KvLayout layout{config.head_dim, options.kv_cache_dtype};
  const int64_t pages_per_head = (options.pool_slots + kPageSlots - 1) / kPageSlots;
  const int64_t num_pages = pages_per_head * config.num_layers * plan.kv_heads[size_t(rank)].size();
  WINNOW_ASSIGN_OR_RETURN(engine->pool_,
                          PagePool::Make(*engine->backend_, layout, num_pages, options.observe_attention));
  engine->pool_->set_poison_on_release(options.poison_released_pages);
  engine->transformer_ = std::make_unique<Transformer>(config, plan, std::move(weights), layout, options.numerics,
                                                       *engine->backend_, communicator);
  engine->runner_ =
      std::make_unique<ModelRunner>(*engine->transformer_, *engine->pool_, communicator, options.check_ranks);
  return engine;
}

WorkReport RankEngine::GatherWork() {
  WorkReport report;
  report.total = communicator_.counters();  // before the gathering below
  const RunnerCounters& counters = runner_->counters();
  report.steps = counters.steps;
  report.rows = counters.rows;
  report.sampled_rows = counters.sampled_rows;
  report.replay_rows = counters.replay_rows;
  report.forward = counters.forward;
  report.sampling = counters.sampling;
  report.replay = counters.replay;
  report.replicas = runner_->replicas().counters();
  const int64_t mine[3] = {transformer_->weight_bytes(), pool_->peak_used() * pool_->layout().page_bytes(),
                           backend_->work().matmul_flops};
  const auto bytes = communicator_.AllGather(std::as_bytes(std::span(mine)));
  std::vector<int64_t> all(bytes.size() / sizeof(int64_t));
  std::memcpy(all.data(), bytes.data(), bytes.size());
  for (size_t i = 0; i < all.size(); i += 3) {
    report.weight_bytes.push_back(all[i]);
    report.kv_peak_bytes.push_back(all[i + 1]);
    report.matmul_flops.push_back(all[i + 2]);
  }
  return report;
}

}  // namespace winnow
