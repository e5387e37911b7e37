// A persistent pool of worker threads for data-parallel loops. One owner thread calls Run or For; it takes part as
// thread 0. Workers spin for a short while, then yield, so that ranks sharing cores do not starve each other.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace winnow {

class ThreadPool {
 public:
  // Throws std::system_error or std::bad_alloc if the system gives no more threads; none is left running then.
  explicit ThreadPool(int num_threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int num_threads() const { return num_threads_; }

  // Calls f(thread) once on every thread and returns when all are done.
  template <class F>
  void Run(F&& f) {
    if (num_threads_ == 1) return f(0);
    call_ = [](void* function, int thread) { (*static_cast<std::remove_reference_t<F>*>(function))(thread); };
    function_ = &f;
    Start();
    f(0);
    WaitForWorkers();
  }

  // Splits [0, count) into one contiguous range per thread: f(begin, end). A split never changes a result's bits.
  template <class F>
  void For(int64_t count, F&& f) {
    if (num_threads_ == 1 || count < 2) {
      if (count > 0) f(int64_t(0), count);
      return;
    }
    Run([&](int thread) {
      const int64_t begin = count * thread / num_threads_, end = count * (thread + 1) / num_threads_;
      if (begin < end) f(begin, end);
    });
  }

 private:
  void StopWorkers();
  void Start();
  void WaitForWorkers();
  void Work(int thread);

  const int num_threads_;
  alignas(64) std::atomic<uint32_t> epoch_{0};  // raised once per Run
  alignas(64) std::atomic<int> num_done_{0};
  std::atomic<bool> stop_{false};
  void (*call_)(void*, int) = nullptr;
  void* function_ = nullptr;
  std::vector<std::thread> workers_;
};

}  // namespace winnow
