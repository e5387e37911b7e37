#include "launch/model_session.h"

#include <cstring>
#include <span>
#include <utility>

#include "base/progress_bar.h"
#include "launch/number_text.h"
#include "model/gguf_fingerprint.h"

namespace winnow {
namespace {

// Ranks with different models would wait for collectives that the others never call, or mix two texts. Collective.
Status CheckSameFile(Communicator& communicator, const GgufFile& file) {
  const uint64_t mine = FingerprintOf(file);
  uint64_t first = 0;
  if (SameAsFirstRank(communicator, mine, &first)) return OkStatus();
  return BadFile(file.path() + " is not the model that rank 0 opened: metadata or tensor table differ (fingerprint " +
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

Result<OpenedModel> OpenModel(const std::string& path, Communicator& communicator) {
  return OpenModel(path, communicator, communicator.size());
}

Result<OpenedModel> OpenModel(const std::string& path, Communicator& world, int tensor_parallel) {
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(world, mine); };
  auto file = GgufFile::Open(path);
  WINNOW_RETURN_IF_ERROR(agree(file.status()));
  WINNOW_RETURN_IF_ERROR(agree(CheckSameFile(world, *file)));
  auto config = ReadModelConfig(*file);
  WINNOW_RETURN_IF_ERROR(agree(config.status()));
  WINNOW_RETURN_IF_ERROR(agree(MakeShardPlan(ShardDimsOf(*config), tensor_parallel).status()));
  return OpenedModel{std::move(file).value(), std::move(config).value()};
}

Result<std::unique_ptr<RankEngine>> LoadEngine(const OpenedModel& model, const EngineOptions& options,
                                               Communicator& communicator) {
  return LoadEngine(model, options, communicator, communicator);
}

Result<std::unique_ptr<RankEngine>> LoadEngine(const OpenedModel& model, const EngineOptions& options,
                                               Communicator& group, Communicator& world) {
  std::unique_ptr<ProgressBar> bar;
  if (world.rank() == 0) {
    uint64_t total = 0;
    for (const GgufTensor& tensor : model.file.tensors()) total += uint64_t(tensor.num_bytes);
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "loading weights", .total = total, .unit = ProgressOptions::Unit::kBytes}));
  }
  auto engine = RankEngine::Make(model.file, model.config, options, group, [&](int64_t done, int64_t) {
    if (bar) bar->Update(uint64_t(done));
  });
  WINNOW_RETURN_IF_ERROR(AgreeOnVerdict(world, engine.status()));
  if (bar) bar->Finish();
  return engine;
}

}  // namespace winnow
