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
  atoll create --name build --get            the one of that name, made when it is missing
  atoll create --count 10 -l job=42 -q
  atoll create --snapshot SNAPSHOT           begin as a snapshot
  atoll create -o json)"},
    CommandHelp{"exec", "exec [OPTIONS] SANDBOX -- CMD [ARG]...",
                "Run a command in a sandbox that exists",
                R"(Examples:
  atoll exec SANDBOX -- ls -l /home/user
  atoll exec -u root -w /srv -e LANG=C SANDBOX -- make test
  tar c . | atoll exec SANDBOX -- tar x -C /home/user

The exit status is that of the command: 128 + N when signal N ended it, 124 after --timeout,
127 or 126 when the program is missing or not executable, 125 when Atoll itself failed.)"},
    CommandHelp{"ls", "ls [OPTIONS]", "List sandboxes",
                R"(Examples:
  atoll ls
  atoll ls -a          also those that failed or are being deleted
  atoll ls -q          ids only
  atoll ls -l job=42   only those with this label
  atoll ls -o json)"},
    CommandHelp{"update", "update [OPTIONS] SANDBOX", "Change a sandbox that runs",
                R"(Examples:
  atoll update SANDBOX --memory 4Gi --cpu 2
  atoll update SANDBOX --ttl 1h --idle-ttl 10m
  atoll update SANDBOX -e TOKEN -l owner=me

Limits change at once; variables are seen by what is started afterwards.)"},
    CommandHelp{"stats", "stats [OPTIONS] [SANDBOX]", "Show what sandboxes use",
                R"(Examples:
  atoll stats
  atoll stats SANDBOX -o json
  atoll stats -w              until Ctrl-C)"},
    CommandHelp{"inspect", "inspect [OPTIONS] SANDBOX",
                "Show everything about one sandbox, as JSON",
                R"(Examples:
  atoll inspect SANDBOX
  atoll inspect SANDBOX | jq .expires_at)"},
    CommandHelp{"rm", "rm [OPTIONS] SANDBOX... | --all", "Delete sandboxes",
                R"(Examples:
  atoll rm SANDBOX
  atoll rm -f ID1 ID2  an id that does not exist is fine
  atoll rm --all)"},
    CommandHelp{"pause", "pause [OPTIONS] SANDBOX...", "Let sandboxes stand still",
                R"(Examples:
  atoll pause SANDBOX
  atoll pause --memory disk A B        the processes go to disk, their memory is free
  atoll pause --memory none SANDBOX    the processes end, only the files stay

When it returns, the files are on disk. Using a paused sandbox wakes it up.)"},
    CommandHelp{"resume", "resume [OPTIONS] SANDBOX...", "Let paused sandboxes go on",
                R"(Examples:
  atoll resume SANDBOX
  atoll resume -o json SANDBOX | jq -r '.resumed[].restored'

Processes continue where they were. When they could not be kept, the sandbox starts again with its
files, and the reason is printed.)"},
    CommandHelp{"snapshot", "snapshot create|ls|show|restore|rm [OPTIONS] ARG...",
                "Keep moments of a sandbox's files and go back to them",
                R"(Examples:
  snap=$(atoll snapshot create SANDBOX -n before-upgrade)
  atoll snapshot create SANDBOX --expires 7d --description 'nightly'
  atoll snapshot ls SANDBOX
  atoll snapshot restore SANDBOX before-upgrade     a name of its own, or an id
  atoll snapshot restore --force SANDBOX $snap      also while it runs
  atoll create --snapshot $snap                     a new sandbox that begins there
  atoll snapshot show $snap
  atoll snapshot rm $snap

A snapshot outlives its sandbox, and what was made from it outlives the snapshot.)"},
    CommandHelp{"fork", "fork [OPTIONS] SANDBOX", "Make new sandboxes that begin as another is now",
                R"(Examples:
  child=$(atoll fork SANDBOX)
  atoll fork -n 10 --start SANDBOX
  atoll fork -n 100 --memory interpreters SANDBOX    with the variables of its interpreters
  atoll fork --memory processes --ttl 1h SANDBOX     with all that runs

The ids of the children are printed. Each has an identity of its own.)"},
    CommandHelp{"service", "service ls|set|url [OPTIONS] SANDBOX [ARG]",
                "What the outside may reach of a sandbox",
                R"(Examples:
  atoll service ls SANDBOX
  atoll service set SANDBOX services.json   the whole list; - is standard input
  atoll service url SANDBOX web             by its id or its port

The file has {"services": [...]} or the list itself; docs/services.md says what a service can be.)"},
    CommandHelp{"preview", "preview create|rm [OPTIONS] SANDBOX PORT|PREVIEW",
                "A private link to one port",
                R"(Examples:
  atoll preview create SANDBOX 3000
  atoll preview create SANDBOX 8443 --https --path /admin --ttl 600
  atoll preview rm SANDBOX PREVIEW

The link is good once and leaves a cookie in the browser. It ends with its time (900 seconds), and
with the processes of the sandbox.)"},
    CommandHelp{"expose", "expose [OPTIONS] SANDBOX PORT",
                "Make a port public and print its address",
                R"(Examples:
  atoll expose SANDBOX 3000
  atoll expose SANDBOX 8080 --token "$TOKEN"   callers send it as Authorization: Bearer
  atoll expose SANDBOX 3000 --name web --no-resume

What listens on 127.0.0.1 only is reached as well. A request wakes a paused sandbox.)"},
    CommandHelp{"diff", "diff [OPTIONS] SANDBOX|SNAPSHOT", "Show what changed in the files",
                R"(Examples:
  atoll diff SANDBOX                     against its template
  atoll diff SANDBOX --from SNAPSHOT     against an earlier moment, or another sandbox
  atoll diff -q SANDBOX                  paths only
  atoll diff -o json SANDBOX | jq .path  one JSON record a change
  atoll diff SANDBOX --tar changes.tar   the changed files themselves

A: added, M: changed, D: removed; a removed directory stands for all that was in it.)"},
    CommandHelp{"export", "export [OPTIONS] SANDBOX|SNAPSHOT FILE|-",
                "Write a sandbox or a snapshot as an OCI image archive",
                R"(Examples:
  atoll export SNAPSHOT image.tar        skopeo, umoci and podman read it: oci-archive:image.tar
  atoll export --layer --compression none SANDBOX - | tar t
  atoll export SANDBOX - | ssh other-host atoll import -)"},
    CommandHelp{"import", "import [OPTIONS] FILE|-", "Make a snapshot of an image archive",
                R"(Examples:
  snap=$(atoll import image.tar -n imported) && atoll create --snapshot $snap
  skopeo copy docker://debian:12 oci-archive:/dev/stdout | atoll import -

The id of the snapshot is printed. For a template: atoll template add NAME --archive FILE)"},
    CommandHelp{"tree", "tree [OPTIONS] [SANDBOX|SNAPSHOT]", "Draw which sandbox came from which",
                R"(Examples:
  atoll tree
  atoll tree SANDBOX
  atoll tree -q            ids only
  atoll tree -o json)"},
    CommandHelp{"net", "net watch|flows|learn|test [OPTIONS] [SANDBOX|POLICY]",
                "See what sandboxes send out, and make policies of it",
                R"(Examples:
  atoll net watch                                every sandbox, as it happens
  atoll net watch SANDBOX --outcome denied
  atoll net flows SANDBOX --since 1h --name '*.example.com'
  atoll net flows SANDBOX -o json > flows.json
  atoll net learn SANDBOX > policy.json          the least that lets it do again what it did
  atoll net learn SANDBOX --since 1d --wildcards
  atoll net test policy.json --against SANDBOX   what a draft would change
  atoll net test policy.json --against flows.json

test exits with 1 when something that was allowed would be denied.)"},
    CommandHelp{"why", "why [OPTIONS] FLOW | SANDBOX HOST[:PORT]",
                "Explain why something is let through or not",
                R"(Examples:
  atoll why SANDBOX api.example.com
  atoll why SANDBOX db.example.com:5432 --protocol postgres
  atoll why SANDBOX 203.0.113.7:53 --udp
  atoll why FLOW                                 an id from `atoll net flows`

Exits with 0 when it is allowed, with 1 when it is not.)"},
    CommandHelp{"approvals", "approvals ls|watch|allow|deny [OPTIONS] [ID]...",
                "Answer requests that wait for a person",
                R"(Examples:
  atoll approvals ls
  atoll approvals watch                          as they come
  atoll approvals allow ID
  atoll approvals allow --session ID             and the same again without asking
  atoll approvals deny ID1 ID2
  atoll approvals ls --state all --sandbox SANDBOX)"},
    CommandHelp{"volume",
                "volume create|ls|show|cp|fork|snapshot|snapshots|restore|forget|rm [OPTIONS] "
                "[ARG]...",
                "Keep files in volumes that outlive sandboxes",
                R"(Examples:
  vol=$(atoll volume create --mode RWX --size 10Gi)
  atoll volume cp ./data $vol:/data                  no sandbox need run
  atoll create -v $vol:/workspace/data               also run, shell, repl; :ro to read only
  atoll volume ls
  snap=$(atoll volume snapshot $vol -n before)       atoll volume snapshots $vol lists them
  atoll volume restore $vol $snap
  atoll volume fork $vol
  atoll volume forget $vol $snap                     deletes a snapshot
  atoll volume rm $vol                               -f: also while it is mounted
  atoll volume create --s3 bucket/prefix --s3-endpoint https://s3.example)"},
    CommandHelp{"network", "network get|set [OPTIONS] SANDBOX [FILE|-]",
                "Show or replace what a sandbox may reach", R"(Examples:
  atoll network get SANDBOX
  atoll network set SANDBOX policy.json              - or nothing: standard input
  echo '{"mode": "block-all"}' | atoll network set SANDBOX)"},
    CommandHelp{"credential", "credential create|ls|rotate|rm [OPTIONS] [NAME [FILE|-]]",
                "Keep secrets that sandboxes use and never see", R"(Examples:
  printf %s "$TOKEN" | atoll credential create github --key token
  atoll credential create corp source.json           {"resolverKind": ..., "spec": {...}}
  atoll credential rotate github --key token < new-token
  atoll credential ls
  atoll credential rm github)"},
    CommandHelp{
        "cp",
        "cp [OPTIONS] FILE|DIR|- SANDBOX:/path, or: atoll cp [OPTIONS] SANDBOX:/path FILE|DIR|-",
        "Copy files and directories to or from a sandbox",
        R"(Examples:
  atoll cp data.csv SANDBOX:/home/user/data.csv
  atoll cp SANDBOX:/home/user/out.png .
  atoll cp ./src SANDBOX:/home/user/src        a directory, with everything below it
  tar c . | atoll cp - SANDBOX:/tmp/src.tar    from standard input
  atoll cp SANDBOX:/var/log/syslog - | less    to standard output

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
    CommandHelp{"ssh", "ssh [OPTIONS] [SANDBOX] [-- WORD...]",
                "Log in to a sandbox with OpenSSH's client",
                R"(Examples:
  atoll ssh --add-key ~/.ssh/id_ed25519.pub
  atoll ssh SANDBOX
  atoll ssh SANDBOX -- uname -a
  atoll ssh SANDBOX -- -L 8080:localhost:80   options of ssh go there too

The server must have been started with --ssh-listen. See docs/ssh.md for sftp, scp and rsync.)"},
    CommandHelp{"shell", "shell [OPTIONS] [SANDBOX] [-- CMD [ARG]...]",
                "Open a terminal in a sandbox",
                R"(Examples:
  atoll shell                       in a temporary sandbox that is deleted afterwards
  atoll shell --keep -t default     the same, but it stays
  atoll shell SANDBOX
  atoll shell -u root SANDBOX -- top
  atoll shell SANDBOX --attach CONTEXT

The exit status is that of the shell. A connection that breaks is made again where it ended.
At the start of a line ~. detaches (the shell goes on; --attach comes back), ~? shows the others.)"},
    CommandHelp{"repl", "repl [OPTIONS] [SANDBOX]", "Run code piece by piece in an interpreter",
                R"(Examples:
  atoll repl                                 Python in a temporary sandbox
  atoll repl SANDBOX --language javascript
  atoll repl -t code-interpreter-v1 --save-images plots
  echo 'print(6 * 7)' | atoll repl -q
  atoll repl -o json SANDBOX < job.py

At the prompt: Ctrl-C interrupts the code and keeps its state, Ctrl-D ends. Piped code runs as one
piece; the exit status is then 1 after an error, 124 after --timeout.)"},
    CommandHelp{"logs", "logs [OPTIONS] SANDBOX [CONTEXT]", "Show what contexts have printed",
                R"(Examples:
  atoll logs SANDBOX             every context, each line with its id before it
  atoll logs SANDBOX CONTEXT     one, as it is
  atoll logs -f SANDBOX          and what comes, also of contexts started later
  atoll logs -o json SANDBOX     one JSON record a piece)"},
    CommandHelp{"files", "files ls|cat|glob|grep|mkdir|rm [OPTIONS] [PATTERN] SANDBOX:/path...",
                "Look at and tidy up files in a sandbox",
                R"(Examples:
  atoll files ls SANDBOX:/workspace
  atoll files cat SANDBOX:/etc/os-release
  atoll files glob '**/*.py' SANDBOX:/workspace
  atoll files grep -i 'todo|fixme' SANDBOX:/workspace --include '*.py' -C 2
  atoll files mkdir SANDBOX:/workspace/a/b
  atoll files rm -r SANDBOX:/workspace/a
  atoll files ls -o json SANDBOX:/

The sandbox itself searches. Exit status 1 when nothing was found.)"},
    CommandHelp{"watch", "watch [OPTIONS] SANDBOX PATH", "Show changes of files as they happen",
                R"(Examples:
  atoll watch SANDBOX /workspace
  atoll watch -r SANDBOX /workspace -o json | jq -r .path

Events: create, write, remove, rename, chmod; overflow means that some were missed.)"},
    CommandHelp{"dev", "dev [--print] [OPTIONS] [OPTIONS OF serve]",
                "Start a server and print all that a client needs",
                R"(Examples:
  atoll dev                              a server on 127.0.0.1:7070, its key, and snippets
  atoll dev --data-dir /tmp/try --listen 127.0.0.1:9000
  atoll dev --print                      only print, for the server that runs
  atoll dev --print -o json | jq -r .snippets.curl

Takes the options of `atoll serve` too. When a server answers there already, it only prints. The
key is shown: this is for your own machine.)"},
    CommandHelp{"completion", "completion bash|zsh|fish", "Print a completion script for a shell",
                R"(Examples:
  source <(atoll completion bash)                                  now
  atoll completion bash > /etc/bash_completion.d/atoll             for ever
  atoll completion zsh > "${fpath[1]}/_atoll"
  atoll completion fish > ~/.config/fish/completions/atoll.fish

Sandboxes and templates are completed too, when the server answers.)"},
    CommandHelp{"complete", "complete -- WORD...", "What could stand where the last word is",
                R"(Examples:
  atoll complete -- exec sb)"},
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
