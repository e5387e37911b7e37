// Ranks as MPI processes. The only file that sees MPI. Every call goes through WINNOW_MPI, which names it if it fails.
// The C++ bindings were removed from MPI long ago, and their header does not compile without warnings.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/check.h"
#include "dist/communicator.h"
#include "dist/rank_exit.h"
#include "dist/slurm_launch.h"

namespace winnow {
namespace {

// MPI counts are ints, so long vectors go in pieces. 2^24 elements is far below the limit and far above what latency
// could be felt at, and small enough for tests to reach.
constexpr int64_t kMaxCountPerCall = int64_t(1) << 24;

// All-reduces go in smaller ones: pieces that stay in the caches of ranks that share memory are added faster (1 MiB at
// 6.9 GB/s, 16 MiB at 2.3 between two ranks of the build machine).
constexpr int64_t kMaxCountPerAllReduce = int64_t(1) << 17;

template <class F>
void ForEachPiece(int64_t count, F&& f, int64_t max_piece = kMaxCountPerCall) {
  for (int64_t begin = 0; begin < count; begin += max_piece) f(begin, int(std::min(max_piece, count - begin)));
}

std::string ErrorText(int error) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(error, text, &length) != MPI_SUCCESS) return "MPI error " + std::to_string(error);
  return std::string(text, length);
}

#define WINNOW_MPI(call) CheckMpi((call), #call, __FILE__, __LINE__)

class MpiCommunicator : public Communicator {
 public:
  // MPI_COMM_WORLD, or a part of it, which is freed with this object.
  explicit MpiCommunicator(MPI_Comm comm) : comm_(comm), thread_(std::this_thread::get_id()) {
    WINNOW_MPI(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
    WINNOW_MPI(MPI_Comm_rank(comm_, &rank_));
    WINNOW_MPI(MPI_Comm_size(comm_, &size_));
    WINNOW_MPI(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank_));
    WINNOW_MPI(MPI_Comm_size(MPI_COMM_WORLD, &world_size_));
  }
  ~MpiCommunicator() override {
    if (IsFinalised()) return;
    if (comm_ == MPI_COMM_WORLD) {
      WINNOW_MPI(MPI_Finalize());
    } else {
      WINNOW_MPI(MPI_Comm_free(&comm_));
    }
  }
  MpiCommunicator(const MpiCommunicator&) = delete;
  MpiCommunicator& operator=(const MpiCommunicator&) = delete;

  std::string name() const override { return "mpi"; }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::unique_ptr<Communicator> Split(int group) override {
    CheckThread();
    WINNOW_CHECK(group >= 0);
    MPI_Comm part = MPI_COMM_NULL;
    WINNOW_MPI(MPI_Comm_split(comm_, group, rank_, &part));
    return std::make_unique<MpiCommunicator>(part);
  }

  [[noreturn]] void Abort(const Status& status) override {
    std::fflush(stdout);
    // A lone rank has nobody to tell, and MPI_Abort would add its own lines to the message.
    if (IsFinalised() || world_size_ == 1) ExitRank(world_rank_, world_size_, status);
    PrintRankLine(world_rank_, world_size_, status.message());
    MPI_Abort(MPI_COMM_WORLD, int(status.code()));
    std::_Exit(int(status.code()));
  }

 protected:
  void DoAllReduce(void* values, int64_t count, Element element, ReduceOp op) override {
    CheckThread();
    auto* bytes = static_cast<std::byte*>(values);
    if (element == Element::kF32 && op == ReduceOp::kSum) {
      // An all-reduce may round differently on different ranks; one root's result is the same for everyone.
      ForEachPiece(count, [&](int64_t begin, int piece) {
        void* data = bytes + begin * ElementBytes(element);
        WINNOW_MPI(MPI_Reduce(rank_ == 0 ? MPI_IN_PLACE : data, data, piece, TypeOf(element), MPI_SUM, 0, comm_));
        WINNOW_MPI(MPI_Bcast(data, piece, TypeOf(element), 0, comm_));
      });
      return;
    }
    const auto all_reduce = [&](int64_t begin, int piece) {
      WINNOW_MPI(
          MPI_Allreduce(MPI_IN_PLACE, bytes + begin * ElementBytes(element), piece, TypeOf(element), OpOf(op), comm_));
    };
    ForEachPiece(count, all_reduce, kMaxCountPerAllReduce);
  }

  void DoAllGather(const void* mine, int64_t bytes, void* all) override {
    CheckThread();
    const auto* from = static_cast<const std::byte*>(mine);
    auto* to = static_cast<std::byte*>(all);
    std::vector<std::byte> gathered;  // only where the contribution does not go in one piece
    ForEachPiece(bytes, [&](int64_t begin, int piece) {
      if (piece == bytes) {
        WINNOW_MPI(MPI_Allgather(from, piece, MPI_BYTE, to, piece, MPI_BYTE, comm_));
        return;
      }
      gathered.resize(int64_t(piece) * size_);
      WINNOW_MPI(MPI_Allgather(from + begin, piece, MPI_BYTE, gathered.data(), piece, MPI_BYTE, comm_));
      for (int rank = 0; rank < size_; ++rank) {
        std::memcpy(to + rank * bytes + begin, gathered.data() + int64_t(rank) * piece, piece);
      }
    });
  }

  void DoBroadcast(void* bytes, int64_t count, int root) override {
    CheckThread();
    auto* data = static_cast<std::byte*>(bytes);
    ForEachPiece(count,
                 [&](int64_t begin, int piece) { WINNOW_MPI(MPI_Bcast(data + begin, piece, MPI_BYTE, root, comm_)); });
  }

 private:
  static MPI_Datatype TypeOf(Element element) {
    switch (element) {
      case Element::kI32:
        return MPI_INT32_T;
      case Element::kI64:
        return MPI_INT64_T;
      case Element::kU64:
        return MPI_UINT64_T;
      case Element::kF32:
        return MPI_FLOAT;
    }
    WINNOW_CHECK(!"unknown element type");
    return MPI_BYTE;
  }

  static MPI_Op OpOf(ReduceOp op) { return op == ReduceOp::kSum ? MPI_SUM : op == ReduceOp::kMax ? MPI_MAX : MPI_MIN; }

  static bool IsFinalised() {
    int is_finalised = 0;
    MPI_Finalized(&is_finalised);
    return is_finalised != 0;
  }

  void CheckMpi(int error, const char* call, const char* file, int line) {
    if (error == MPI_SUCCESS) return;
    Abort(PeerLost(std::string(call) + " at " + file + ":" + std::to_string(line) + " failed: " + ErrorText(error)));
  }

  // MPI_THREAD_FUNNELED: the thread that initialised MPI is the only one that may call it.
  void CheckThread() const { WINNOW_CHECK(std::this_thread::get_id() == thread_); }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
  int world_rank_ = 0;  // messages name ranks as the launcher counts them
  int world_size_ = 1;
  const std::thread::id thread_;
};

}  // namespace

Result<std::unique_ptr<Communicator>> MakeMpiCommunicator(int* argc, char*** argv) {
  int is_initialised = 0;
  MPI_Initialized(&is_initialised);  // stays true after MPI_Finalize
  if (is_initialised != 0) return InternalError("MPI can be initialised once per process, and it was already");

  // Without a process manager this will be a world of one; said before MPI adds its own text about a bare srun.
  const GetEnv get_env = [](const char* name) { return std::getenv(name); };
  if (!HasProcessManager(get_env)) WINNOW_RETURN_IF_ERROR(CheckSingletonUnderSlurm(get_env));

  int provided = 0;
  if (const int error = MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &provided); error != MPI_SUCCESS) {
    return PeerLost("MPI_Init_thread failed: " + ErrorText(error));
  }
  auto communicator = std::make_unique<MpiCommunicator>(MPI_COMM_WORLD);
  if (provided < MPI_THREAD_FUNNELED) {
    return InvalidArgument("expected an MPI library with MPI_THREAD_FUNNELED, found level " + std::to_string(provided) +
                           " in " + MpiLibraryVersion());
  }
  if (communicator->size() == 1) WINNOW_RETURN_IF_ERROR(CheckSingletonUnderSlurm(get_env));
  return std::unique_ptr<Communicator>(std::move(communicator));
}

std::string MpiLibraryVersion() {
  char text[MPI_MAX_LIBRARY_VERSION_STRING] = {};
  int length = 0;
  if (MPI_Get_library_version(text, &length) != MPI_SUCCESS) return "unknown";
  const std::string full(text, length);
  // "Open MPI v4.1.4, package: Debian OpenMPI, ident: ..." or "MPICH Version:\t4.0.2\n..."
  return full.substr(0, full.find_first_of(",\n"));
}

}  // namespace winnow
