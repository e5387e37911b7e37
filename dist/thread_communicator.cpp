// Ranks as threads of one process. A collective is: publish the call, meet, do one's share, meet again.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "dist/communicator.h"
#include "dist/rank_exit.h"

namespace winnow {
namespace {

// What a rank asks for, published to the others while they meet.
struct Call {
  const char* name = "nothing";
  int64_t count = 0;
  int element = 0;  // all-reduce only
  int op = 0;       // all-reduce only
  int root = 0;     // broadcast only
  void* data = nullptr;

  bool Matches(const Call& other) const {
    return std::strcmp(name, other.name) == 0 && count == other.count && element == other.element && op == other.op &&
           root == other.root;
  }
  std::string Describe() const {
    return std::string(name) + "(count " + std::to_string(count) + ", element " + std::to_string(element) + ", op " +
           std::to_string(op) + ", root " + std::to_string(root) + ")";
  }
};

// Shared by all ranks of one RunThreadRanks, or of a part of them.
class ThreadGroup {
 public:
  explicit ThreadGroup(int size) : size_(size), calls_(size) {}
  // whole_ranks [rank]: what the ranks of this part are in `whole`, which must outlive it.
  ThreadGroup(ThreadGroup& whole, std::vector<int> whole_ranks)
      : size_(int(whole_ranks.size())),
        calls_(whole_ranks.size()),
        whole_(&whole),
        whole_ranks_(std::move(whole_ranks)) {}
  int size() const { return size_; }
  const Call& call(int rank) const { return calls_[rank]; }

  // Returns when every rank has published a call and all of them match.
  void Publish(int rank, const Call& call) {
    calls_[rank] = call;
    Meet(rank);
    for (int other = 0; other < size_; ++other) {
      if (calls_[other].Matches(call)) continue;
      Fail(rank, "ranks called different collectives: " + call.Describe() + " here, " + calls_[other].Describe() +
                     " on rank " + std::to_string(other));
    }
  }

  // A barrier over all ranks. Ends the program if a rank's body has already returned: it will never come.
  void Meet(int rank) {
    const uint32_t generation = generation_.load(std::memory_order_acquire);
    if (num_arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == size_) {
      num_arrived_.store(0, std::memory_order_relaxed);
      generation_.store(generation + 1, std::memory_order_release);
      Wake();
      return;
    }
    // More ranks than cores are normal in tests, so spinning is short, and a rank that waits longer sleeps.
    constexpr int kSpinsBeforeYield = 1000, kYieldsBeforeSleep = 20;
    for (int spins = 0;; ++spins) {
      const uint32_t wakes = wakes_.load(std::memory_order_acquire);
      // In this order: a rank leaves its last barrier before it finishes, so if it is gone and the generation is still
      // the old one, this barrier is one that it never entered.
      const bool is_someone_gone = num_finished_.load(std::memory_order_acquire) > 0;
      if (generation_.load(std::memory_order_acquire) != generation) return;
      if (is_someone_gone) Fail(rank, "waits in " + calls_[rank].Describe() + ", but another rank has returned");
      if (spins < kSpinsBeforeYield) {
        __builtin_ia32_pause();
      } else if (spins < kSpinsBeforeYield + kYieldsBeforeSleep) {
        std::this_thread::yield();
      } else {
        wakes_.wait(wakes, std::memory_order_acquire);
      }
    }
  }

  // The rank's body has returned.
  void Finish() {
    num_finished_.fetch_add(1, std::memory_order_release);
    Wake();
  }

  // A mistake in the program: names it once and aborts.
  [[noreturn]] void Fail(int rank, const std::string& message) {
    if (whole_ != nullptr) whole_->Fail(whole_ranks_[rank], message);
    StayIfEnding();
    PrintRankLine(rank, size_, "internal error: " + message);
    std::abort();
  }
  [[noreturn]] void Exit(int rank, const Status& status) {
    if (whole_ != nullptr) whole_->Exit(whole_ranks_[rank], status);
    StayIfEnding();
    ExitRank(rank, size_, status);
  }

 private:
  void Wake() {
    wakes_.fetch_add(1, std::memory_order_release);
    wakes_.notify_all();
  }

  // The first rank that ends the process goes on; the others wait for the end here, so that one message is printed.
  void StayIfEnding() {
    if (!is_ending_.exchange(true)) return;
    while (true) std::this_thread::yield();
  }

  const int size_;
  std::vector<Call> calls_;             // [rank], written by its rank outside of barriers, read by all between them
  ThreadGroup* const whole_ = nullptr;  // null: this is the whole
  const std::vector<int> whole_ranks_;
  alignas(64) std::atomic<int> num_arrived_{0};
  alignas(64) std::atomic<uint32_t> generation_{0};
  std::atomic<uint32_t> wakes_{0};  // changes when a sleeper has to look again
  std::atomic<int> num_finished_{0};
  std::atomic<bool> is_ending_{false};
};

template <class T>
T Reduce(T a, T b, ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum:
      if constexpr (std::is_integral_v<T>) {
        return T(std::make_unsigned_t<T>(a) + std::make_unsigned_t<T>(b));  // wraps
      } else {
        return a + b;
      }
    case ReduceOp::kMax:
      return b > a ? b : a;
    case ReduceOp::kMin:
      return b < a ? b : a;
  }
  WINNOW_CHECK(!"unknown reduction");
  return a;
}

class ThreadCommunicator : public Communicator {
 public:
  ThreadCommunicator(ThreadGroup& group, int rank) : group_(group), rank_(rank) {}
  // Of a part of a group: whoever lets it go takes part in no further collective of it.
  ThreadCommunicator(std::shared_ptr<ThreadGroup> part, int rank)
      : part_(std::move(part)), group_(*part_), rank_(rank) {}
  ~ThreadCommunicator() override {
    if (part_) group_.Finish();
  }
  ThreadCommunicator(const ThreadCommunicator&) = delete;
  ThreadCommunicator& operator=(const ThreadCommunicator&) = delete;

  std::string name() const override { return "thread"; }
  int rank() const override { return rank_; }
  int size() const override { return group_.size(); }
  [[noreturn]] void Abort(const Status& status) override { group_.Exit(rank_, status); }

  std::unique_ptr<Communicator> Split(int group) override {
    WINNOW_CHECK(group >= 0);
    std::vector<int> groups(size());
    DoAllGather(&group, sizeof(group), groups.data());
    std::vector<int> members;
    for (int rank = 0; rank < size(); ++rank) {
      if (groups[rank] == group) members.push_back(rank);
    }
    // The first member makes the part; the others read its pointer while it waits for them.
    std::shared_ptr<ThreadGroup> part;
    if (members.front() == rank_) part = std::make_shared<ThreadGroup>(group_, members);
    group_.Publish(rank_, {.name = "Split", .data = &part});
    const auto made = *static_cast<const std::shared_ptr<ThreadGroup>*>(group_.call(members.front()).data);
    group_.Meet(rank_);
    const auto at = std::find(members.begin(), members.end(), rank_);
    return std::make_unique<ThreadCommunicator>(made, int(at - members.begin()));
  }

 protected:
  void DoAllReduce(void* values, int64_t count, Element element, ReduceOp op) override {
    group_.Publish(rank_,
                   {.name = "AllReduce", .count = count, .element = int(element), .op = int(op), .data = values});
    switch (element) {
      case Element::kI32:
        ReduceShare<int32_t>(count, op);
        break;
      case Element::kI64:
        ReduceShare<int64_t>(count, op);
        break;
      case Element::kU64:
        ReduceShare<uint64_t>(count, op);
        break;
      case Element::kF32:
        ReduceShare<float>(count, op);
        break;
    }
    group_.Meet(rank_);
  }

  void DoAllGather(const void* mine, int64_t bytes, void* all) override {
    group_.Publish(rank_, {.name = "AllGather", .count = bytes, .data = const_cast<void*>(mine)});
    for (int rank = 0; rank < size() && bytes > 0; ++rank) {
      std::memcpy(static_cast<std::byte*>(all) + rank * bytes, group_.call(rank).data, bytes);
    }
    group_.Meet(rank_);
  }

  void DoBroadcast(void* bytes, int64_t count, int root) override {
    group_.Publish(rank_, {.name = "Broadcast", .count = count, .root = root, .data = bytes});
    if (rank_ != root && count > 0) std::memcpy(bytes, group_.call(root).data, count);
    group_.Meet(rank_);
  }

 private:
  // Every rank reduces its own part of the elements, in rank order, and writes the result into everyone's vector.
  template <class T>
  void ReduceShare(int64_t count, ReduceOp op) {
    const int64_t begin = count * rank_ / size(), end = count * (rank_ + 1) / size();
    for (int64_t i = begin; i < end; ++i) {
      T result = static_cast<T*>(group_.call(0).data)[i];
      for (int rank = 1; rank < size(); ++rank) result = Reduce(result, static_cast<T*>(group_.call(rank).data)[i], op);
      for (int rank = 0; rank < size(); ++rank) static_cast<T*>(group_.call(rank).data)[i] = result;
    }
  }

  const std::shared_ptr<ThreadGroup> part_;  // none: the group is RunThreadRanks' own
  ThreadGroup& group_;
  const int rank_;
};

}  // namespace

void RunThreadRanks(int size, const std::function<void(Communicator&)>& body) {
  WINNOW_CHECK(size >= 1);
  ThreadGroup group(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&group, &body, rank] {
      ThreadCommunicator communicator(group, rank);
      try {
        body(communicator);
      } catch (const std::exception& e) {
        group.Fail(rank, std::string("uncaught exception: ") + e.what());
      } catch (...) {
        group.Fail(rank, "uncaught exception");
      }
      group.Finish();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace winnow
