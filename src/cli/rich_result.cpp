#include "cli/rich_result.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

#include "base/fd.h"
#include "base/strings.h"
#include "cli/console.h"

namespace atl::cli {
namespace {

constexpr int kMaxPictures = 10'000;

struct PictureType {
  std::string_view mime;
  std::string_view extension;
  bool base64 = true;
};
constexpr PictureType kPictureTypes[] = {
    {"image/png", "png"},
    {"image/jpeg", "jpg"},
    {"application/pdf", "pdf"},
    {"image/svg+xml", "svg", false},
};

std::uint32_t big_endian(std::string_view bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) {
    value = value << 8U | static_cast<unsigned char>(byte);
  }
  return value;
}

std::optional<PictureSize> png_size(std::string_view bytes) {
  if (!bytes.starts_with("\x89PNG\r\n\x1a\n") || bytes.size() < 24) {
    return std::nullopt;
  }
  return PictureSize{big_endian(bytes.substr(16, 4)), big_endian(bytes.substr(20, 4))};
}

// Segments until the one that begins a frame.
std::optional<PictureSize> jpeg_size(std::string_view bytes) {
  if (!bytes.starts_with("\xff\xd8")) {
    return std::nullopt;
  }
  for (std::size_t at = 2; at + 9 <= bytes.size();) {
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (static_cast<unsigned char>(bytes[at]) != 0xff) {
      return std::nullopt;
    }
    if (marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc) {
      return PictureSize{big_endian(bytes.substr(at + 7, 2)), big_endian(bytes.substr(at + 5, 2))};
    }
    at += 2 + big_endian(bytes.substr(at + 2, 2));
  }
  return std::nullopt;
}

// The next free name; nothing is ever overwritten.
Result<std::string> save(const std::string& directory, std::string_view extension, int& number,
                         std::string_view bytes) {
  if (::mkdir(directory.c_str(), 0777) != 0 && errno != EEXIST) {
    return fail_errno(directory);
  }
  while (number < kMaxPictures) {
    auto path = concat(directory, "/image-", ++number, ".", extension);
    const Fd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666)};
    if (file) {
      TRY_DO(write_all(file.get(), bytes));
      return path;
    }
    if (errno != EEXIST) {
      return fail_errno(path);
    }
  }
  return fail(Code::kResourceExhausted,
              concat(directory, " is full of pictures; choose another --save-images directory"));
}

}  // namespace

std::optional<PictureSize> picture_size(std::string_view bytes) {
  const auto size = png_size(bytes);
  return size ? size : jpeg_size(bytes);
}

Result<std::string> ResultPrinter::render(const Json& bundle) {
  std::string out;
  for (const auto& type : kPictureTypes) {
    const Json* data = bundle.find(type.mime);
    if (data == nullptr || data->as_string() == nullptr) {
      continue;
    }
    TRY(out, picture(type.mime, *data->as_string()));
    break;
  }
  const Json* text = bundle.find("text/plain");
  if (text != nullptr && text->as_string() != nullptr && !text->as_string()->empty()) {
    out.insert(0, concat(*text->as_string(), "\n"));
  }
  return out;
}

Result<std::string> ResultPrinter::picture(std::string_view mime, const std::string& data) {
  const auto* type = std::ranges::find(kPictureTypes, mime, &PictureType::mime);
  const auto bytes = type->base64 ? base64_decode(trim(data)) : std::optional{data};
  if (!bytes) {
    return concat("[", mime, ", damaged]\n");
  }
  std::string label{mime};
  if (const auto size = picture_size(*bytes)) {
    label += concat(" ", size->width, "x", size->height);
  }
  if (directory_.empty()) {
    return concat("[", label, "]\n");
  }
  TRY(const auto path, save(directory_, type->extension, pictures_, *bytes));
  return concat("[", label, " -> ", printable(path), "]\n");
}

}  // namespace atl::cli
