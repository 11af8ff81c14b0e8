// What a process was at one moment, apart from its memory: enough to make it again elsewhere.
//
// A warm image is two things: this description, and a sealed memory file with the pages that exist
// nowhere else. Everything a process shares with its filesystem (programs, libraries, open files)
// is named by its path, because the sandbox that gets the image has the same filesystem. The
// description is hostile: it came out of a sandbox. Whoever decodes it is PID 1 of the sandbox that
// will run it as an ordinary user of its own, so a lie harms only whoever believes it; the decoder
// bounds what is allocated, and the kernel checks the rest.
#pragma once

#include <sys/stat.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

namespace atl::guest {

enum class MappingKind : std::uint8_t {
  kAnonymous = 1,  // nothing but zeroes
  kImage = 2,      // pages of the memory file, copied when written
  kCopy = 3,       // anonymous memory, filled from the memory file
  kStack = 4,      // the same, and it grows downwards
  kFile = 5,       // of a file, copied when written
  kSharedFile = 6,
};

// A file that is mapped, and how to see that it is not the one it was: a sandbox may have replaced
// a library before it gets the image.
struct MappedFile {
  std::string path;
  std::uint64_t bytes = 0;
  std::uint64_t modified_ns = 0;
};

struct Mapping {
  MappingKind kind = MappingKind::kAnonymous;
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
  std::uint32_t protection = 0;  // PROT_*
  std::uint64_t offset = 0;      // in the memory file or in the file
  std::uint32_t path = 0;        // of a file: which of the image's files
};

// Pages the kernel gives every process (the clock and the fast system calls): where they were, each
// relative to the first.
struct KernelMapping {
  std::uint64_t start = 0;
  std::uint64_t bytes = 0;
};

enum class DescriptorKind : std::uint8_t {
  kPath = 1,  // a file, a directory, or one of a few devices
  kSame = 2,  // another number of an earlier descriptor
  kOutput = 3,
  kErrorOutput = 4,
  kChannel = 5,
  kEvent = 6,  // an eventfd
};

struct Descriptor {
  DescriptorKind kind = DescriptorKind::kPath;
  std::uint32_t number = 0;
  std::uint32_t flags = 0;  // O_*, with O_CLOEXEC
  std::uint64_t value = 0;  // kPath: the offset; kSame: the other number; kEvent: the count
  std::string path;
};

struct SignalAction {
  std::uint32_t signal = 0;
  std::array<std::uint64_t, 4> action{};  // handler, flags, restorer, mask: as the kernel has it
};

struct ResourceLimit {
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

inline constexpr std::size_t kResourceLimitCount = 16;
inline constexpr std::size_t kMemoryFieldCount = 11;

struct WarmImage {
  std::string machine;  // whose registers these are
  std::string program;  // the path of what was executed
  std::string name;
  std::string directory;
  std::uint32_t file_mask = 022;
  std::vector<MappedFile> files;  // that are mapped
  std::vector<Mapping> mappings;  // in the order of their addresses
  std::vector<KernelMapping> kernel_mappings;
  std::vector<Descriptor> descriptors;
  std::vector<SignalAction> signal_actions;
  std::array<ResourceLimit, kResourceLimitCount> limits{};
  // start_code, end_code, start_data, end_data, start_brk, brk, start_stack, arg_start, arg_end,
  // env_start, env_end: the order of prctl_mm_map.
  std::array<std::uint64_t, kMemoryFieldCount> memory_fields{};
  std::string auxiliary_vector;
  std::string registers;
  std::string extended_registers;
  std::uint64_t signal_mask = 0;
  std::array<std::uint64_t, 3> signal_stack{};  // stack_t as the kernel has it
  std::uint64_t thread_id_address = 0;
  std::uint64_t robust_list = 0;
  std::uint64_t robust_list_bytes = 0;
  std::uint64_t sequence_address = 0;  // of restartable sequences; 0: none
  std::uint32_t sequence_bytes = 0;
  std::uint32_t sequence_signature = 0;
  std::uint64_t memory_bytes = 0;  // size of the memory file
};

// What an image may have at most.
inline constexpr std::size_t kMaxMappings = 4096;
inline constexpr std::size_t kMaxMappedFiles = 1024;
inline constexpr std::size_t kMaxKernelMappings = 8;
inline constexpr std::size_t kMaxDescriptors = 512;
inline constexpr std::uint32_t kMaxDescriptorNumber = 65535;
inline constexpr std::size_t kMaxRegisterBytes = std::size_t{16} * 1024;
inline constexpr std::size_t kMaxAuxiliaryBytes = 1024;
inline constexpr std::uint64_t kPageBytes = 4096;

inline std::uint64_t modified_ns(const struct stat& file) {
  constexpr std::uint64_t kNanosecondsPerSecond = 1'000'000'000;
  return static_cast<std::uint64_t>(file.st_mtim.tv_sec) * kNanosecondsPerSecond +
         static_cast<std::uint64_t>(file.st_mtim.tv_nsec);
}

std::string encode(const WarmImage& image);
Result<WarmImage> decode_warm_image(std::string_view bytes);

}  // namespace atl::guest
