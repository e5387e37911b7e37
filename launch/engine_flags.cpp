#include "launch/engine_flags.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <thread>

namespace winnow {
namespace {

// Cores that this process may run on.
int CoresAllowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Ranks of this job on this host, as the launcher says.
int RanksOnThisHost() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}) {
    if (const char* value = std::getenv(name)) return std::max(1, std::atoi(value));
  }
  return 1;
}

// CLI11 clamps a number that is too large, reads 010 as 8 and wraps a negative seed: a count of tokens would silently
// be another one, two seeds the same.
template <class T>
bool ReadsAsWritten(const std::string& text) {
  T value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && text == std::to_string(value);
}

std::string CheckIntegerText(const std::string& text) {
  return ReadsAsWritten<int64_t>(text) ? "" : "expected a whole number, found '" + text + "'";
}

std::string CheckUnsignedText(const std::string& text) {
  if (ReadsAsWritten<uint64_t>(text)) return "";
  return "expected a whole number from 0 to " + std::to_string(std::numeric_limits<uint64_t>::max()) + ", found '" +
         text + "'";
}

}  // namespace

void AddEngineFlags(CLI::App& command, EngineFlags* o) {
  command.add_option("-m,--model,model", o->model_path, "model: GGUF file, or Hugging Face directory")->required();
  command
      .add_option("--load-format", o->load_format,
                  "auto: what is there; dummy: made-up weights for a config.json, to measure without the model's files")
      ->capture_default_str();
  command.add_option("--kv-cache-dtype", o->kv_cache_dtype, "bf16 or f32")->capture_default_str();
  command.add_option("-t,--threads", o->threads, "threads per rank; default: the rank's share of its host's cores");
  command.add_option("--tp,--tensor-parallel-size,--tp-size", o->tensor_parallel_size,
                     "ranks; must equal the number that was launched");
  command
      .add_option("--numerics", o->numerics,
                  "exact: the same bits for any rank count, batch and chunking; fast: float sums")
      ->capture_default_str();
  command.add_option("--backend", o->backend, "cpu; for tests: guard, reference, reference-float")
      ->capture_default_str();
  command.add_option("--cpu-kernels", o->cpu_kernels, "auto, avx512, avx2 or plain; the bits are the same")
      ->capture_default_str();
  command.add_flag("--check-ranks", o->check_ranks,
                   "compare all ranks' tokens and cache lengths after every step, and the kept sets that ranks share "
                   "(scopes layer and sequence)");
}

void RefuseOddIntegers(CLI::App& command) {
  for (CLI::Option* option : command.get_options()) {
    if (option->get_type_name() == "INT") option->check(CheckIntegerText, "");
    if (option->get_type_name() == "UINT") option->check(CheckUnsignedText, "");
  }
  for (CLI::App* group : command.get_subcommands({})) RefuseOddIntegers(*group);
}

Status CheckEngineFlags(const EngineFlags& o, int num_ranks) {
  if (o.threads && *o.threads < 1) {
    return InvalidArgument("--threads: expected 1 or more, found " + std::to_string(*o.threads));
  }
  if (o.load_format != "auto" && o.load_format != "dummy") {
    return InvalidArgument("--load-format: expected auto or dummy, found '" + o.load_format + "'");
  }
  if (o.numerics != "exact" && o.numerics != "fast") {
    return InvalidArgument("--numerics: expected exact or fast, found '" + o.numerics + "'");
  }
  if (o.kv_cache_dtype != "bf16" && o.kv_cache_dtype != "f32") {
    return InvalidArgument("--kv-cache-dtype: expected bf16 or f32, found '" + o.kv_cache_dtype + "'");
  }
  if (o.tensor_parallel_size && *o.tensor_parallel_size != num_ranks) {
    return InvalidArgument("--tensor-parallel-size " + std::to_string(*o.tensor_parallel_size) + ", but " +
                           std::to_string(num_ranks) + (num_ranks == 1 ? " rank was" : " ranks were") +
                           " launched: start winnow with mpirun -np " + std::to_string(*o.tensor_parallel_size));
  }
  return OkStatus();
}

EngineOptions ToEngineOptions(const EngineFlags& flags, int threads, int64_t pool_slots, bool observe_attention) {
  return {.backend = flags.backend,
          .cpu_kernels = flags.cpu_kernels,
          .num_threads = threads,
          .numerics = flags.numerics_mode(),
          .kv_cache_dtype = flags.kv_dtype(),
          .pool_slots = pool_slots,
          .observe_attention = observe_attention,
          .check_ranks = flags.check_ranks};
}

int ResolveThreads(const std::optional<int>& asked, std::string* warning) {
  const int allowed = CoresAllowed(), ranks = RanksOnThisHost();
  // Launchers that bind give every rank its own cores; without binding all ranks see the same ones.
  const bool bound = allowed * ranks <= int(std::thread::hardware_concurrency());
  const int share = std::max(1, bound ? allowed : allowed / ranks);
  if (!asked) return share;
  if (*asked > allowed) {
    *warning = std::to_string(*asked) + " threads on " + std::to_string(allowed) +
               " core(s): this rank may not run on more; give mpirun --bind-to none or fewer --threads";
  }
  return *asked;
}

}  // namespace winnow
