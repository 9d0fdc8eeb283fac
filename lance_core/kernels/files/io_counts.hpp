// Counts of the reads and writes of this process, by kernels and by Python.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace lance {

struct IoCounts {
  std::atomic<uint64_t> reads{0};
  std::atomic<uint64_t> read_bytes{0};
  std::atomic<uint64_t> writes{0};
  std::atomic<uint64_t> written_bytes{0};
};

inline IoCounts io_counts;

// Reads of one thread since its start. A difference of two states tells what the thread read in between.
struct ThreadReads {
  uint64_t calls = 0;
  uint64_t reads = 0;
  uint64_t read_bytes = 0;
};

inline thread_local ThreadReads thread_reads;

// Counts `num_ranges` byte ranges that one call read, of `num_bytes` in all, for the process and for this thread.
inline void count_reads(size_t num_ranges, size_t num_bytes) {
  io_counts.reads.fetch_add(num_ranges, std::memory_order_relaxed);
  io_counts.read_bytes.fetch_add(num_bytes, std::memory_order_relaxed);
  thread_reads.calls += 1;
  thread_reads.reads += num_ranges;
  thread_reads.read_bytes += num_bytes;
}

inline void count_write(size_t num_bytes) {
  io_counts.writes.fetch_add(1, std::memory_order_relaxed);
  io_counts.written_bytes.fetch_add(num_bytes, std::memory_order_relaxed);
}

}  // namespace lance
