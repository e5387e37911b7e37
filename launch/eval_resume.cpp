#include "launch/eval_resume.h"

#include <fmt/format.h>

#include <utility>

#include "base/version.h"
#include "launch/console.h"
#include "launch/model_session.h"
#include "model/whole_file.h"

namespace winnow {

EvalJournal::Json JournalIdentity(EvalJournal::Json settings, const EngineFlags& flags, const JournalContext& context) {
  const BuildInfo& build = GetBuildInfo();
  EvalJournal::Json identity = {{"settings", std::move(settings)},
                                {"model", ModelJson(context.model)},
                                {"tensor_parallel", context.tensor_parallel},
                                {"backend", flags.backend},
                                {"winnow", {{"version", build.version}, {"git_id", build.git_id}}}};
  if (flags.numerics == "fast") identity["threads_per_rank"] = context.threads_per_rank;
  return identity;
}

Status OpenJournal(const EvalRunFlags& flags, const EvalJournal::Json& identity, Communicator& world,
                   std::optional<EvalJournal>* journal) {
  Status opened = OkStatus();
  if (world.rank() == 0 && flags.out_path) {
    const auto open = [&]() -> Status {
      WINNOW_RETURN_IF_ERROR(CheckCanWrite(*flags.out_path));  // not only after hours of work
      WINNOW_ASSIGN_OR_RETURN(EvalJournal mine,
                              EvalJournal::Open(*flags.out_path + ".journal", identity, flags.resume));
      journal->emplace(std::move(mine));
      return OkStatus();
    };
    opened = open();
    if (opened.ok() && !(*journal)->finished().empty()) {
      Note(fmt::format("going on after {} finished units of {}.journal", (*journal)->finished().size(),
                       *flags.out_path));
    }
  }
  return AgreeOnVerdict(world, opened);
}

}  // namespace winnow
