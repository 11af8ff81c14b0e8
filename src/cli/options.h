// What the person asked for, as plain values: the border between argument parsing (parse.cpp, the
// only file that knows the parsing library) and the commands.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace atl::cli {

using EnvVars = std::vector<std::pair<std::string, std::string>>;

struct GlobalOptions {
  bool json = false;   // -o json
  bool quiet = false;  // -q
  std::string api_url;
  std::string api_key;
  std::string data_dir;
  std::string ca_file;  // whom to trust on https; empty: the host's roots
};

struct VolumeMount {
  std::string volume_id;
  std::string path;
  bool read_only = false;
};

// What a new sandbox shall be like.
struct SandboxOptions {
  std::string template_name = "default";
  std::string snapshot_id;  // instead of the template; empty: none
  EnvVars env;
  std::string memory;                             // "1Gi", empty: the template's
  std::string cpu;                                // "2", "0.5", empty: the template's
  std::optional<std::uint32_t> ttl_seconds;       // pause after
  std::optional<std::uint32_t> hard_ttl_seconds;  // delete after
  std::optional<std::uint32_t> idle_ttl_seconds;  // delete after so much idleness
  EnvVars labels;
  std::vector<VolumeMount> mounts;
  std::string name;            // empty: none
  bool get_or_create = false;  // an existing one of that name is fine
};

// What to run in one and how.
struct ProcessOptions {
  std::vector<std::string> argv;
  EnvVars env;
  std::string user;  // empty: the server's default
  std::string cwd;   // empty: the server's default
  bool interactive = false;
  std::uint64_t timeout_ms = 0;  // 0: none
};

struct RunOptions {
  SandboxOptions sandbox;
  ProcessOptions process;
  bool remove = false;
};
struct CreateOptions {
  SandboxOptions sandbox;
  std::uint32_t count = 0;  // 0: one, answered as one
};
struct UpdateOptions {
  std::string id;
  SandboxOptions sandbox;  // what is empty stays
};
struct StatsOptions {
  std::string id;  // empty: all that run
  bool watch = false;
};
struct ExecOptions {
  std::string id;
  ProcessOptions process;
};
struct ListOptions {
  bool all = false;
  EnvVars labels;  // all of them must fit
};
struct InspectOptions {
  std::string id;
};
struct RemoveOptions {
  std::vector<std::string> ids;
  bool all = false;
  bool force = false;  // an id that does not exist is fine
};
struct PauseOptions {
  std::vector<std::string> ids;
  std::string memory;  // keep, disk, none; empty: keep
};
struct ResumeOptions {
  std::vector<std::string> ids;
};
struct SnapshotOptions {
  enum class Action : std::uint8_t { kCreate, kList, kShow, kRestore, kRemove };
  Action action = Action::kCreate;
  std::vector<std::string> names;  // what stood after the action
  std::string name;
  std::string description;
  std::optional<std::uint32_t> expires_seconds;
  bool force = false;
};
struct ForkOptions {
  std::string id;
  std::uint32_t count = 1;
  std::string memory;  // none, interpreters, processes; empty: none
  bool start = false;
  std::optional<std::uint32_t> ttl_seconds;
  std::optional<std::uint32_t> hard_ttl_seconds;
};
struct DiffOptions {
  std::string id;    // a sandbox or a snapshot
  std::string from;  // likewise; empty: its template
  std::string tar;   // a file or "-"; empty: a list
};
struct ExportOptions {
  std::string id;           // a sandbox or a snapshot
  std::string file;         // or "-"
  std::string compression;  // empty: the server's
  bool layer_only = false;
};
struct ImportOptions {
  std::string file;  // or "-"
  std::string template_name;
  std::string name;
  std::string description;
};
struct TreeOptions {
  std::string id;  // a sandbox or a snapshot; empty: all trees
};
struct VolumeOptions {
  enum class Action : std::uint8_t {
    kCreate,
    kList,
    kShow,
    kCopy,
    kFork,
    kSnapshot,
    kSnapshots,
    kRestore,
    kForget,
    kRemove
  };
  Action action = Action::kList;
  std::vector<std::string> names;  // what stood after the action
  std::string access_mode;
  std::string size;
  std::optional<std::uint32_t> uid;
  std::optional<std::uint32_t> gid;
  std::string snapshot_id;
  std::string name;  // of a snapshot
  std::string description;
  std::optional<std::uint32_t> expires_seconds;
  bool force = false;
  std::string s3_bucket;  // bucket[/prefix]; empty: this server's disk
  std::string s3_endpoint;
  std::string s3_region;
  std::string s3_access_key;  // from the environment, as what follows
  std::string s3_secret_key;
  std::string s3_session_token;
};
// net watch, net flows, net learn, net test
struct NetOptions {
  enum class Action : std::uint8_t { kWatch, kFlows, kLearn, kTest };
  Action action = Action::kWatch;
  std::string subject;  // a sandbox; of test the policy's file
  std::string against;  // test: a file of flows, or a sandbox
  std::optional<std::uint32_t> since_seconds;
  std::uint32_t limit = 0;  // 0: the default
  std::string outcome;
  std::string kind;
  std::string name;
  std::string rule;
  std::string protocol;
  bool wildcards = false;
  bool denied = false;  // learn: also what was refused
};
struct WhyOptions {
  std::vector<std::string> words;  // a flow; or a sandbox and a host
  std::string protocol;
  bool udp = false;
};
struct ApprovalsOptions {
  enum class Action : std::uint8_t { kList, kAllow, kDeny, kWatch };
  Action action = Action::kList;
  std::vector<std::string> ids;
  std::string sandbox;
  std::string state;
  bool session = false;
};
struct ServiceOptions {
  enum class Action : std::uint8_t { kList, kSet, kUrl };
  Action action = Action::kList;
  std::vector<std::string> words;  // SANDBOX, then FILE or SERVICE
};
struct PreviewOptions {
  enum class Action : std::uint8_t { kCreate, kRemove };
  Action action = Action::kCreate;
  std::vector<std::string> words;  // SANDBOX, then PORT or PREVIEW
  std::string path;
  bool https = false;
  std::optional<std::uint32_t> ttl_seconds;
};
struct ExposeOptions {
  std::string sandbox;
  std::uint16_t port = 0;
  std::string name;   // of the service; empty: port-PORT
  std::string token;  // callers must show it; empty: none
  bool no_resume = false;
};
struct NetworkOptions {
  bool set = false;
  std::string id;
  std::string file;  // set: the policy; empty or "-": standard input
};
struct CredentialOptions {
  enum class Action : std::uint8_t { kCreate, kList, kRotate, kRemove };
  Action action = Action::kList;
  std::vector<std::string> names;  // what stood after the action
  std::string key;  // what is read is the value of this one; empty: it is the whole source
};
struct CopyOptions {
  std::string source;
  std::string destination;
  std::string user;
};
struct CertDevOptions {
  std::string directory = "atoll-cert";
  std::string names = "localhost,*.localhost,127.0.0.1";
  std::string domain;  // below which sandboxes get their names; empty: none
};
struct TemplateOptions {
  enum class Action : std::uint8_t { kList, kAdd, kPull, kBuild, kRemove };
  Action action = Action::kList;
  std::vector<std::string> names;            // what stood after the action
  std::string archive;                       // add: instead of an image
  std::string file;                          // build: the Dockerfile
  std::string name;                          // build: of the template; empty: the directory's
  std::vector<std::string> build_arguments;  // NAME=value
  std::string target;
  std::string network;
  std::string memory;
  std::string username;  // the password comes from standard input
  bool no_cache = false;
  bool insecure_registry = false;
};
struct ShellOptions {
  std::string id;  // empty: a temporary sandbox
  SandboxOptions sandbox;
  ProcessOptions process;  // argv empty: the sandbox's shell
  bool keep = false;
  bool no_escape = false;
  std::string attach;  // a context that is there already
};
struct ReplOptions {
  std::string id;  // empty: a temporary sandbox
  SandboxOptions sandbox;
  ProcessOptions process;  // user, directory, environment and timeout
  std::string language = "python";
  std::string image_directory;  // empty: images are only mentioned
  bool keep = false;
};
struct LogsOptions {
  std::string id;
  std::string context;  // empty: all
  bool follow = false;
};
struct SshOptions {
  std::string id;                  // empty: only a key is added
  std::vector<std::string> words;  // for ssh itself
  std::string add_key;             // a .pub file
};
struct WatchOptions {
  std::string id;
  std::string path;
  bool recursive = false;
};
struct SandboxPlace {
  std::string sandbox_id;
  std::string path;
};
struct FilesOptions {
  enum class Action : std::uint8_t { kList, kRead, kMakeDirectory, kRemove, kGlob, kGrep };
  Action action = Action::kList;
  std::vector<SandboxPlace> places;
  std::string user;
  bool recursive = false;
  std::string pattern;  // glob and grep, and what follows
  bool ignore_case = false;
  bool fixed = false;
  std::uint32_t context_lines = 0;
  std::vector<std::string> included;
  std::vector<std::string> excluded;
};
struct DevOptions {
  bool print = false;  // only for a server that runs; main.cpp starts one otherwise
};
struct CompletionOptions {
  std::string shell;
};
struct CompleteOptions {
  std::vector<std::string> words;  // the last one is being typed
};
struct DoctorOptions {};
struct VersionOptions {};

using Command =
    std::variant<RunOptions, CreateOptions, ExecOptions, ListOptions, InspectOptions, RemoveOptions,
                 PauseOptions, ResumeOptions, SnapshotOptions, ForkOptions, TreeOptions,
                 DiffOptions, ExportOptions, ImportOptions, VolumeOptions, NetworkOptions,
                 CredentialOptions, ServiceOptions, PreviewOptions, ExposeOptions, CopyOptions,
                 UpdateOptions, StatsOptions, WatchOptions, CertDevOptions, TemplateOptions,
                 ShellOptions, ReplOptions, LogsOptions, SshOptions, FilesOptions, DevOptions,
                 CompletionOptions, CompleteOptions, DoctorOptions, VersionOptions, NetOptions,
                 WhyOptions, ApprovalsOptions>;

struct Invocation {
  GlobalOptions global;
  Command command;
};

}  // namespace atl::cli
