#include "egress/dns_message.h"

#include <algorithm>

#include "base/strings.h"

namespace atl::egress {
namespace {

constexpr std::uint16_t kClassIn = 1;
constexpr std::uint16_t kOptType = 41;
constexpr std::size_t kHeaderBytes = 12;
constexpr std::size_t kMaxNameBytes = 255;
constexpr std::size_t kMaxLabelBytes = 63;
constexpr unsigned kMaxPointers = 32;
constexpr std::uint16_t kSmallestUdpBytes = 512;
constexpr std::uint16_t kLargestUdpBytes = 1232;  // fits every path without fragments

constexpr std::uint16_t kResponseBit = 0x8000;
constexpr std::uint16_t kOpcodeBits = 0x7800;
constexpr std::uint16_t kTruncatedBit = 0x0200;
constexpr std::uint16_t kRecursionDesiredBit = 0x0100;
constexpr std::uint16_t kRecursionAvailableBit = 0x0080;

std::unexpected<Error> malformed(std::string_view what) {
  return fail(Code::kInvalidArgument, concat("malformed DNS message: ", what));
}

// Only what a host or service name can hold: a tunnel's binary labels do not pass.
bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

class Reader {
 public:
  explicit Reader(std::string_view message) : message_(message) {}
  std::size_t at() const { return at_; }
  bool at_end() const { return at_ == message_.size(); }

  Result<std::uint16_t> u16() {
    TRY(const auto piece, take(2));
    return static_cast<std::uint16_t>(static_cast<std::uint8_t>(piece[0]) << 8 |
                                      static_cast<std::uint8_t>(piece[1]));
  }
  Result<std::uint32_t> u32() {
    TRY(const auto high, u16());
    TRY(const auto low, u16());
    return static_cast<std::uint32_t>(high) << 16 | low;
  }
  Result<std::string_view> take(std::size_t size) {
    if (size > message_.size() - at_) {
      return malformed("it ends too early");
    }
    const auto piece = message_.substr(at_, size);
    at_ += size;
    return piece;
  }

  // Pointers only lead backwards and are counted, so no message can make a loop.
  Result<std::string> name(bool pointers_allowed) {
    std::string text;
    std::size_t cursor = at_;
    std::optional<std::size_t> after;  // where reading goes on behind the first pointer
    for (unsigned pointers = 0;;) {
      if (cursor >= message_.size()) {
        return malformed("a name goes past the end");
      }
      const auto length = static_cast<std::uint8_t>(message_[cursor]);
      if (length == 0) {
        at_ = after.value_or(cursor + 1);
        return text;
      }
      if ((length & 0xc0U) == 0xc0U) {
        if (!pointers_allowed || cursor + 1 >= message_.size() || ++pointers > kMaxPointers) {
          return malformed("a compressed name");
        }
        const std::size_t target = static_cast<std::size_t>(length & 0x3fU) << 8 |
                                   static_cast<std::uint8_t>(message_[cursor + 1]);
        after = after.value_or(cursor + 2);
        if (target >= cursor) {
          return malformed("a name that points forward");
        }
        cursor = target;
        continue;
      }
      if (length > kMaxLabelBytes || length > message_.size() - cursor - 1) {
        return malformed("a label");
      }
      TRY_DO(append_label(text, message_.substr(cursor + 1, length)));
      cursor += 1U + length;
    }
  }

 private:
  static Result<> append_label(std::string& text, std::string_view label) {
    const auto lower = to_lower(label);
    if (!std::all_of(lower.begin(), lower.end(), is_name_byte)) {
      return malformed("a label with bytes that no host name has");
    }
    if (!text.empty()) {
      text += '.';
    }
    text += lower;
    return text.size() < kMaxNameBytes - 1 ? Result<>{} : malformed("a name that is too long");
  }

  std::string_view message_;
  std::size_t at_ = 0;
};

struct Header {
  std::uint16_t id = 0;
  std::uint16_t flags = 0;
  std::uint16_t questions = 0;
  std::uint16_t answers = 0;
  std::uint16_t authorities = 0;
  std::uint16_t additionals = 0;
};

Result<Header> read_header(Reader& reader) {
  Header header;
  TRY(header.id, reader.u16());
  TRY(header.flags, reader.u16());
  TRY(header.questions, reader.u16());
  TRY(header.answers, reader.u16());
  TRY(header.authorities, reader.u16());
  TRY(header.additionals, reader.u16());
  if ((header.flags & kOpcodeBits) != 0 || header.questions != 1) {
    return malformed("not one plain question");
  }
  return header;
}

bool is_passed_on(std::uint16_t type) {
  switch (static_cast<DnsType>(type)) {
    case DnsType::kA:
    case DnsType::kAaaa:
    case DnsType::kCname:
    case DnsType::kNs:
    case DnsType::kPtr:
    case DnsType::kMx:
    case DnsType::kSrv:
    case DnsType::kTxt:
      return true;
    default:
      return false;
  }
}

Result<> read_texts(std::string_view data, DnsRecord& record) {
  while (!data.empty()) {
    const std::size_t size = static_cast<std::uint8_t>(data[0]);
    if (size > data.size() - 1) {
      return malformed("a text");
    }
    record.texts.emplace_back(data.substr(1, size));
    data.remove_prefix(1 + size);
  }
  return {};
}

Result<> read_address(std::string_view data, std::size_t size, DnsRecord& record) {
  if (data.size() != size) {
    return malformed("an address");
  }
  Address::Bytes bytes{};
  if (size == 4) {
    bytes[10] = bytes[11] = 0xff;
  }
  std::copy(data.begin(), data.end(), bytes.end() - static_cast<std::ptrdiff_t>(size));
  record.address = Address::v6(bytes);
  return {};
}

// The record's data; the reader stands at its first byte and has to end at its last.
Result<> read_data(Reader& reader, std::size_t size, DnsRecord& record) {
  const std::size_t end = reader.at() + size;
  const auto type = record.type;
  if (type == DnsType::kA || type == DnsType::kAaaa) {
    TRY(const auto data, reader.take(size));
    return read_address(data, type == DnsType::kA ? 4 : 16, record);
  }
  if (type == DnsType::kTxt) {
    TRY(const auto data, reader.take(size));
    return read_texts(data, record);
  }
  if (type == DnsType::kSrv || type == DnsType::kMx) {
    TRY(record.priority, reader.u16());
  }
  if (type == DnsType::kSrv) {
    TRY(record.weight, reader.u16());
    TRY(record.port, reader.u16());
  }
  TRY(record.target, reader.name(true));
  return reader.at() == end ? Result<>{} : malformed("a record's length");
}

Result<std::optional<DnsRecord>> read_record(Reader& reader) {
  DnsRecord record;
  TRY(record.name, reader.name(true));
  TRY(const auto type, reader.u16());
  TRY(const auto record_class, reader.u16());
  TRY(record.ttl_seconds, reader.u32());
  TRY(const auto size, reader.u16());
  if (record_class != kClassIn || !is_passed_on(type)) {
    TRY_DO(reader.take(size));
    return std::nullopt;
  }
  record.type = static_cast<DnsType>(type);
  TRY_DO(read_data(reader, size, record));
  return std::optional{std::move(record)};
}

// Records whose name is the question's, or one that a CNAME before it leads to. Anything else is
// what a poisoner would add.
void keep_chain(DnsAnswer& answer) {
  std::vector<std::string> names{answer.name};
  std::vector<DnsRecord> kept;
  for (auto& record : answer.records) {
    if (std::find(names.begin(), names.end(), record.name) == names.end()) {
      continue;
    }
    if (record.type == DnsType::kCname) {
      names.push_back(record.target);
    }
    kept.push_back(std::move(record));
  }
  answer.records = std::move(kept);
}

void put_u16(std::string& out, unsigned value) {
  out += static_cast<char>(value >> 8);
  out += static_cast<char>(value);
}

void put_u32(std::string& out, std::uint32_t value) {
  put_u16(out, value >> 16);
  put_u16(out, value & 0xffffU);
}

void put_name(std::string& out, std::string_view name) {
  if (!name.empty()) {
    for (const auto label : split(name, '.')) {
      out += static_cast<char>(label.size());
      out += label;
    }
  }
  out += '\0';
}

void put_question(std::string& out, const DnsQuestion& question) {
  put_name(out, question.name);
  put_u16(out, static_cast<unsigned>(question.type));
  put_u16(out, kClassIn);
}

void put_opt(std::string& out) {
  out += '\0';
  put_u16(out, kOptType);
  put_u16(out, kLargestUdpBytes);
  put_u32(out, 0);
  put_u16(out, 0);
}

std::string record_data(const DnsRecord& record) {
  std::string data;
  const auto& bytes = record.address.bytes();
  switch (record.type) {
    case DnsType::kA:
      data.assign(bytes.begin() + 12, bytes.end());
      break;
    case DnsType::kAaaa:
      data.assign(bytes.begin(), bytes.end());
      break;
    case DnsType::kTxt:
      for (const auto& text : record.texts) {
        data += static_cast<char>(text.size());
        data += text;
      }
      break;
    case DnsType::kSrv:
      put_u16(data, record.priority);
      put_u16(data, record.weight);
      put_u16(data, record.port);
      put_name(data, record.target);
      break;
    case DnsType::kMx:
      put_u16(data, record.priority);
      put_name(data, record.target);
      break;
    default:
      put_name(data, record.target);
      break;
  }
  return data;
}

}  // namespace

Result<DnsQuestion> read_dns_question(std::string_view message) {
  Reader reader{message};
  TRY(const auto header, read_header(reader));
  if ((header.flags & kResponseBit) != 0 || header.answers != 0 || header.authorities != 0 ||
      header.additionals > 1) {
    return malformed("not a question");
  }
  DnsQuestion question{.id = header.id,
                       .recursion_desired = (header.flags & kRecursionDesiredBit) != 0};
  TRY(question.name, reader.name(false));
  TRY(const auto type, reader.u16());
  TRY(const auto question_class, reader.u16());
  if (question_class != kClassIn) {
    return malformed("not the internet class");
  }
  question.type = static_cast<DnsType>(type);
  if (header.additionals == 1) {
    TRY(const auto root, reader.name(false));
    TRY(const auto opt, reader.u16());
    TRY(const auto udp_bytes, reader.u16());
    TRY_DO(reader.u32());
    TRY(const auto size, reader.u16());
    TRY_DO(reader.take(size));  // options (cookies, client subnets) are not passed on
    if (!root.empty() || opt != kOptType) {
      return malformed("an additional record that is no OPT");
    }
    question.has_opt = true;
    question.udp_bytes = std::clamp(udp_bytes, kSmallestUdpBytes, kLargestUdpBytes);
  }
  return reader.at_end() ? Result<DnsQuestion>{std::move(question)}
                         : malformed("bytes after the question");
}

Result<DnsAnswer> read_dns_answer(std::string_view message) {
  Reader reader{message};
  TRY(const auto header, read_header(reader));
  if ((header.flags & kResponseBit) == 0 || header.answers > kMaxDnsRecords) {
    return malformed("not an answer");
  }
  DnsAnswer answer{.id = header.id,
                   .code = static_cast<DnsCode>(header.flags & 0x0fU),
                   .truncated = (header.flags & kTruncatedBit) != 0};
  TRY(answer.name, reader.name(false));
  TRY(const auto type, reader.u16());
  TRY_DO(reader.u16());
  answer.type = static_cast<DnsType>(type);
  for (unsigned i = 0; i < header.answers && !answer.truncated; ++i) {
    TRY(auto record, read_record(reader));
    if (record) {
      answer.records.push_back(*std::move(record));
    }
  }
  keep_chain(answer);
  return answer;
}

std::string write_dns_question(const DnsQuestion& question) {
  std::string out;
  put_u16(out, question.id);
  put_u16(out, kRecursionDesiredBit);
  put_u16(out, 1);
  put_u32(out, 0);
  put_u16(out, 1);
  put_question(out, question);
  put_opt(out);
  return out;
}

std::string write_dns_answer(const DnsQuestion& question, DnsCode code,
                             const std::vector<DnsRecord>& records, std::size_t most_bytes) {
  std::string body;
  put_question(body, question);
  const std::size_t fixed = kHeaderBytes + (question.has_opt ? 11 : 0);
  unsigned count = 0;
  bool cut = false;
  for (const auto& record : records) {
    std::string one;
    put_name(one, record.name);
    put_u16(one, static_cast<unsigned>(record.type));
    put_u16(one, kClassIn);
    put_u32(one, record.ttl_seconds);
    const auto data = record_data(record);
    put_u16(one, static_cast<unsigned>(data.size()));
    one += data;
    if (fixed + body.size() + one.size() > most_bytes) {
      cut = true;
      break;
    }
    body += one;
    ++count;
  }
  std::string out;
  put_u16(out, question.id);
  put_u16(out, kResponseBit | kRecursionAvailableBit | (cut ? kTruncatedBit : 0U) |
                   (question.recursion_desired ? kRecursionDesiredBit : 0U) |
                   static_cast<unsigned>(code));
  put_u16(out, 1);
  put_u16(out, count);
  put_u16(out, 0);
  put_u16(out, question.has_opt ? 1 : 0);
  out += body;
  if (question.has_opt) {
    put_opt(out);
  }
  return out;
}

}  // namespace atl::egress
