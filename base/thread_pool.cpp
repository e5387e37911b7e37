#include "base/thread_pool.h"

#include "base/check.h"

namespace winnow {
namespace {

// About 10 us of spinning (30 ns a pause) covers the gap between two ops; after that the core is offered to others.
constexpr int kSpinsBeforeYield = 300;

void Pause(int& spins) {
  if (++spins < kSpinsBeforeYield) {
    __builtin_ia32_pause();
  } else {
    std::this_thread::yield();
  }
}

}  // namespace

ThreadPool::ThreadPool(int num_threads) : num_threads_(num_threads) {
  WINNOW_CHECK(num_threads >= 1);
  try {
    for (int thread = 1; thread < num_threads; ++thread) workers_.emplace_back([this, thread] { Work(thread); });
  } catch (...) {
    StopWorkers();  // a thread that is destroyed while it runs would end the program
    throw;
  }
}

ThreadPool::~ThreadPool() {
  StopWorkers();
}

void ThreadPool::StopWorkers() {
  stop_.store(true);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (auto& worker : workers_) worker.join();
}

void ThreadPool::Start() {
  num_done_.store(0, std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
}

void ThreadPool::WaitForWorkers() {
  for (int spins = 0; num_done_.load(std::memory_order_acquire) != num_threads_ - 1;) Pause(spins);
}

void ThreadPool::Work(int thread) {
  // A worker idle for a few milliseconds sleeps in the kernel until the next Run.
  constexpr int kYieldsBeforeSleep = 2000;
  uint32_t seen = 0;
  while (true) {
    uint32_t now;
    for (int spins = 0; (now = epoch_.load(std::memory_order_acquire)) == seen;) {
      Pause(spins);
      if (spins > kSpinsBeforeYield + kYieldsBeforeSleep) epoch_.wait(seen, std::memory_order_acquire);
    }
    if (stop_.load()) return;
    call_(function_, thread);
    num_done_.fetch_add(1, std::memory_order_release);
    seen = now;
  }
}

}  // namespace winnow
