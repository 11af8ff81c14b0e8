#include "cli/help.h"

#include <array>

namespace atl::cli {
namespace {

constexpr std::array kCommands{
    CommandHelp{"run", "run [OPTIONS] -- CMD [ARG]...", "Create a sandbox and run a command in it",
                R"(Examples:
  atoll run --rm -- python3 -c 'print(6 * 7)'
  echo hello | atoll run --rm -- tr a-z A-Z
  atoll run -t default --memory 2Gi --cpu 2 -e DEBUG=1 -- bash -c 'nproc; free -m'
  atoll run --rm --timeout 30 -u root -w /tmp -- ./job.sh

The exit status is that of the command: 128 + N when signal N ended it, 124 after --timeout,
127 or 126 when the program is missing or not executable, 125 when Atoll itself failed.
Without --rm the sandbox stays and its id is printed on standard error. Ctrl-C goes to the
command; a second one stops waiting for it.)"},
    CommandHelp{"create", "create [OPTIONS]", "Create a sandbox and print its id",
                R"(Examples:
  id=$(atoll create)
  atoll create -t default --memory 1Gi --ttl 3600 -e TOKEN
  atoll create -o json)"},
    CommandHelp{"exec", "exec [OPTIONS] ID -- CMD [ARG]...",
                "Run a command in a sandbox that exists",
                R"(Examples:
  atoll exec ID -- ls -l /home/user
  atoll exec -u root -w /srv -e LANG=C ID -- make test
  tar c . | atoll exec ID -- tar x -C /home/user

The exit status is that of the command: 128 + N when signal N ended it, 124 after --timeout,
127 or 126 when the program is missing or not executable, 125 when Atoll itself failed.)"},
    CommandHelp{"ls", "ls [OPTIONS]", "List sandboxes",
                R"(Examples:
  atoll ls
  atoll ls -a          also those that failed or are being deleted
  atoll ls -q          ids only
  atoll ls -o json)"},
    CommandHelp{"inspect", "inspect [OPTIONS] ID", "Show everything about one sandbox, as JSON",
                R"(Examples:
  atoll inspect ID
  atoll inspect ID | jq .expires_at)"},
    CommandHelp{"rm", "rm [OPTIONS] ID... | --all", "Delete sandboxes",
                R"(Examples:
  atoll rm ID
  atoll rm -f ID1 ID2  an id that does not exist is fine
  atoll rm --all)"},
    CommandHelp{"cp",
                "cp [OPTIONS] FILE|DIR|- ID:/path, or: atoll cp [OPTIONS] ID:/path FILE|DIR|-",
                "Copy files and directories to or from a sandbox",
                R"(Examples:
  atoll cp data.csv ID:/home/user/data.csv
  atoll cp ID:/home/user/out.png .
  atoll cp ./src ID:/home/user/src        a directory, with everything below it
  tar c . | atoll cp - ID:/tmp/src.tar    from standard input
  atoll cp ID:/var/log/syslog - | less    to standard output

An existing directory as destination receives the source inside it. Executable bits and symbolic
links are kept. Files arrive whole or not at all. A local name with a colon: ./a:b)"},
    CommandHelp{"cert", "cert dev [OPTIONS]", "Make certificates for development",
                R"(Examples:
  atoll cert dev
  atoll cert dev --dir /etc/atoll/tls --name box.lan,*.box.lan,192.168.1.5

An authority that is already in the directory is kept, so that clients that trust it go on.)"},
    CommandHelp{"template", "template ls|add|pull|build|rm [OPTIONS] [ARG]...",
                "Make templates from images and Dockerfiles",
                R"(Examples:
  atoll template ls
  atoll template add web docker.io/library/nginx:1.27
  atoll template add app --archive app.tar        `docker save` or an OCI archive
  echo "$TOKEN" | atoll template add app registry.example/team/app:2 --username me
  atoll template build -n web -f Dockerfile .
  atoll template build -n web --build-arg VERSION=2 --target test ./src
  atoll template pull code-interpreter-v1
  atoll template rm web

RUN steps have no network unless --build-network host gives them the host's: for Dockerfiles you
trust. A password is read from standard input. Ctrl-C ends a build.)"},
    CommandHelp{"doctor", "doctor [OPTIONS]", "Check this host and say how to fix what is missing",
                R"(Examples:
  atoll doctor
  atoll doctor -o json

Exit status 1 when something essential is missing.)"},
    CommandHelp{"version", "version [OPTIONS]", "Print the version",
                R"(Examples:
  atoll version
  atoll version -o json)"},
};

}  // namespace

const std::string_view kProgramExamples =
    R"(Examples:
  atoll run --rm -- python3 -c 'print("hello")'    run one command in a fresh sandbox
  id=$(atoll create); atoll exec $id -- uname -a   keep one and use it again
  atoll cp script.py $id:/home/user/ && atoll exec $id -- python3 script.py
  atoll ls; atoll rm $id

Environment:
  ATOLL_API_URL   address of the server (http://127.0.0.1:7070)
  ATOLL_API_KEY   API key; or ATOLL_KEY_FILE, a file that holds it
  ATOLL_DATA_DIR  data directory whose admin.key is used otherwise (/var/lib/atoll)
  NO_COLOR        no colours

`atoll COMMAND --help` explains each command.)";

CommandHelp help_of(std::string_view command) {
  for (const auto& entry : kCommands) {
    if (entry.name == command) {
      return entry;
    }
  }
  return {};
}

}  // namespace atl::cli
