// A small job system like that of a game: threads that sleep until there is work.
#ifndef JOB_SYSTEM_HPP
#define JOB_SYSTEM_HPP

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

class JobSystem {
public:
    // The calling thread works, too, so one worker means no further thread.
    explicit JobSystem(unsigned workers) {
        for (unsigned i = 1; i < workers; i++) threads_.emplace_back([this] { serve(); });
    }
    JobSystem(const JobSystem &) = delete;
    JobSystem &operator=(const JobSystem &) = delete;
    ~JobSystem() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            ends_ = true;
        }
        wake_.notify_all();
        for (auto &thread : threads_) thread.join();
    }

    // Calls call(index) for each index below n, on the threads that have time, and returns when all calls are done.
    template <class Call>
    void operator()(std::uint32_t n, const Call &call) {
        Job job{n, &call, [](const void *arg, std::uint32_t index) { (*static_cast<const Call *>(arg))(index); }};
        if (n > 1 && !threads_.empty()) {
            {
                const std::lock_guard<std::mutex> lock(mutex_);
                job_ = &job;
                round_++;
            }
            wake_.notify_all();
        }
        job.work();
        // Threads that have not begun by now are not waited for.
        std::unique_lock<std::mutex> lock(mutex_);
        job_ = nullptr;
        idle_.wait(lock, [this] { return busy_ == 0; });
    }

private:
    struct Job {
        Job(std::uint32_t count, const void *arg, void (*call)(const void *, std::uint32_t))
            : count_(count), arg_(arg), call_(call) {}
        void work() {
            for (std::uint32_t i = next_++; i < count_; i = next_++) call_(arg_, i);
        }

    private:
        const std::uint32_t count_;
        const void *const arg_;
        void (*const call_)(const void *, std::uint32_t);
        std::atomic<std::uint32_t> next_{0};
    };

    void serve() {
        std::uint64_t seen = 0;
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [&] { return ends_ || (job_ != nullptr && round_ != seen); });
            if (ends_) return;
            seen = round_;
            Job &job = *job_;
            busy_++;
            lock.unlock();
            job.work();
            lock.lock();
            if (--busy_ == 0) idle_.notify_one();
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, idle_;
    Job *job_ = nullptr;
    std::uint64_t round_ = 0;
    unsigned busy_ = 0;
    bool ends_ = false;
    std::vector<std::thread> threads_;
};

#endif // JOB_SYSTEM_HPP
