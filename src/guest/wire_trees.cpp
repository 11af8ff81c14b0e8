// Trees and searches in the guest protocol.
#include <algorithm>

#include "base/bytes.h"
#include "base/strings.h"
#include "guest/wire.h"
#include "guest/wire_checks.h"

namespace atl::guest {
namespace {

Result<> check_pattern(std::string_view pattern, std::string reason) {
  if (pattern.size() > kMaxPatternBytes || has_nul(pattern)) {
    return refuse(
        concat("a pattern must have at most ", kMaxPatternBytes, " bytes and no NUL byte"),
        std::move(reason));
  }
  return {};
}

Result<> check_globs(const std::vector<std::string>& globs) {
  if (globs.size() > kMaxGlobs) {
    return refuse(concat("at most ", kMaxGlobs, " patterns are possible"), "bad_glob");
  }
  std::size_t bytes = 0;
  for (const std::string& glob : globs) {
    TRY_DO(check_pattern(glob, "bad_glob"));
    bytes += glob.size();
  }
  if (bytes > kMaxGlobListBytes) {
    return refuse(concat("patterns may have ", kMaxGlobListBytes, " bytes together"), "bad_glob");
  }
  return {};
}

Result<> check_search(const SearchRequest& request) {
  TRY_DO(check_file_request(request.path, request.user));
  TRY_DO(check_globs(request.included));
  TRY_DO(check_globs(request.excluded));
  if (request.context_lines > kMaxContextLines) {
    return refuse(concat("at most ", kMaxContextLines, " lines of context are possible"),
                  "bad_limit");
  }
  TRY_DO(check_pattern(request.name_glob, "bad_glob"));
  TRY_DO(check_pattern(request.content_regex, "bad_regex"));
  if (request.max_results < 1 || request.max_results > kMaxSearchResults) {
    return refuse(concat("max_results must be 1 to ", kMaxSearchResults), "bad_limit");
  }
  if (request.max_file_bytes < 1 || request.max_file_bytes > kMaxSearchFileBytes) {
    return refuse(concat("max_file_bytes must be 1 to ", kMaxSearchFileBytes), "bad_limit");
  }
  return {};
}

Result<> check_attributes(const std::vector<Attribute>& attributes) {
  std::size_t bytes = 0;
  for (const Attribute& attribute : attributes) {
    bytes += attribute.name.size() + attribute.value.size();
    if (attribute.name.empty() || attribute.name.size() > kMaxNameBytes ||
        has_nul(attribute.name)) {
      return refuse("the name of an attribute is malformed");
    }
  }
  if (attributes.size() > kMaxAttributes || bytes > kMaxAttributeBytes) {
    return refuse("the attributes of a file are too many or too large");
  }
  return {};
}

Result<> check_tree_entry(const TreeEntry& entry) {
  TRY_DO(validate_tree_path(entry.path));
  TRY_DO(check_mode(entry.mode));
  TRY_DO(check_attributes(entry.attributes));
  const bool file = entry.type == FileType::kFile;
  const bool symlink = entry.type == FileType::kSymlink;
  const bool hardlink = entry.type == FileType::kHardlink;
  if (!file && !symlink && !hardlink && entry.type != FileType::kDirectory &&
      entry.type != FileType::kFifo) {
    return refuse("a tree has only files, directories, FIFOs and links");
  }
  if (!file && entry.size != 0) {
    return refuse("only a file has a size in a tree");
  }
  if (entry.size > static_cast<std::uint64_t>(INT64_MAX)) {
    return refuse("the size of a file is out of range");
  }
  if (hardlink) {
    return validate_tree_path(entry.link_target);
  }
  if (symlink == entry.link_target.empty() || entry.link_target.size() > kMaxPathBytes ||
      has_nul(entry.link_target)) {
    return refuse("the target of a symlink is missing or malformed");
  }
  return {};
}

}  // namespace

Result<> validate_tree_path(std::string_view path) {
  const auto escapes = [](std::string_view why) {
    return refuse(concat("a path in a tree ", why), "path_escapes");
  };
  if (path.empty() || path.size() > kMaxPathBytes || has_nul(path)) {
    return escapes("is empty, too long or has a NUL byte");
  }
  std::size_t depth = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view name = path.substr(begin, end - begin);
    if (name.empty() || name == "." || name == "..") {
      return escapes("must be relative, without empty, \".\" and \"..\" components");
    }
    if (name.size() > kMaxNameBytes || ++depth > kMaxTreeDepth) {
      return escapes(
          concat("may have ", kMaxTreeDepth, " components of ", kMaxNameBytes, " bytes each"));
    }
    begin = end + 1;
  }
  return {};
}

Result<> validate(const SearchRequest& request) {
  return check_search(request);
}

namespace {

void write_entry(ByteWriter& out, const TreeEntry& entry) {
  out.string(entry.path).u8(static_cast<std::uint8_t>(entry.type)).u32(entry.mode);
  out.u64(entry.size).i64(entry.modified_unix_ns).u32(entry.uid).u32(entry.gid);
  out.string(entry.link_target).u32(static_cast<std::uint32_t>(entry.attributes.size()));
  for (const Attribute& attribute : entry.attributes) {
    out.string(attribute.name).string(attribute.value);
  }
}

// Members are read one statement at a time: the order of reads is the format.
TreeEntry read_entry(ByteReader& in) {
  TreeEntry entry;
  entry.path = in.string();
  entry.type = static_cast<FileType>(in.u8());
  entry.mode = in.u32();
  entry.size = in.u64();
  entry.modified_unix_ns = in.i64();
  entry.uid = in.u32();
  entry.gid = in.u32();
  entry.link_target = in.string();
  for (std::uint32_t left = in.count(8); left > 0; --left) {
    Attribute attribute;
    attribute.name = in.string();
    attribute.value = in.string();
    entry.attributes.push_back(std::move(attribute));
  }
  return entry;
}

bool is_file_type(FileType type) {
  return type >= FileType::kFile && type <= FileType::kFifo;
}

Result<> check_trees(const std::vector<std::string>& directories) {
  if (directories.size() > kMaxDiffTrees) {
    return refuse(concat("a root is made of at most ", kMaxDiffTrees, " directories"));
  }
  for (const std::string& directory : directories) {
    TRY_DO(validate_path(directory));
  }
  return {};
}

}  // namespace

std::string encode(const TreeEntry& entry) {
  ByteWriter out;
  write_entry(out, entry);
  return std::move(out).bytes();
}

Result<TreeEntry> decode_tree_entry(std::string_view payload) {
  ByteReader in{payload};
  TreeEntry entry = read_entry(in);
  TRY_DO(in.finish());
  TRY_DO(check_tree_entry(entry));
  return entry;
}

std::string encode(const DiffRequest& request) {
  return ByteWriter{}.strings(request.from).strings(request.to).boolean(request.contents).bytes();
}

Result<DiffRequest> decode_diff(std::string_view payload) {
  ByteReader in{payload};
  DiffRequest request;
  request.from = in.strings();
  request.to = in.strings();
  request.contents = in.boolean();
  TRY_DO(in.finish());
  TRY_DO(check_trees(request.from));
  TRY_DO(check_trees(request.to));
  return request;
}

std::string encode(const Change& change) {
  ByteWriter out;
  out.u8(static_cast<std::uint8_t>(change.change));
  write_entry(out, change.entry);
  out.u8(static_cast<std::uint8_t>(change.old_type)).u64(change.old_size).u32(change.old_mode);
  return std::move(out).bytes();
}

Result<Change> decode_change(std::string_view payload) {
  ByteReader in{payload};
  Change change;
  change.change = static_cast<ChangeType>(in.u8());
  change.entry = read_entry(in);
  change.old_type = static_cast<FileType>(in.u8());
  change.old_size = in.u64();
  change.old_mode = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_mode(change.old_mode));
  if (change.change < ChangeType::kAdded || change.change > ChangeType::kKept ||
      !is_file_type(change.old_type)) {
    return fail(Code::kInvalidArgument, "a change is malformed", "malformed");
  }
  TreeEntry checked = change.entry;
  if (checked.type == FileType::kOther) {
    checked.type = FileType::kFifo;  // the same rules
  }
  TRY_DO(check_tree_entry(checked));
  return change;
}

std::string encode(const TreeDone& done) {
  ByteWriter out;
  out.u64(done.files).u64(done.directories).u64(done.symlinks).u64(done.bytes);
  return std::move(out).bytes();
}

Result<TreeDone> decode_tree_done(std::string_view payload) {
  ByteReader in{payload};
  TreeDone done;
  done.files = in.u64();
  done.directories = in.u64();
  done.symlinks = in.u64();
  done.bytes = in.u64();
  TRY_DO(in.finish());
  return done;
}

std::string encode(const SearchRequest& request) {
  ByteWriter out;
  out.string(request.path).string(request.user).string(request.name_glob);
  out.string(request.content_regex).boolean(request.ignore_case);
  out.u32(request.max_results).u64(request.max_file_bytes);
  out.strings(request.included).strings(request.excluded).u32(request.context_lines);
  return std::move(out).bytes();
}

Result<SearchRequest> decode_search(std::string_view payload) {
  ByteReader in{payload};
  SearchRequest request;
  request.path = in.string();
  request.user = in.string();
  request.name_glob = in.string();
  request.content_regex = in.string();
  request.ignore_case = in.boolean();
  request.max_results = in.u32();
  request.max_file_bytes = in.u64();
  request.included = in.strings();
  request.excluded = in.strings();
  request.context_lines = in.u32();
  TRY_DO(in.finish());
  TRY_DO(check_search(request));
  return request;
}

std::string encode(const Match& match) {
  ByteWriter out;
  out.string(match.path).u8(static_cast<std::uint8_t>(match.type)).u64(match.size);
  out.u64(match.line_number).string(match.line_text).boolean(match.context);
  return std::move(out).bytes();
}

Result<Match> decode_match(std::string_view payload) {
  ByteReader in{payload};
  Match match;
  match.path = in.string();
  const auto type = in.u8();
  match.size = in.u64();
  match.line_number = in.u64();
  match.line_text = in.string();
  match.context = in.boolean();
  TRY_DO(in.finish());
  if (type < 1 || type > 4 || !is_result_path(match.path) ||
      match.line_text.size() > kMaxLineBytes) {
    return fail(Code::kInvalidArgument, "search result is malformed", "malformed");
  }
  match.type = static_cast<FileType>(type);
  return match;
}

std::string encode(const SearchEnd& end) {
  return ByteWriter{}.boolean(end.truncated).u64(end.skipped_files).bytes();
}

Result<SearchEnd> decode_search_end(std::string_view payload) {
  ByteReader in{payload};
  SearchEnd end;
  end.truncated = in.boolean();
  end.skipped_files = in.u64();
  TRY_DO(in.finish());
  return end;
}

}  // namespace atl::guest
