#include "launch/model_session.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/progress_bar.h"
#include "launch/number_text.h"

namespace winnow {
namespace {

// Ranks with different models would wait for collectives that the others never call, or mix two texts. Collective.
Status CheckSameModel(Communicator& communicator, const Checkpoint& model) {
  const uint64_t mine = model.Fingerprint();
  uint64_t first = 0;
  if (SameAsFirstRank(communicator, mine, &first)) return OkStatus();
  return BadFile(
      model.path() +
      " is not the model that rank 0 opened: metadata, configuration, tensors or weights differ (fingerprint " +
      Hex(mine) + ", rank 0 has " + Hex(first) + ")");
}

}  // namespace

bool SameAsFirstRank(Communicator& communicator, uint64_t mine, uint64_t* first) {
  const auto all = communicator.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::memcpy(first, all.data(), sizeof(*first));
  return mine == *first;
}

Status AgreeOnVerdict(Communicator& communicator, const Status& mine) {
  const Status agreed = AgreeOnStatus(communicator, mine);
  return agreed.code() == StatusCode::kInvalidArgument && mine.code() == agreed.code() ? mine : agreed;
}

Result<std::unique_ptr<const Checkpoint>> OpenModel(const EngineFlags& flags, Communicator& communicator) {
  return OpenModel(flags, communicator, communicator.size());
}

Result<std::unique_ptr<const Checkpoint>> OpenModel(const EngineFlags& flags, Communicator& world,
                                                    int tensor_parallel) {
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(world, mine); };
  auto model =
      flags.load_format == "dummy" ? Checkpoint::OpenDummy(flags.model_path) : Checkpoint::Open(flags.model_path);
  WINNOW_RETURN_IF_ERROR(agree(model.status()));
  WINNOW_RETURN_IF_ERROR(agree(CheckSameModel(world, **model)));
  WINNOW_RETURN_IF_ERROR(agree(MakeShardPlan(ShardDimsOf((*model)->config()), tensor_parallel).status()));
  return model;
}

Result<std::unique_ptr<RankEngine>> LoadEngine(const Checkpoint& model, const EngineOptions& options,
                                               Communicator& communicator) {
  return LoadEngine(model, options, communicator, communicator);
}

Result<std::unique_ptr<RankEngine>> LoadEngine(const Checkpoint& model, const EngineOptions& options,
                                               Communicator& group, Communicator& world) {
  std::unique_ptr<ProgressBar> bar;
  if (world.rank() == 0) {
    bar = std::make_unique<ProgressBar>(ForStandardError({.label = "loading weights",
                                                          .total = uint64_t(model.weights().total_bytes()),
                                                          .unit = ProgressOptions::Unit::kBytes}));
  }
  auto engine = RankEngine::Make(model.weights(), model.config(), options, group, [&](int64_t done, int64_t) {
    if (bar) bar->Update(uint64_t(done));
  });
  WINNOW_RETURN_IF_ERROR(AgreeOnVerdict(world, engine.status()));
  if (bar) bar->Finish();
  return engine;
}

}  // namespace winnow
