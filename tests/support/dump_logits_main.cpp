// dump_logits MODEL IDS.bin OUT.bin [BACKEND [KV_DTYPE]]: all logits of recorded sequences, in the layout that
// tests/golden/compare_logits.py reads. One rank, all cores.
#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "model/checkpoint.h"
#include "tests/support/golden_logits.h"
#include "tests/support/teacher_forcing.h"

namespace winnow {
namespace {

Status Dump(const std::string& model, const std::string& ids, const std::string& out, const EngineOptions& options) {
  const auto sequences = ReadGoldenSequences(ids);
  WINNOW_ASSIGN_OR_RETURN(const auto opened, Checkpoint::Open(model));
  const ModelConfig& config = opened->config();
  const auto communicator = MakeLocalCommunicator();
  WINNOW_ASSIGN_OR_RETURN(const auto engine,
                          RankEngine::Make(opened->weights(), config, options, *communicator, nullptr));
  std::ofstream stream(out, std::ios::binary);
  const uint32_t header[4] = {uint32_t(sequences.size()), uint32_t(sequences[0].size()), uint32_t(config.vocab_size),
                              0};
  stream.write("WNLOGIT1", 8);
  stream.write(reinterpret_cast<const char*>(header), sizeof header);
  WINNOW_RETURN_IF_ERROR(RunTeacherForcing(*engine, sequences, 64, [&](size_t, int64_t, std::span<const float> logits) {
    stream.write(reinterpret_cast<const char*>(logits.data()), std::streamsize(logits.size_bytes()));
  }));
  return stream ? OkStatus() : InvalidArgument("cannot write " + out);
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  using namespace winnow;
  if (argc < 4) {
    std::fprintf(stderr, "usage: dump_logits MODEL IDS.bin OUT.bin [BACKEND [bf16|f32]]\n");
    return 2;
  }
  const Status status = Dump(argv[1], argv[2], argv[3],
                             {.backend = argc > 4 ? argv[4] : "cpu",
                              .num_threads = int(std::thread::hardware_concurrency()),
                              .kv_cache_dtype = argc > 5 && std::string(argv[5]) == "f32" ? DType::kF32 : DType::kBF16,
                              .pool_slots = 8192});
  if (!status.ok()) std::fprintf(stderr, "dump_logits: %s\n", status.message().c_str());
  return int(status.code());
}
