#include "files/checked_write.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "files/crc32c.hpp"

namespace lance {
namespace {

// Bytes per system call. The checksum of a part is computed just before the part is written, so that the copy of the
// system finds the bytes in a cache. Parts end at multiples of their size in the file, because the page cache would
// split other parts. Smaller parts cost more calls; larger parts do not fit into the second-level cache (decision 14).
constexpr size_t kPart = 1 << 20;

}  // namespace

CheckedWrite write_checked(int descriptor, Bytes bytes, uint32_t crc) {
  off_t position = std::max<off_t>(lseek(descriptor, 0, SEEK_CUR), 0);
  CheckedWrite result{0, crc, 0};
  while (result.written < bytes.size) {
    const uint8_t* part = bytes.data + result.written;
    size_t room = kPart - (static_cast<size_t>(position) + result.written) % kPart;
    size_t length = std::min(room, bytes.size - result.written);
    uint32_t sum = crc32c({part, length}, result.crc);
    ssize_t count;
    do {
      count = write(descriptor, part, length);
    } while (count < 0 && errno == EINTR);
    if (count < 0) result.error = errno;
    if (count <= 0) break;
    size_t taken = static_cast<size_t>(count);
    result.crc = taken == length ? sum : crc32c({part, taken}, result.crc);
    result.written += taken;
  }
  return result;
}

int start_write_back(int descriptor, int64_t offset, int64_t length) {
  if (sync_file_range(descriptor, offset, length, SYNC_FILE_RANGE_WRITE) == 0) return 0;
  // Not a file, not known to the system, or forbidden by a sandbox: the later sync writes the bytes.
  return errno == ESPIPE || errno == ENOSYS || errno == EINVAL || errno == EPERM ? 0 : errno;
}

}  // namespace lance
