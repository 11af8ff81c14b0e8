#include "guest/warm_image.h"

#include <fcntl.h>
#include <signal.h>

#include "base/bytes.h"
#include "guest/wire.h"

namespace atl::guest {
namespace {

constexpr std::uint32_t kFormatVersion = 2;
constexpr std::uint64_t kMaxAddress = 0x7ffffffff000;

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::kInvalidArgument, std::string{what}, "malformed");
}

bool is_range(std::uint64_t start, std::uint64_t bytes) {
  return start % kPageBytes == 0 && bytes % kPageBytes == 0 && bytes > 0 && start < kMaxAddress &&
         bytes <= kMaxAddress - start;
}

bool is_path(std::string_view path) {
  return path.starts_with('/') && path.size() <= kMaxPathBytes &&
         path.find('\0') == std::string_view::npos;
}

void put(ByteWriter& out, const Mapping& mapping) {
  out.u8(static_cast<std::uint8_t>(mapping.kind)).u64(mapping.start).u64(mapping.bytes);
  out.u32(mapping.protection).u64(mapping.offset).u32(mapping.path);
}

Mapping take_mapping(ByteReader& in) {
  Mapping mapping;
  mapping.kind = static_cast<MappingKind>(in.u8());
  mapping.start = in.u64();
  mapping.bytes = in.u64();
  mapping.protection = in.u32();
  mapping.offset = in.u64();
  mapping.path = in.u32();
  return mapping;
}

void put(ByteWriter& out, const Descriptor& descriptor) {
  out.u8(static_cast<std::uint8_t>(descriptor.kind)).u32(descriptor.number).u32(descriptor.flags);
  out.u64(descriptor.value).string(descriptor.path);
}

Descriptor take_descriptor(ByteReader& in) {
  Descriptor descriptor;
  descriptor.kind = static_cast<DescriptorKind>(in.u8());
  descriptor.number = in.u32();
  descriptor.flags = in.u32();
  descriptor.value = in.u64();
  descriptor.path = in.string();
  return descriptor;
}

Result<> check_mappings(const WarmImage& image) {
  std::uint64_t end = 0;
  for (const Mapping& mapping : image.mappings) {
    if (mapping.kind < MappingKind::kAnonymous || mapping.kind > MappingKind::kSharedFile ||
        !is_range(mapping.start, mapping.bytes) || mapping.start < end ||
        mapping.offset % kPageBytes != 0 || mapping.protection > 7) {
      return malformed("a mapping of the image is malformed");
    }
    end = mapping.start + mapping.bytes;
    const bool file =
        mapping.kind == MappingKind::kFile || mapping.kind == MappingKind::kSharedFile;
    const bool memory = !file && mapping.kind != MappingKind::kAnonymous;
    if ((file && mapping.path >= image.files.size()) ||
        (memory && (mapping.offset > image.memory_bytes ||
                    mapping.bytes > image.memory_bytes - mapping.offset))) {
      return malformed("a mapping of the image is of nothing");
    }
  }
  for (const KernelMapping& mapping : image.kernel_mappings) {
    if (!is_range(mapping.start, mapping.bytes) || mapping.bytes > 64 * kPageBytes) {
      return malformed("a mapping of the kernel is malformed");
    }
  }
  return {};
}

Result<> check(const WarmImage& image) {
  TRY_DO(check_mappings(image));
  for (const auto& [path, bytes, modified_ns] : image.files) {
    if (!is_path(path)) {
      return malformed("a path of the image is malformed");
    }
  }
  std::int64_t last = -1;
  for (const Descriptor& descriptor : image.descriptors) {
    const bool has_path = descriptor.kind == DescriptorKind::kPath;
    if (descriptor.kind < DescriptorKind::kPath || descriptor.kind > DescriptorKind::kEvent ||
        descriptor.number > kMaxDescriptorNumber || descriptor.number <= last ||
        has_path != is_path(descriptor.path) ||
        (descriptor.kind == DescriptorKind::kSame && descriptor.value >= descriptor.number)) {
      return malformed("a descriptor of the image is malformed");
    }
    last = descriptor.number;
  }
  for (const SignalAction& action : image.signal_actions) {
    if (action.signal < 1 || action.signal > 64) {
      return malformed("a signal of the image is malformed");
    }
  }
  if (!is_path(image.program) || !is_path(image.directory) || image.name.size() > 15 ||
      image.name.find('\0') != std::string::npos || image.file_mask > 0777 ||
      image.registers.size() > kMaxRegisterBytes ||
      image.extended_registers.size() > kMaxRegisterBytes ||
      image.auxiliary_vector.size() > kMaxAuxiliaryBytes) {
    return malformed("the image is malformed");
  }
  return {};
}

void put_threads(ByteWriter& out, const WarmImage& image) {
  out.string(image.registers).string(image.extended_registers).u64(image.signal_mask);
  for (const std::uint64_t word : image.signal_stack) {
    out.u64(word);
  }
  out.u64(image.thread_id_address).u64(image.robust_list).u64(image.robust_list_bytes);
  out.u64(image.sequence_address).u32(image.sequence_bytes).u32(image.sequence_signature);
}

void take_threads(ByteReader& in, WarmImage& image) {
  image.registers = in.string();
  image.extended_registers = in.string();
  image.signal_mask = in.u64();
  for (std::uint64_t& word : image.signal_stack) {
    word = in.u64();
  }
  image.thread_id_address = in.u64();
  image.robust_list = in.u64();
  image.robust_list_bytes = in.u64();
  image.sequence_address = in.u64();
  image.sequence_bytes = in.u32();
  image.sequence_signature = in.u32();
}

// A count of things, none of them more than `most`.
Result<std::uint32_t> take_count(ByteReader& in, std::uint32_t min_bytes, std::size_t most) {
  const std::uint32_t count = in.count(min_bytes);
  if (count > most) {
    return malformed("the image has too many parts");
  }
  return count;
}

Result<> take_lists(ByteReader& in, WarmImage& image) {
  TRY(const auto mappings, take_count(in, 33, kMaxMappings));
  for (std::uint32_t i = 0; i < mappings; ++i) {
    image.mappings.push_back(take_mapping(in));
  }
  TRY(const auto kernel_mappings, take_count(in, 16, kMaxKernelMappings));
  for (std::uint32_t i = 0; i < kernel_mappings; ++i) {
    const std::uint64_t start = in.u64();
    image.kernel_mappings.push_back({start, in.u64()});
  }
  TRY(const auto descriptors, take_count(in, 21, kMaxDescriptors));
  for (std::uint32_t i = 0; i < descriptors; ++i) {
    image.descriptors.push_back(take_descriptor(in));
  }
  TRY(const auto actions, take_count(in, 36, 64));
  for (std::uint32_t i = 0; i < actions; ++i) {
    SignalAction action;
    action.signal = in.u32();
    for (std::uint64_t& word : action.action) {
      word = in.u64();
    }
    image.signal_actions.push_back(action);
  }
  return {};
}

}  // namespace

std::string encode(const WarmImage& image) {
  ByteWriter out;
  out.u32(kFormatVersion).string(image.machine).string(image.program).string(image.name);
  out.string(image.directory).u32(image.file_mask).u64(image.memory_bytes);
  out.u32(static_cast<std::uint32_t>(image.files.size()));
  for (const MappedFile& file : image.files) {
    out.string(file.path).u64(file.bytes).u64(file.modified_ns);
  }
  out.u32(static_cast<std::uint32_t>(image.mappings.size()));
  for (const Mapping& mapping : image.mappings) {
    put(out, mapping);
  }
  out.u32(static_cast<std::uint32_t>(image.kernel_mappings.size()));
  for (const KernelMapping& mapping : image.kernel_mappings) {
    out.u64(mapping.start).u64(mapping.bytes);
  }
  out.u32(static_cast<std::uint32_t>(image.descriptors.size()));
  for (const Descriptor& descriptor : image.descriptors) {
    put(out, descriptor);
  }
  out.u32(static_cast<std::uint32_t>(image.signal_actions.size()));
  for (const SignalAction& action : image.signal_actions) {
    out.u32(action.signal);
    for (const std::uint64_t word : action.action) {
      out.u64(word);
    }
  }
  for (const ResourceLimit& limit : image.limits) {
    out.u64(limit.soft).u64(limit.hard);
  }
  for (const std::uint64_t field : image.memory_fields) {
    out.u64(field);
  }
  out.string(image.auxiliary_vector);
  put_threads(out, image);
  return std::move(out).bytes();
}

Result<WarmImage> decode_warm_image(std::string_view bytes) {
  ByteReader in{bytes};
  if (in.u32() != kFormatVersion) {
    return malformed("the image is of another version");
  }
  WarmImage image;
  image.machine = in.string();
  image.program = in.string();
  image.name = in.string();
  image.directory = in.string();
  image.file_mask = in.u32();
  image.memory_bytes = in.u64();
  const std::uint32_t file_count = in.u32();
  if (file_count > kMaxMappedFiles) {
    return malformed("the image has too many parts");
  }
  for (std::uint32_t i = 0; i < file_count && in.ok(); ++i) {
    MappedFile& file = image.files.emplace_back();
    file.path = in.string();
    file.bytes = in.u64();
    file.modified_ns = in.u64();
  }
  TRY_DO(take_lists(in, image));
  for (ResourceLimit& limit : image.limits) {
    limit.soft = in.u64();
    limit.hard = in.u64();
  }
  for (std::uint64_t& field : image.memory_fields) {
    field = in.u64();
  }
  image.auxiliary_vector = in.string();
  take_threads(in, image);
  TRY_DO(in.finish());
  TRY_DO(check(image));
  return image;
}

}  // namespace atl::guest
