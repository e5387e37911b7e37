// Ranks that fail on purpose; mpi_failures.sh looks at how the group ends.
//   mpi_failures start            initialises MPI, prints the size; the exit code is that of the Status
//   mpi_failures abort PID_DIR    the last rank aborts with kBadFile while the others wait for it
//   mpi_failures kill PID_DIR     the last rank is killed by SIGKILL while the others wait for it
//   mpi_failures error PID_DIR    the last rank makes an MPI call fail: a broadcast longer than the others expect
//   mpi_failures twice            initialises MPI a second time after the first communicator is gone
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "dist/communicator.h"

namespace winnow {
namespace {

int Fail(const Status& status) {
  std::fprintf(stderr, "winnow: %s\n", status.message().c_str());
  return int(status.code());
}

// Leaves our process id where the script can find it.
void WritePid(const std::string& folder, int rank) {
  std::ofstream(folder + "/pid." + std::to_string(rank)) << getpid() << "\n";
}

void ReduceForEver(Communicator& communicator) {
  while (true) {
    int64_t value = 1;
    communicator.AllReduce(std::span(&value, 1), ReduceOp::kSum);
  }
}

int Main(int argc, char** argv) {
  auto made = MakeMpiCommunicator(&argc, &argv);
  if (!made.ok()) return Fail(made.status());
  Communicator& communicator = **made;
  const std::string mode = argc > 1 ? argv[1] : "start";
  if (mode == "start") {
    std::printf("%d of %d\n", communicator.rank(), communicator.size());
    return 0;
  }
  if (mode == "twice") {
    made = InternalError("gone");  // the communicator finalises MPI
    return Fail(MakeMpiCommunicator(&argc, &argv).status());
  }
  WritePid(argv[2], communicator.rank());
  const bool is_last = communicator.rank() == communicator.size() - 1;
  for (int round = 0; round < 10; ++round) {
    int64_t value = 1;
    communicator.AllReduce(std::span(&value, 1), ReduceOp::kSum);
  }
  if (is_last && mode == "abort") communicator.Abort(BadFile("model.gguf: expected 10 tensors, found 9"));
  if (is_last && mode == "kill") raise(SIGKILL);
  if (mode == "error") (void)communicator.AllGather(std::vector<std::byte>(is_last ? 64 : 8));
  ReduceForEver(communicator);
  return 0;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::Main(argc, argv);
}
