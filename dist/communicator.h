// One group of ranks and its collectives. Every collective is called by all ranks of the group, in the same order, by
// the engine thread alone. Sums are of integers (exact, so any algorithm and rank count gives the same bits); the one
// float sum serves --numerics fast and says so. Implementations: local (one rank), thread (ranks are threads of one
// process), mpi.
//
// A failure of the transport is not returned: the group cannot go on, so the implementation names what failed and ends
// every rank with exit code 5 (kPeerLost).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "compute/backend.h"

namespace winnow {

enum class ReduceOp { kSum, kMax, kMin };

// Counted per rank where the group has more than one rank; with one rank nothing crosses and nothing is counted.
struct CollectiveCounters {
  int64_t calls = 0;
  int64_t payload_bytes = 0;  // all-reduce and broadcast: the vector's bytes; all-gather: one rank's contribution
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual std::string name() const = 0;  // "local", "thread", "mpi"
  virtual int rank() const = 0;
  virtual int size() const = 0;

  // In place on device memory of `backend`; dtype kI32 or kI64.
  void AllReduce(Backend& backend, const Tensor& tensor, ReduceOp op);

  // The float sum of --numerics fast, in place on device memory; dtype kF32. Its bits depend on the rank count, but are
  // the same on all ranks of the run.
  void FastFloatSum(Backend& backend, const Tensor& tensor);

  // In place on host memory. T: int32_t, int64_t, uint64_t (kSum wraps), float (kMax and kMin only, where -0 becomes
  // +0; NaN is the caller's business: values must not be NaN).
  template <class T>
  void AllReduce(std::span<T> values, ReduceOp op);

  // Every rank contributes `bytes` of the same length; returns [rank][bytes].
  std::vector<std::byte> AllGather(std::span<const std::byte> bytes);

  // `bytes` of `root` replaces everyone's; lengths may differ before. Two collectives (length, then content).
  void Broadcast(std::vector<std::byte>& bytes, int root);

  // Ranks that name the same group (0 or above) form a communicator of their own, in the order of their ranks here;
  // every rank gets that of its group. It must not outlive this one, nor the body of a thread rank. Collectives on it
  // count on it alone, and its Abort ends all ranks of the program, naming the rank in the whole. Collective.
  virtual std::unique_ptr<Communicator> Split(int group) = 0;

  // Ends all ranks of the group, and those that it was split from, at once with this exit code, after printing the
  // message. Does not return.
  [[noreturn]] virtual void Abort(const Status& status) = 0;

  const CollectiveCounters& counters() const { return counters_; }

 protected:
  enum class Element { kI32, kI64, kU64, kF32 };
  static int ElementBytes(Element element);
  virtual void DoAllReduce(void* values, int64_t count, Element element, ReduceOp op) = 0;
  virtual void DoAllGather(const void* mine, int64_t bytes, void* all) = 0;
  virtual void DoBroadcast(void* bytes, int64_t count, int root) = 0;

 private:
  void Count(int64_t payload_bytes);
  CollectiveCounters counters_;
};

// One rank.
std::unique_ptr<Communicator> MakeLocalCommunicator();

// Runs body(communicator) on `size` threads, one per rank, and returns when all have returned. Abort on any rank ends
// the process. For tests, and for ranks without MPI.
void RunThreadRanks(int size, const std::function<void(Communicator&)>& body);

// MPI_COMM_WORLD. Initialises MPI; the returned object finalises it. One per process.
Result<std::unique_ptr<Communicator>> MakeMpiCommunicator(int* argc, char*** argv);
// What `winnow version` says of the library, e.g. "Open MPI v4.1.4"; no initialisation needed.
std::string MpiLibraryVersion();

// Every rank brings its own Status; all return the same one: that of the lowest rank that failed, its message prefixed
// with "rank R (host H): " if the group has more than one rank. Ok if nobody failed.
Status AgreeOnStatus(Communicator& communicator, const Status& mine);

}  // namespace winnow
