/* help.c - see help.h. docs/man/hasplock.1.scd says the same at length: change both. */
#include "help.h"

/* clang-format off */

#define WHERE                                                                                                          \
    "  -u, --url URL     redis://[user:pass@]host[:port][/db], unix:/path.sock,\n"                                     \
    "                    redis+sentinel://host,host/service, redis+cluster://host,\n"                                  \
    "                    redlock://host,host,host (with TLS rediss://,\n"                                              \
    "                    rediss+sentinel://, rediss+cluster://, redlocks://),\n"                                       \
    "                    or local: (a private server for you on this host; other\n"                                    \
    "                    hosts are not excluded)\n"                                                                    \
    "      --url-file FILE\n"                                                                                          \
    "                    read the URL from the first line of FILE, which only you\n"                                   \
    "                    may read (mode 600, or root's with 640)\n"                                                    \
    "                    [$HASPLOCK_URL or $HASPLOCK_URL_FILE; no other default]\n"                                    \
    "      --cacert FILE, --cacertdir DIR, --cert FILE, --key FILE, --crl FILE,\n"                                     \
    "      --sni NAME    TLS: trusted CAs [the system's], our certificate, its key,\n"                                 \
    "                    revoked certificates, the server's name [the URL's host]\n"                                   \
    "      --password-file FILE\n"                                                                                     \
    "                    its first line is the password; read for each connection\n"                                   \
    "                    [$HASPLOCK_CACERT, ..., $HASPLOCK_PASSWORD_FILE]\n"
#define SERVER                                                                                                         \
    "  -u, --url URL, --url-file FILE\n"                                                                               \
    "                    where Redis is [$HASPLOCK_URL or $HASPLOCK_URL_FILE]; forms\n"                                \
    "                    of URL, files of TLS and --password-file: hasplock help\n"
#define ANSWER                                                                                                         \
    "      --json        one JSON object per line\n"                                                                   \
    "  -q, --quiet       the exit code and errors only\n"                                                              \
    "  -v, --verbose     what the library logs, on stderr\n"

const char help_main[] =
    "hasplock - run commands under a lock that many hosts share through Redis\n"
    "\n"
    "  hasplock run   [options] NAME [--] COMMAND...   hold NAME while COMMAND runs\n"
    "  hasplock show  [options] NAME                   who holds NAME, who waits\n"
    "  hasplock list  [options] [PREFIX]               all locks that are held\n"
    "  hasplock break [options] NAME                   take NAME from its holder\n"
    "  hasplock doctor [options] [PREFIX]              is the server good for locks?\n"
    "  hasplock demo  [options]                        see it work\n"
    "  hasplock help  [run|show|list|break|doctor|demo]\n"
    "                                                  the options of one of them\n"
    "\n"
    "For all but demo; they may stand before the command's word too\n" WHERE
    "      --json        one JSON object per line instead of text\n"
    "  -q, --quiet       errors only\n"
    "  -v, --verbose     say what is done\n"
    "  -h, --help        -V, --version\n"
    "\n"
    "Lengths of time are seconds (30, 0.5) or have units (250ms, 5s, 1m30s, 2h, 1d).\n"
    "\n"
    "Try it\n"
    "  export HASPLOCK_URL=local:\n"
    "  hasplock run nightly -- ./report.sh      one at a time, wait for ever\n"
    "  hasplock run -n nightly -- ./report.sh   already running somewhere? exit 1\n"
    "  hasplock show nightly\n"
    "\n"
    "Exit codes: 0 done, 1 not acquired or not held, 64 usage, 69 no server, 70 the\n"
    "server refused, 71 no process or memory, 74 stdout cannot be written, 75 lock\n"
    "lost, 77 wrong password or missing right; run: COMMAND's own; doctor: 1 for\n"
    "warnings, 2 for problems.\n"
    "More: man hasplock. A lock with a lease has limits: docs/safety.md.\n";

const char help_run[] =
    "hasplock run [options] NAME [--] COMMAND [ARG...]\n"
    "hasplock run [options] NAME -c 'SHELL COMMAND'\n"
    "\n"
    "Waits for the lock NAME (1 to 512 bytes), runs COMMAND, releases when it has\n"
    "ended. Options may stand before or after NAME; the first other word, or --,\n"
    "begins COMMAND. stdin, stdout and stderr are COMMAND's. TIME is in seconds (30,\n"
    "0.5) or has units (250ms, 5s, 1m30s, 2h, 1d).\n"
    "\n"
    "Waiting\n"
    "  -n, --nonblock    do not wait\n"
    "  -w, --wait TIME, --timeout TIME\n"
    "                    wait at most so long; 0 is -n               [for ever]\n"
    "  -E, --conflict-exit-code N\n"
    "                    exit with N when the lock was not acquired  [1]\n"
    "      --fair        first come, first served among all hosts (and Java's\n"
    "                    RFairLock); all who use NAME must say so\n"
    "      --string      a string lock, which excludes redis-py's Lock and Go's\n"
    "                    redislock too; all who use NAME must say so\n"
    "Holding\n"
    "      --lease TIME  after a crash or a cut the lock is free after so long;\n"
    "                    renewed each third of it while COMMAND runs [30]\n"
    "      --max-hold TIME\n"
    "                    stop COMMAND after so long and release then [no limit]\n"
    "      --grace TIME  from SIGTERM to SIGKILL; half of the lease at most\n"
    "                                                                [a third of it]\n"
    "      --on-lost WORD\n"
    "                    what is done when the lock is being lost    [term]\n"
    "                    term: SIGTERM `grace` before the end of the lease, SIGKILL\n"
    "                    at its end; kill: SIGKILL at its end; warn: a line on\n"
    "                    stderr, no more\n"
    "      --fenced      with a fencing token for COMMAND, in HASPLOCK_TOKEN: a\n"
    "                    number larger than that of each earlier hold with --fenced\n"
    "      --wait-replicas N\n"
    "                    hold it once N replicas of the server know    [0]\n"
    "Running\n"
    "  -c, --command STR run STR by /bin/sh -c\n" SERVER
    "      --json        what hasplock says (on stderr) as one JSON object per line\n"
    "  -q, --quiet       errors only\n"
    "  -v, --verbose     say what is done\n"
    "\n"
    "When the lease cannot be renewed, COMMAND's process group gets SIGTERM `grace`\n"
    "before the lease can end, SIGKILL at its end; exit 75. When the lock is gone at\n"
    "once (broken by an operator, deleted), SIGKILL comes at once. So it does when\n"
    "hasplock itself stands still or dies. A terminal shows after a second whom\n"
    "hasplock waits for.\n"
    "\n"
    "Signals that can be caught are passed on to COMMAND; while still waiting, those\n"
    "that end a process end the wait and leave no trace. The lock is held until\n"
    "COMMAND itself has ended; what it left in the background runs on without it.\n"
    "\n"
    "COMMAND finds in its environment\n"
    "  HASPLOCK_NAME     NAME\n"
    "  HASPLOCK_OWNER    the holder as written in Redis\n"
    "  HASPLOCK_OWNERS   the same of all runs around it, so that a run within which\n"
    "                    would wait for one of them says so\n"
    "  HASPLOCK_TOKEN    with --fenced: the token\n"
    "  HASPLOCK_URL      the server that is used here; not there if it has a password\n"
    "  HASPLOCK_URL_FILE where the URL was read from, if it was\n"
    "\n"
    "Exit code\n"
    "  COMMAND's own, or 128+n when signal n ended it; else\n"
    "    1  not acquired in time (or -E)       75  COMMAND was stopped: lock lost or\n"
    "   64  usage, bad NAME, bad URL               at risk, or --max-hold over\n"
    "   69  no Redis there within 10 s (or     77  wrong password, missing right\n"
    "       -w; -n: 3 s)                      126  COMMAND cannot be executed\n"
    "   70  the server refused (says why)     127  COMMAND is not found\n"
    "   71  no process, no memory\n"
    "  Codes of COMMAND can look like ours: --json ends with\n"
    "  {\"event\":\"end\",...,\"by\":\"command|hasplock\",\"code\":N}.\n"
    "\n"
    "Examples\n"
    "  hasplock run -n backup:db1 -- pg_dump -f /backup/db1.sql db1\n"
    "  hasplock run -w 10 -E 0 nightly -- make report    skip when another is at it\n"
    "  hasplock run --max-hold 1h import -c 'fetch | load'\n";

const char help_show[] =
    "hasplock show [options] NAME\n"
    "\n"
    "Shows who holds the lock NAME, what is left of the lease, how many processes\n"
    "wait, and who is in the queue, the next one first, since when by the clock of\n"
    "its host:\n"
    "  nightly: held by web-3 pid 4711 (hold 12), ttl 27.1 s, 2 processes waiting\n"
    "    1. web-7 pid 812 (hold 3), since 2026-03-01 02:00:07\n"
    "    2. web-1 pid 20311 (hold 1), since 2026-03-01 02:00:09, fenced\n"
    "A Java holder (Redisson) is shown as written in Redis. Needs no rights but those\n"
    "of the lock itself. To decide on the answer (\"free? then I...\") is a race:\n"
    "hasplock run -n has none.\n"
    "\n"
    "      --watch[=TIME]\n"
    "                    look again so often, until a signal: a terminal shows the\n"
    "                    latest, elsewhere there is a new answer for each change [1]\n"
    "      --fair, --string\n"
    "                    NAME is a fair lock, or a string lock\n" SERVER ANSWER "\n"
    "JSON: {\"name\":...,\"held\":true,\"holder\":...,\"host\":...,\"pid\":...,\"hold\":...,\n"
    "\"count\":...,\"ttl_ms\":...,\"waiting\":...}, then for each of them {\"name\":...,\n"
    "\"position\":1,\"holder\":...,\"host\":...,\"pid\":...,\"hold\":...,\"since_ms\":...,\n"
    "\"fenced\":...}\n"
    "\n"
    "Exit code: 0 held, 1 free, 64 usage, 69 no server, 70 the server refused, 71 no\n"
    "memory, 74 stdout cannot be written, 77 wrong password or missing right.\n";

const char help_list[] =
    "hasplock list [options] [PREFIX]\n"
    "\n"
    "Names the locks that are held, those whose names begin with PREFIX (no patterns:\n"
    "each byte means itself), with holder, what is left of the lease, and how many\n"
    "wait:\n"
    "  backup:db1: held by web-3 pid 4711 (hold 12), ttl 27.1 s\n"
    "  nightly: held by web-7 pid 812 (hold 3), ttl 21.8 s, 2 waiting\n"
    "Looks at all keys of the server, a million at most, and says so when it stops.\n"
    "Needs two rights more than other commands: +scan +hlen (docs/acl.md).\n"
    "\n"
    "      --limit N     locks that are named, 1 to 100000 [1000]\n"
    "      --string      string locks, instead of all others: those that hasplock\n"
    "                    holds. Needs +scan +getrange\n" SERVER ANSWER "\n"
    "JSON: {\"name\":...,\"holder\":...,\"host\":...,\"pid\":...,\"hold\":...,\"count\":...,\n"
    "\"ttl_ms\":...,\"waiting\":...}\n"
    "\n"
    "Exit code: 0 done, 64 usage, 69 no server, 70 the server refused, 71 no memory,\n"
    "74 stdout cannot be written, 77 wrong password or missing right.\n";

const char help_break[] =
    "hasplock break [options] NAME\n"
    "\n"
    "Takes the lock NAME from whoever holds it, lets the next waiter have it, and\n"
    "says whom it took it from. Asks nothing. A hasplock run kills its COMMAND at\n"
    "once. A program that does not listen (HLK_OPEN_LISTEN), and Java, learns of it\n"
    "by its next renewal, a third of its lease later at most: until then two may be\n"
    "at work.\n"
    "\n"
    "      --fair, --string\n"
    "                    NAME is a fair lock, or a string lock: with --string any\n"
    "                    string is one\n" SERVER ANSWER "\n"
    "JSON: {\"name\":...,\"broken\":true,\"holder\":...,\"host\":...,\"pid\":...,\n"
    "\"hold\":...,\"ttl_ms\":...}\n"
    "\n"
    "Exit code: 0 broken, 1 nobody held it, 64 usage, 69 no server, 70 the server\n"
    "refused, 71 no memory, 74 stdout cannot be written, 77 wrong password or missing\n"
    "right.\n";

const char help_doctor[] =
    "hasplock doctor [options] [PREFIX]\n"
    "\n"
    "Examines the server that keeps the locks, and says for each point what was\n"
    "measured, what it means for locks, and what to do:\n"
    "  problem  eviction: maxmemory 100.0 MB, policy allkeys-lru\n"
    "           When memory is short the server deletes any key: a held lock, which\n"
    "           then two may hold until the first one's next renewal.\n"
    "           CONFIG SET maxmemory-policy noeviction, or a server of its own for\n"
    "           the locks.\n"
    "It looks at connection, rights, version, role, topology, eviction, persistence,\n"
    "replication, clock, latency and limits, in about two seconds. It changes nothing\n"
    "on the server. What this user may not ask for is not known, and said so.\n"
    "\n"
    "Rights are tried for a lock whose name begins with PREFIX. Those that are\n"
    "missing are printed as ACL SETUSER lines that grant them.\n"
    "\n"
    "      --fenced      rights for fenced locks are needed too\n"
    "      --fair        rights for fair locks are needed too\n"
    "      --string      rights for string locks are needed too\n"
    "      --spin        spin locks only: rights for pub/sub are not needed\n"
    "      --lease TIME  what latencies are compared with [30]\n" SERVER
    "      --json        one JSON object per line\n"
    "  -q, --quiet       warnings, problems and errors only\n"
    "  -v, --verbose     no effect\n"
    "\n"
    "JSON: {\"area\":...,\"level\":\"ok|note|warning|problem\",\"measured\":...,\n"
    "\"meaning\":...,\"advice\":...}, and at the end {\"ok\":...,\"notes\":...,\n"
    "\"warnings\":...,\"problems\":...,\"code\":...}\n"
    "\n"
    "Exit code: 0 nothing worse than a note, 1 warnings, 2 problems, 64 usage, 69 no\n"
    "server, 70 the server refused the connection, 71 no memory, 74 stdout cannot be\n"
    "written, 77 the login was refused.\n";
