// mpi_exactness tiny|FILE [THREADS [KERNELS [CHUNK]]]: a fixed set of requests on the ranks of this job. Rank 0 prints
// one line a request, which is equal exactly when every logit, token, log-probability and kept set is (Describe in
// tests/support/group_run.h). mpi_exactness.sh compares the lines of several jobs.
// mpi_exactness kernels: the kernel sets that this CPU runs, one a line, the best first.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "compute/cpu/kernels.h"
#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

// For SmolLM2: 100 greedy and 100 sampled tokens after a prompt of 90, with evictions in both.
std::vector<Request> LongRequests(int32_t vocab_size) {
  std::vector<Request> requests(2);
  for (int64_t i = 0; i < 2; ++i) {
    Request& request = requests[size_t(i)];
    request.id = i;
    request.prompt = RandomTokens(uint64_t(40 + i), 90, vocab_size);
    request.max_tokens = 100;
    request.eviction = {.policy = i == 0 ? "streaming-llm" : "random",
                        .budget = 64,
                        .interval = 24,
                        .sink_tokens = 4,
                        .recent_tokens = 16};
    if (i == 1) request.sampling = {.temperature = 0.9f, .top_k = 100, .top_p = 0.95f, .min_p = 0.02f, .seed = 5};
  }
  return requests;
}

int Main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "kernels") {
    for (const cpu::KernelSet& set : cpu::KernelSets()) {
      if (set.runs_here) std::printf("%s\n", set.name);
    }
    return 0;
  }
  auto communicator = MakeMpiCommunicator(&argc, &argv);
  if (!communicator.ok() || argc < 2) return 2;
  const std::string model = argv[1];
  auto file = model == "tiny" ? GgufFile::FromBytes("tiny model", TinyModelBytes({})) : GgufFile::Open(model);
  const Status opened = AgreeOnStatus(**communicator, file.status());
  if (!opened.ok()) {
    std::fprintf(stderr, "mpi_exactness: %s\n", opened.message().c_str());
    return int(opened.code());
  }
  const ModelConfig config = ReadModelConfig(*file).value();
  RunSettings settings{.engine = {.cpu_kernels = argc > 3 ? argv[3] : "auto",
                                  .num_threads = argc > 2 ? std::atoi(argv[2]) : 1,
                                  .pool_slots = 2048,
                                  .check_ranks = true},
                       .limits = {.max_num_batched_tokens = argc > 4 ? std::atoi(argv[4]) : 512}};
  const auto requests = model == "tiny" ? MixedRequests(7, config.vocab_size, 40) : LongRequests(config.vocab_size);
  const RunOutcome outcome = RunRank(*file, config, settings, requests, **communicator);
  if (!outcome.status.ok()) {
    std::fprintf(stderr, "mpi_exactness: %s\n", outcome.status.message().c_str());
    return int(outcome.status.code());
  }
  if ((*communicator)->rank() == 0) std::printf("%s", Describe(outcome).c_str());
  return 0;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::Main(argc, argv);
}
