/* The scripts, their arguments, and the states. A new script is a row here, a new family one of the list at the end. */
/* Shows: P1 */
#include "torture/table.h"

/* clang-format off */

/* What an acquire of any lock answers: the hold; a tombstone; busy. */
#define BUSY       "\\[:-?[0-9]+, \"[^\"]*\", :-?[0-9]+\\]"
#define BUSY_MORE  "\\[:-?[0-9]+, \"[^\"]*\", :-?[0-9]+(, :[01])+\\]"
#define QUERY      "\\[:-?[0-9]+, :-?[0-9]+, \"[^\"]*\", :[0-9]+, :[0-9]+, \\[.*\\]\\]"
#define BROKEN     "\\(nil\\)|\"[^\"]+\"|\\[\"[^\"]+\"\\]"
#define NO_RIGHT   "-NOPERM to list locks .*"
#define FOUND      "\\[:-?[0-9]+, :-?[0-9]+, :[0-9]+, :[0-9]+\\]"
#define KINDS                                                                                                          \
    "\\[\"[0-9]+\", :0(, \"[^\"]*\", :-?[0-9]+, \"[^\"]*\", :[0-9]+, :[0-9]+, :[0-9]+, :-?[0-9]+, "                    \
    "\"[^\"]*\", :[0-9]+)*\\]|" NO_RIGHT
#define GOT        "\"" ME "\"|:-1|"

/* --- a lock that is a hash: plain, fenced, spin, non-reentrant */

#define TICKET(hold, tokens) hold " 5000 " #tokens " 0 1700000000000"

static const struct torture_row plain_rows[] = {
    { HLK_SCRIPT_LOCK_ACQUIRE, "one try", LOCK "|" QUEUE, "30000|" ME, GOT BUSY },
    { HLK_SCRIPT_LOCK_ACQUIRE, "a wait", LOCK "|" QUEUE, "30000|" ME "|" TICKET(ME, 0), GOT BUSY },
    { HLK_SCRIPT_LOCK_ACQUIRE, "a fenced wait", LOCK "|" QUEUE "|" TOKEN, "30000|" ME "|" TICKET(ME, 8) "|8|0",
      "\\[:[0-9]+, \"" ME "\"\\]|:-1|" BUSY },
    { HLK_SCRIPT_LOCK_RELEASE, "the usual one", LOCK "|" QUEUE, ME "|" CHANNEL, ":[01]" },
    { HLK_SCRIPT_LOCK_RELEASE, "of a grant", LOCK "|" QUEUE "|" TOKEN, ME "|" CHANNEL "|5000", ":[01]" },
    { HLK_SCRIPT_LOCK_RELEASE, "with a yield window", LOCK "|" QUEUE "|" TOKEN, ME "|" CHANNEL "|0|100", ":[01]" },
    { HLK_SCRIPT_LOCK_RELEASE, "of a wait, in doubt", LOCK "|" QUEUE "|" TOKEN,
      ME "|" CHANNEL "|0|0|60000|" TICKET(ME, 0), ":[012]" },
    { HLK_SCRIPT_LOCK_REACQUIRE, "extend", LOCK, ME "|2|40000", "\"" ME "\"|:0|:-1" },
    { HLK_SCRIPT_LOCK_REACQUIRE, "one nested hold less", LOCK, ME "|1|0", "\"" ME "\"|:0|:-1" },
    { HLK_SCRIPT_LOCK_RENEW, "two, and a lease each", LOCK "|t2", ME "|" OTHER "|40000|30000",
      "\\[:-?[01], :-?[01], \"" ME "\"\\]" },
    { HLK_SCRIPT_LOCK_BATCH, "acquire", LOCK "|" QUEUE, "a|30000|" ME, "\\[(\"" ME "\"|:-2|" BUSY ")\\]" },
    { HLK_SCRIPT_LOCK_BATCH, "release, and an acquire", LOCK "|" QUEUE "|t2|hasplock_queue:{t2}",
      "ea|" ME "|" CHANNEL "|30000|" ME, "\\[(:-2|:[01]), (\"" ME "\"|:-2|" BUSY ")\\]" },
    { HLK_SCRIPT_LOCK_BATCH, "release with a yield window", LOCK "|" QUEUE, "o|" ME "|" CHANNEL, "\\[(:-2|:[01])\\]" },
    { HLK_SCRIPT_LOCK_BREAK, "by an operator", LOCK "|" QUEUE "|" TOKEN, CHANNEL, "\\(nil\\)|\"[^\"]+\"" },
    { HLK_SCRIPT_LOCK_BREAK, "of the caller's hold", LOCK "|" QUEUE "|" TOKEN, CHANNEL "|" ME, BROKEN },
    { HLK_SCRIPT_LOCK_QUERY, "of three waiters", LOCK "|" QUEUE, CHANNEL "|3", QUERY },
    { HLK_SCRIPT_PROBE, "", "", "hasplock_probe:{c}|1", "\\[\"probe\", \"\", \"[0-9a-f]{40}\", \"[0-9]+\"\\]" },
    { HLK_SCRIPT_LOCK_LIST, "all", "", "0|*|1000",
      "\\[\"[0-9]+\", :0(, \"[^\"]*\", :-?[0-9]+, \"[^\"]*\", :[0-9]+, :[0-9]+)*\\]|" NO_RIGHT },
    { HLK_SCRIPT_LOCK_LIST, "every kind", "", "0|t|1000|every", KINDS },
    { HLK_SCRIPT_LOCK_FIND, "", LOCK, "", FOUND },
    { HLK_SCRIPT_LOCK_ASK, "a holder", LOCK, OTHER, ":[0-9]+" },
    { HLK_SCRIPT_LOCK_ASK, "Redisson's", LOCK, JAVA, ":-1" },
    { HLK_SCRIPT_LOCK_NOTE, "of the caller", MY_NOTE, "", "\\(nil\\)|\\[\"[^\"]*\", :[0-9]+\\]" },
    { HLK_SCRIPT_LOCK_LIST, "strings", "", "0|*|1000|string",
      "\\[\"[0-9]+\", :0(, \"[^\"]*\", :-?[0-9]+, \"[^\"]*\", :[0-9]+, :[0-9]+)*\\]|" NO_RIGHT },
    { 0 }
};

#define HELD(by) "HSET|" LOCK "|" by "|1;PEXPIRE|" LOCK "|30000;"
#define QUEUED(who) "ZADD|" QUEUE "|$$0|" TICKET(who, 0) ";PEXPIRE|" QUEUE "|300000;"
#define WINDOW "ZADD|" QUEUE "|$1e15+500|open;PEXPIRE|" QUEUE "|300000;"
#define TOMBSTONE "ZADD|" QUEUE "|$2e15|" ME ";PEXPIRE|" QUEUE "|300000;"

static const struct torture_state plain_states[] = {
    { "free", "" },
    { "held by the caller", HELD(ME) },
    { "held by the caller, with a note", HELD(ME) "SET|" MY_NOTE "|0 30000|PX|30000;" },
    { "held by another", HELD(OTHER) },
    { "held by another, and the caller waits", HELD(OTHER) QUEUED(ME) },
    { "held by Redisson's", HELD(JAVA) },
    { "held by Redisson's, and the caller waits before another", HELD(JAVA) QUEUED(ME) QUEUED(OTHER) },
    { "held by the caller, and another waits", HELD(ME) QUEUED(OTHER) },
    { "held by the caller, another waits, and a window", HELD(ME) QUEUED(OTHER) WINDOW },
    { "held by the caller, and a waiter takes tokens",
      HELD(ME) "ZADD|" QUEUE "|$$0|" TICKET(OTHER, 8) ";PEXPIRE|" QUEUE "|300000;SET|" TOKEN "|41;" },
    { "free, and another waits", QUEUED(OTHER) },
    { "free, and the caller waits", QUEUED(ME) },
    { "free, with a window", WINDOW },
    { "free, with a window, and both wait", QUEUED(OTHER) QUEUED(ME) WINDOW },
    { "free, with a tombstone of the caller", TOMBSTONE },
    { "held by the caller, with its tombstone", HELD(ME) TOMBSTONE },
    { "free, and 200 dead wait before another", "DEAD|200;" QUEUED(OTHER) },
    { "free, and 200 dead wait before the caller", "DEAD|200;" QUEUED(ME) },
    { "held by the caller, and 200 dead wait before another", HELD(ME) "DEAD|200;" QUEUED(OTHER) },
    { "held by another, and 200 dead wait before the caller", HELD(OTHER) "DEAD|200;" QUEUED(ME) },
    { "held by Redisson's, and 200 dead wait before both", HELD(JAVA) "DEAD|200;" QUEUED(ME) QUEUED(OTHER) },
    { "held by the caller, and 1,500 dead wait", HELD(ME) "DEAD|1500;" },
    { NULL, NULL }
};

static const struct torture_state plain_numbers[] = {
    { "the caller's count", "HSET|" LOCK "|" ME "|%s;PEXPIRE|" LOCK "|30000;" QUEUED(OTHER) },
    { "Redisson's count", "HSET|" LOCK "|" JAVA "|%s;PEXPIRE|" LOCK "|30000;" QUEUED(ME) },
    { "the counter of tokens", "SET|" TOKEN "|%s;" QUEUED(ME) },
    { "the counter, for the next", HELD(ME) "SET|" TOKEN "|%s;ZADD|" QUEUE "|$$0|" TICKET(OTHER, 8) ";" },
    { "the ticket's score", HELD(ME) "ZADD|" QUEUE "|%s|" TICKET(OTHER, 0) ";PEXPIRE|" QUEUE "|300000;" },
    { "its own ticket's score", "ZADD|" QUEUE "|%s|" TICKET(ME, 0) ";PEXPIRE|" QUEUE "|300000;" },
    { "the window", QUEUED(OTHER) "ZADD|" QUEUE "|%s|open;PEXPIRE|" QUEUE "|300000;" },
    { "the ticket's ttl", HELD(ME) "ZADD|" QUEUE "|1|" OTHER " %s 0 0 1;PEXPIRE|" QUEUE "|300000;" },
    { NULL, NULL }
};

#define ONE_HOLDER                                                                                                     \
    "if redis.call('type', 't').ok == 'hash' and redis.call('hlen', 't') > 1 then return 'two holders' end"

const struct torture_family torture_plain = {
    .name = "plain", .rows = plain_rows, .states = plain_states, .numbers = plain_numbers,
    .dead = "hlk-dead-1-x:%d 5000 0 0 1", .dead_at = QUEUE,
    .shared_keys = LOCK "|" TOKEN, .own_keys = QUEUE, .may_lack_ttl = TOKEN, .may_lose_ttl = "", .unsound = ONE_HOLDER,
};

/* --- fair */

#define FAIR_KEYS LOCK "|" FAIR_QUEUE "|" FAIR_SCORES "|" FAIR_NOTES
#define FAIR_BUSY "\\[:-?[0-9]+, \"[^\"]*\", :-?[0-9]+, :[01](, :1)?\\]"

static const struct torture_row fair_rows[] = {
    { HLK_SCRIPT_FAIR_ACQUIRE, "one try", FAIR_KEYS "|" QUEUE, "30000|" ME "|" CHANNEL, GOT FAIR_BUSY },
    { HLK_SCRIPT_FAIR_ACQUIRE, "a wait", FAIR_KEYS "|" QUEUE, "30000|" ME "|" CHANNEL "|5000", GOT FAIR_BUSY },
    { HLK_SCRIPT_FAIR_ACQUIRE, "a wait for a fixed lease", FAIR_KEYS "|" QUEUE, "30000|" ME "|" CHANNEL "|30000",
      GOT FAIR_BUSY },
    { HLK_SCRIPT_FAIR_RELEASE, "the usual one", FAIR_KEYS "|" QUEUE, ME "|" CHANNEL, ":[013]" },
    { HLK_SCRIPT_FAIR_RELEASE, "of a wait, in doubt", FAIR_KEYS "|" QUEUE, ME "|" CHANNEL "|60000|1", ":[0123]" },
    { HLK_SCRIPT_FAIR_BREAK, "by an operator", FAIR_KEYS, CHANNEL, "\\(nil\\)|\"[^\"]+\"" },
    { HLK_SCRIPT_FAIR_BREAK, "of the caller's hold", FAIR_KEYS, CHANNEL "|" ME, BROKEN },
    { HLK_SCRIPT_FAIR_QUERY, "of three waiters", LOCK "|" FAIR_QUEUE, "3", QUERY },
    { 0 }
};

#define FAIR_WAITS(who)                                                                                                \
    "RPUSH|" FAIR_QUEUE "|" who ";ZADD|" FAIR_SCORES "|$450000|" who ";PEXPIRE|" FAIR_QUEUE "|600000;"             \
    "PEXPIRE|" FAIR_SCORES "|600000;"
#define NOTE(score, text) "ZADD|" FAIR_NOTES "|" score "|" text ";PEXPIRE|" FAIR_NOTES "|60000;"

static const struct torture_state fair_states[] = {
    { "free", "" },
    { "held by the caller", HELD(ME) },
    { "held by another, and the caller waits", HELD(OTHER) FAIR_WAITS(ME) },
    { "held by Redisson's, and the caller waits before another", HELD(JAVA) FAIR_WAITS(ME) FAIR_WAITS(OTHER) },
    { "held by the caller, and another waits", HELD(ME) FAIR_WAITS(OTHER) },
    { "held by the caller, and another waits for a fixed lease", HELD(ME) FAIR_WAITS(OTHER) NOTE("30000", OTHER) },
    { "held by the caller, and Redisson's waits before another", HELD(ME) FAIR_WAITS(JAVA) FAIR_WAITS(OTHER) },
    { "free, and Redisson's waits before the caller", FAIR_WAITS(JAVA) FAIR_WAITS(ME) },
    { "free, and another waits before the caller", FAIR_WAITS(OTHER) FAIR_WAITS(ME) },
    { "free, and a waiter that is away is before the caller",
      FAIR_WAITS(GONE) FAIR_WAITS(ME) NOTE("$500", "away hlk-dead-1-x") },
    { "free, and a waiter of Redisson's was called",
      FAIR_WAITS(JAVA) FAIR_WAITS(ME) "ZADD|" FAIR_SCORES "|9000000000000|" JAVA ";"
      NOTE("$5000", "called " JAVA " 9000000000000") NOTE("$2000", "absent " JAVA " 9000000000000") },
    { "free, with a tombstone of the caller",
      "ZADD|" FAIR_NOTES "|-1700000000000|" ME ";PEXPIRE|" FAIR_NOTES "|60000;" },
    { "held by the caller, and 200 dead wait before another",
      HELD(ME) "DEAD|200;" FAIR_WAITS(OTHER) NOTE("$-500", "away hlk-dead-1-x") },
    { "free, and 200 dead wait before the caller", "DEAD|200;" FAIR_WAITS(ME) NOTE("$-500", "away hlk-dead-1-x") },
    { "held by another, and 200 dead wait before the caller",
      HELD(OTHER) "DEAD|200;" FAIR_WAITS(ME) NOTE("$-500", "away hlk-dead-1-x") },
    { "held by the caller, and only plain locks of this name wait", HELD(ME) QUEUED(OTHER) },
    { NULL, NULL }
};

static const struct torture_state fair_numbers[] = {
    { "the caller's count", "HSET|" LOCK "|" ME "|%s;PEXPIRE|" LOCK "|30000;" FAIR_WAITS(OTHER) },
    { "the waiter's score", HELD(ME) FAIR_WAITS(OTHER) "ZADD|" FAIR_SCORES "|%s|" OTHER ";" },
    { "the caller's score", HELD(OTHER) FAIR_WAITS(JAVA) FAIR_WAITS(ME) "ZADD|" FAIR_SCORES "|%s|" ME ";" },
    { "Redisson's score", FAIR_WAITS(JAVA) FAIR_WAITS(ME) "ZADD|" FAIR_SCORES "|%s|" JAVA ";" },
    { "the ttl of a grant", HELD(ME) FAIR_WAITS(OTHER) NOTE("%s", OTHER) },
    { "since when it is away", FAIR_WAITS(GONE) FAIR_WAITS(ME) NOTE("%s", "away hlk-dead-1-x") },
    { NULL, NULL }
};

const struct torture_family torture_fair = {
    .name = "fair", .rows = fair_rows, .states = fair_states, .numbers = fair_numbers,
    .dead = "hlk-dead-1-x:%d", .dead_at = FAIR_QUEUE,
    .shared_keys = LOCK, .own_keys = FAIR_QUEUE "|" FAIR_SCORES "|" FAIR_NOTES "|" QUEUE, .may_lack_ttl = "",
    .may_lose_ttl = FAIR_QUEUE "|" FAIR_SCORES, .unsound = ONE_HOLDER,
};

/* --- string */

static const struct torture_row string_rows[] = {
    { HLK_SCRIPT_STRING_ACQUIRE, "one try", LOCK "|" QUEUE, "30000|" ME, GOT BUSY },
    { HLK_SCRIPT_STRING_ACQUIRE, "a wait", LOCK "|" QUEUE, "30000|" ME "|" TICKET(ME, 0), GOT BUSY },
    { HLK_SCRIPT_STRING_RELEASE, "the usual one", LOCK "|" QUEUE, ME, ":[01]" },
    { HLK_SCRIPT_STRING_RELEASE, "of a wait, in doubt", LOCK "|" QUEUE, ME "|60000|" TICKET(ME, 0), ":[012]" },
    { HLK_SCRIPT_STRING_EXTEND, "longer", LOCK, ME "|1|40000", "\"" ME "\"|:0|:-1" },
    { HLK_SCRIPT_STRING_EXTEND, "for replicas", LOCK, ME "|1|0", "\"" ME "\"|:0|:-1" },
    { HLK_SCRIPT_STRING_RENEW, "two", LOCK "|t2", ME "|" OTHER "|40000", "\\[:-?[01], :-?[01], \"" ME "\"\\]" },
    { HLK_SCRIPT_STRING_BREAK, "by an operator", LOCK "|" QUEUE, "", "\\(nil\\)|\"[^\"]+\"" },
    { HLK_SCRIPT_STRING_BREAK, "of the caller's hold", LOCK "|" QUEUE, ME, BROKEN },
    { HLK_SCRIPT_STRING_QUERY, "of three waiters", LOCK "|" QUEUE, "3", QUERY },
    { HLK_SCRIPT_LOCK_LIST, "every kind", "", "0|t|1000|every", KINDS },
    { HLK_SCRIPT_LOCK_FIND, "", LOCK, "", FOUND },
    { 0 }
};

#define HELD_S(by) "SET|" LOCK "|" by "|PX|30000;"

static const struct torture_state string_states[] = {
    { "free", "" },
    { "held by the caller", HELD_S(ME) },
    { "held by another, and the caller waits", HELD_S(OTHER) QUEUED(ME) },
    { "held by a foreign client, and the caller waits before another", HELD_S("token") QUEUED(ME) QUEUED(OTHER) },
    { "held by the caller, and another waits", HELD_S(ME) QUEUED(OTHER) },
    { "free, and another waits", QUEUED(OTHER) },
    { "free, with a tombstone of the caller", TOMBSTONE },
    { "free, and 200 dead wait before another", "DEAD|200;" QUEUED(OTHER) },
    { "held by the caller, and 200 dead wait before another", HELD_S(ME) "DEAD|200;" QUEUED(OTHER) },
    { "held by another, and 200 dead wait before the caller", HELD_S(OTHER) "DEAD|200;" QUEUED(ME) },
    { NULL, NULL }
};

static const struct torture_state string_numbers[] = {
    { "the token", HELD_S("%s") QUEUED(ME) },
    { "the ticket's score", HELD_S(ME) "ZADD|" QUEUE "|%s|" TICKET(OTHER, 0) ";PEXPIRE|" QUEUE "|300000;" },
    { "the ticket's ttl", HELD_S(ME) "ZADD|" QUEUE "|1|" OTHER " %s 0 0 1;PEXPIRE|" QUEUE "|300000;" },
    { NULL, NULL }
};

const struct torture_family torture_string = {
    .name = "string", .rows = string_rows, .states = string_states, .numbers = string_numbers,
    .dead = "hlk-dead-1-x:%d 5000 0 0 1", .dead_at = QUEUE,
    .shared_keys = LOCK, .own_keys = QUEUE, .may_lack_ttl = "", .may_lose_ttl = "", .unsound = "",
};

/* --- read/write */

#define RW_TICKET(hold, kind) hold " 5000 0 0 1700000000000 " kind
#define READER LOCK "|" RW_QUEUE "|" READS
#define WRITER LOCK "|" RW_QUEUE

static const struct torture_row rw_rows[] = {
    { HLK_SCRIPT_RW_ACQUIRE, "one try to read", READER, "30000|" ME "|r", GOT BUSY_MORE },
    { HLK_SCRIPT_RW_ACQUIRE, "a wait to read", READER, "30000|" ME "|r|" RW_TICKET(ME, "r"), GOT BUSY_MORE },
    { HLK_SCRIPT_RW_ACQUIRE, "to read beside its write", READER, "30000|" ME "|r|" RW_TICKET(ME, "r") "|" OTHER,
      GOT BUSY_MORE },
    { HLK_SCRIPT_RW_ACQUIRE, "to read and share", READER, "30000|" ME "|r|||1", "\"" ME "(:shared)?\"|:-1|" BUSY_MORE },
    { HLK_SCRIPT_RW_ACQUIRE, "one try to write", WRITER, "30000|" ME "|w", GOT BUSY_MORE },
    { HLK_SCRIPT_RW_ACQUIRE, "a wait to write", WRITER, "30000|" ME "|w|" RW_TICKET(ME, "w"), GOT BUSY_MORE },
    { HLK_SCRIPT_RW_RELEASE, "of a read", READER, ME "|r", ":[01]" },
    { HLK_SCRIPT_RW_RELEASE, "of a wait to read, in doubt", READER, ME "|r|0|60000|" RW_TICKET(ME, "r"), ":[012]" },
    { HLK_SCRIPT_RW_RELEASE, "of a write", WRITER, ME "|w", ":[01]" },
    { HLK_SCRIPT_RW_RELEASE, "of a write, with a yield window", WRITER, ME "|w|100", ":[01]" },
    { HLK_SCRIPT_RW_RELEASE, "of a wait to write, in doubt", WRITER, ME "|w|0|60000|" RW_TICKET(ME, "w"), ":[012]" },
    { HLK_SCRIPT_RW_REACQUIRE, "extend a read", LOCK "|" READS, ME "|2|40000", "\"" ME "\"|:0" },
    { HLK_SCRIPT_RW_REACQUIRE, "one nested read less", LOCK "|" READS, ME "|1|0", "\"" ME "\"|:0" },
    { HLK_SCRIPT_RW_RENEW, "two reads", LOCK "|{t}b|" READS "|{t}b:" OTHER ":rwlock_timeout:1",
      ME "|" OTHER "|40000|30000",
      "\\[:-?[01], :-?[01], \"" ME "\"\\]" },
    { HLK_SCRIPT_RW_BREAK, "of the readers", WRITER, "read", "\\(nil\\)|\"[^\"]+\"" },
    { HLK_SCRIPT_RW_BREAK, "of the writer", WRITER, "write", "\\(nil\\)|\"[^\"]+\"" },
    { HLK_SCRIPT_RW_BREAK, "of the caller's read", WRITER, "read|" ME, BROKEN },
    { HLK_SCRIPT_RW_BREAK, "of the caller's write", WRITER, "write|" ME, BROKEN },
    { HLK_SCRIPT_RW_QUERY, "of the readers", WRITER, "r|3", QUERY },
    { HLK_SCRIPT_RW_QUERY, "of the writer", WRITER, "w|3", QUERY },
    { HLK_SCRIPT_LOCK_LIST, "every kind", "", "0|t|1000|every", KINDS },
    { HLK_SCRIPT_LOCK_FIND, "", LOCK, "", FOUND },
    { 0 }
};

#define WRITES(who) "HSET|" LOCK "|mode|write|" who ":write|1;PEXPIRE|" LOCK "|30000;"
#define READS_(who)                                                                                                    \
    "HSET|" LOCK "|mode|read|" who "|1;PEXPIRE|" LOCK "|30000;SET|{t}:" who ":rwlock_timeout:1|1|PX|30000;"
#define RW_QUEUED(who, kind) "ZADD|" RW_QUEUE "|$$0|" RW_TICKET(who, kind) ";PEXPIRE|" RW_QUEUE "|300000;"

static const struct torture_state rw_states[] = {
    { "free", "" },
    { "written by the caller", WRITES(ME) },
    { "read by the caller", READS_(ME) },
    { "read by the caller and another", READS_(OTHER) READS_(ME) },
    { "read by the caller and Redisson's", READS_(JAVA) READS_(ME) },
    { "written by another, and the caller waits to read", WRITES(OTHER) RW_QUEUED(ME, "r") },
    { "read by another, and the caller waits to write", READS_(OTHER) RW_QUEUED(ME, "w") },
    { "read by Redisson's, and both wait to write", READS_(JAVA) RW_QUEUED(ME, "w") RW_QUEUED(OTHER, "w") },
    { "written by the caller, and another waits to read", WRITES(ME) RW_QUEUED(OTHER, "r") },
    { "read by the caller, and another waits to write", READS_(ME) RW_QUEUED(OTHER, "w") },
    { "written by the caller's other hold, and it waits to read",
      WRITES(OTHER) RW_QUEUED(ME, "r") RW_QUEUED(GONE, "w") },
    { "written and read by the caller", WRITES(ME) "HSET|" LOCK "|" ME "|1;SET|" READS "|1|PX|30000;" },
    { "free, and another waits to write", RW_QUEUED(OTHER, "w") },
    { "free, with a window, and both wait", RW_QUEUED(OTHER, "w") RW_QUEUED(ME, "r")
      "ZADD|" RW_QUEUE "|$1e15+500|open;" },
    { "free, with a tombstone of the caller", "ZADD|" RW_QUEUE "|$2e15|" ME ";PEXPIRE|" RW_QUEUE "|300000;" },
    { "free, and 200 dead wait before another", "DEAD|200;" RW_QUEUED(OTHER, "w") },
    { "written by the caller, and 200 dead wait before another", WRITES(ME) "DEAD|200;" RW_QUEUED(OTHER, "r") },
    { "read by another, and 200 dead wait before the caller", READS_(OTHER) "DEAD|200;" RW_QUEUED(ME, "w") },
    { NULL, NULL }
};

static const struct torture_state rw_numbers[] = {
    { "the writer's count", "HSET|" LOCK "|mode|write|" ME ":write|%s;PEXPIRE|" LOCK "|30000;" RW_QUEUED(OTHER, "r") },
    { "the reader's count", READS_(OTHER) READS_(ME) "HSET|" LOCK "|" ME "|%s;" },
    { "another reader's count", READS_(OTHER) READS_(ME) "HSET|" LOCK "|" OTHER "|%s;" },
    { "the ticket's score", WRITES(ME) "ZADD|" RW_QUEUE "|%s|" RW_TICKET(OTHER, "r") ";PEXPIRE|" RW_QUEUE "|300000;" },
    { "the window", RW_QUEUED(OTHER, "w") "ZADD|" RW_QUEUE "|%s|open;" },
    { "the ticket's ttl", WRITES(ME) "ZADD|" RW_QUEUE "|1|" OTHER " %s 0 0 1 r;PEXPIRE|" RW_QUEUE "|300000;" },
    { NULL, NULL }
};

/* One writer, and beside it only its own reads; or readers. */
#define RW_UNSOUND                                                                                                     \
    "if redis.call('type', 't').ok ~= 'hash' or not redis.call('hget', 't', 'mode') then return end "                  \
    "local writers, mode = 0, redis.call('hget', 't', 'mode') "                                                        \
    "for _, field in ipairs(redis.call('hkeys', 't')) do "                                                             \
    "writers = writers + (string.sub(field, -6) == ':write' and 1 or 0) end "                                          \
    "if writers ~= (mode == 'write' and 1 or 0) then return writers .. ' writers in mode ' .. mode end "               \
    "if redis.call('hlen', 't') == 1 then return 'a mode and nobody' end"

const struct torture_family torture_rw = {
    .name = "rw", .rows = rw_rows, .states = rw_states, .numbers = rw_numbers,
    .dead = "hlk-dead-1-x:%d 5000 0 0 1 w", .dead_at = RW_QUEUE,
    .shared_keys = LOCK, .own_keys = RW_QUEUE, .may_lack_ttl = "", .may_lose_ttl = "", .unsound = RW_UNSOUND,
};

/* --- semaphore */

#define SEMAPHORE LOCK "|" QUEUE

static const struct torture_row semaphore_rows[] = {
    { HLK_SCRIPT_SEMAPHORE_ACQUIRE, "one try", SEMAPHORE, "1|" ME "||", GOT BUSY },
    { HLK_SCRIPT_SEMAPHORE_ACQUIRE, "a wait", SEMAPHORE, "1|" ME "|3 4|" TICKET(ME, 1), GOT BUSY },
    { HLK_SCRIPT_SEMAPHORE_ACQUIRE, "a wait for two", SEMAPHORE, "2|" ME "||" TICKET(ME, 2), GOT BUSY },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "release", SEMAPHORE, "release|1|" ME "|" SC_CHANNEL "|3 4|0|0", ":1" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "release with a window", SEMAPHORE, "release|1|" ME "|" SC_CHANNEL "||0|100", ":1" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "release_if", SEMAPHORE, "release_if|1|" ME "|" SC_CHANNEL "|3 4|0", ":[01]" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "settle", SEMAPHORE, "settle|0|" ME "|" SC_CHANNEL "|3 4|0", ":1" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "try_set", SEMAPHORE, "try_set|3|" ME "|" SC_CHANNEL "||0", ":[01]" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "try_set with a ttl", SEMAPHORE, "try_set|3|" ME "|" SC_CHANNEL "||60000", ":[01]" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "add", SEMAPHORE, "add|3|" ME "|" SC_CHANNEL "||0", ":-?[0-9]+" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "drain", SEMAPHORE, "drain|0|" ME "|" SC_CHANNEL "||0", ":[0-9]+" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "delete", SEMAPHORE, "delete|0|" ME "|" SC_CHANNEL "||0", ":[01]" },
    { HLK_SCRIPT_SEMAPHORE_CHANGE, "get", SEMAPHORE, "get|0|" ME "|" SC_CHANNEL "||0", ":-?[0-9]+" },
    { HLK_SCRIPT_SEMAPHORE_CONFIRM, "for replicas", SEMAPHORE, ME, ":0|\"" ME "\"" },
    { HLK_SCRIPT_SEMAPHORE_END, "of a wait", SEMAPHORE, "1|" ME "|" SC_CHANNEL "|0|" TICKET(ME, 1), ":[012]" },
    { HLK_SCRIPT_SEMAPHORE_END, "in doubt", SEMAPHORE, "1|" ME "|" SC_CHANNEL "|60000|" TICKET(ME, 1), ":[012]" },
    { 0 }
};

#define HAS(n) "SET|" LOCK "|" n ";"
#define WAITS(who) "ZADD|" QUEUE "|$$0|" TICKET(who, 1) ";PEXPIRE|" QUEUE "|660000;"
#define CALLED(who) "ZADD|" QUEUE "|$1e15|" TICKET(who, 1) ";PEXPIRE|" QUEUE "|660000;"
#define MARK(band, member) "ZADD|" QUEUE "|$" band "|" member ";PEXPIRE|" QUEUE "|660000;"

static const struct torture_state semaphore_states[] = {
    { "unset", "" },
    { "three free", HAS("3") },
    { "three free, for a minute", "SET|" LOCK "|3|PX|60000;" },
    { "none free", HAS("0") },
    { "less than none", HAS("-2") },
    { "three free, and the caller has taken", HAS("3") MARK("3e15", ME) },
    { "three free, with a tombstone of the caller", HAS("3") MARK("2e15", ME) },
    { "none free, and both wait", HAS("0") WAITS(OTHER) WAITS(ME) },
    { "one free, and both wait", HAS("1") WAITS(OTHER) WAITS(ME) },
    { "one free, and the caller was called", HAS("1") CALLED(ME) },
    { "one free, and another was called", HAS("1") CALLED(OTHER) WAITS(ME) },
    { "none free, and the caller was called", HAS("0") CALLED(ME) },
    { "one free, with a window", HAS("1") WAITS(ME) MARK("4e15+500", "open") },
    { "one free, and a client listens", HAS("1") WAITS(ME) MARK("5e15", "listens hlk-a-1-x") },
    { "three free, and 200 dead wait", HAS("3") "DEAD|200;" },
    { "three free, and 200 dead wait before both", HAS("3") "DEAD|200;" WAITS(OTHER) WAITS(ME) },
    { "none free, and 200 dead wait before both", HAS("0") "DEAD|200;" WAITS(OTHER) WAITS(ME) },
    { "one free, the caller was called, and 200 dead wait", HAS("1") "DEAD|200;" CALLED(ME) },
    { NULL, NULL }
};

static const struct torture_state semaphore_numbers[] = {
    { "the permits", HAS("%s") WAITS(OTHER) },
    { "the ticket's number", HAS("3") "ZADD|" QUEUE "|1|" OTHER " 5000 %s 0 1;PEXPIRE|" QUEUE "|660000;" },
    { "the ticket's score", HAS("3") "ZADD|" QUEUE "|%s|" TICKET(OTHER, 1) ";PEXPIRE|" QUEUE "|660000;" },
    { "its own ticket's score", HAS("0") "ZADD|" QUEUE "|%s|" TICKET(ME, 1) ";PEXPIRE|" QUEUE "|660000;" },
    { "the window", HAS("1") WAITS(ME) "ZADD|" QUEUE "|%s|open;" },
    { "its own note", HAS("1") "ZADD|" QUEUE "|%s|" ME ";PEXPIRE|" QUEUE "|660000;" },
    { NULL, NULL }
};

const struct torture_family torture_semaphore = {
    .name = "semaphore", .rows = semaphore_rows, .states = semaphore_states, .numbers = semaphore_numbers,
    .dead = "hlk-dead-1-x:%d 5000 1 0 1", .dead_at = QUEUE,
    .shared_keys = LOCK, .own_keys = QUEUE, .may_lack_ttl = LOCK, .may_lose_ttl = "",
    .persisting_use = "add", .unsound = "",
};

/* --- permits with leases */

#define PERMITS LOCK "|" QUEUE "|" LEASES

static const struct torture_row permit_rows[] = {
    { HLK_SCRIPT_PERMIT_ACQUIRE, "one try", PERMITS, "30000|" ME "|" SC_CHANNEL "|0|", GOT BUSY_MORE },
    { HLK_SCRIPT_PERMIT_ACQUIRE, "a wait", PERMITS, "30000|" ME "|" SC_CHANNEL "|0|" TICKET(ME, 0), GOT BUSY_MORE },
    { HLK_SCRIPT_PERMIT_ACQUIRE, "a wait for one of two", PERMITS, "30000|" ME "|" SC_CHANNEL "|2|" TICKET(ME, 0),
      GOT BUSY_MORE "|-HASPLOCK the key is the number .*" },
    { HLK_SCRIPT_PERMIT_RELEASE, "the usual one", PERMITS, ME "|" SC_CHANNEL "|0|0|", ":[012]" },
    { HLK_SCRIPT_PERMIT_RELEASE, "of the last one", PERMITS, ME "|" SC_CHANNEL "|0|0||1", ":[012]" },
    { HLK_SCRIPT_PERMIT_RELEASE, "with a window", PERMITS, ME "|" SC_CHANNEL "|100|0|", ":[012]" },
    { HLK_SCRIPT_PERMIT_RELEASE, "of a wait, in doubt", PERMITS,
      ME "|" SC_CHANNEL "|0|60000|" TICKET(ME, 0), ":[012]" },
    { HLK_SCRIPT_PERMIT_EXTEND, "longer", LEASES, ME "|1|40000", "\"" ME "\"|:0" },
    { HLK_SCRIPT_PERMIT_EXTEND, "for replicas", LEASES, ME "|1|0", "\"" ME "\"|:0" },
    { HLK_SCRIPT_PERMIT_RENEW, "two", LEASES "|{t2}:timeout", ME "|" OTHER "|40000",
      "\\[:-?[01], :-?[01], \"" ME "\"\\]" },
    { HLK_SCRIPT_PERMIT_CHANGE, "try_set", PERMITS, "try_set|3|" SC_CHANNEL, ":[01]" },
    { HLK_SCRIPT_PERMIT_CHANGE, "set", PERMITS, "set|2|" SC_CHANNEL, ":1" },
    { HLK_SCRIPT_PERMIT_CHANGE, "add", PERMITS, "add|1|" SC_CHANNEL, ":1" },
    { HLK_SCRIPT_PERMIT_CHANGE, "delete", PERMITS, "delete|0|" SC_CHANNEL, ":1|:0|:-[0-9]+" },
    { HLK_SCRIPT_PERMIT_CHANGE, "get", PERMITS, "get|0|" SC_CHANNEL, "\\[:-?[0-9]+, :[0-9]+, :[0-9]+\\]" },
    { HLK_SCRIPT_PERMIT_QUERY, "of three waiters", PERMITS, "3|" SC_CHANNEL "|" ME, QUERY },
    { HLK_SCRIPT_LOCK_LIST, "numbers, too", "", "0|t|1000|numbers", KINDS },
    { HLK_SCRIPT_LOCK_FIND, "", LOCK, "", FOUND },
    { 0 }
};

#define LEASE(who, ends) "ZADD|" LEASES "|" ends "|" who ";"

static const struct torture_state permit_states[] = {
    { "unset", "" },
    { "two free", HAS("2") },
    { "two free, set by hasplock", "SET|" LOCK "|2|PX|3153600000000;" },
    { "none free, set by hasplock, and the caller has one", "SET|" LOCK "|0|PX|3153600000000;" LEASE(ME, "$30000") },
    { "three free, set by hasplock, and another waits", "SET|" LOCK "|3|PX|3153600000000;" QUEUED(OTHER) },
    { "one free, and the caller has one", HAS("1") LEASE(ME, "$30000") },
    { "none free, and the caller has one", HAS("0") LEASE(ME, "$30000") },
    { "none free, the caller has one, and another waits", HAS("0") LEASE(ME, "$30000") QUEUED(OTHER) },
    { "none free, the caller has one, another waits, for a minute",
      "SET|" LOCK "|0|PX|60000;" LEASE(ME, "$30000") "PEXPIRE|" LEASES "|60000;" QUEUED(OTHER) },
    { "none free, the caller's lease is over, for a minute",
      "SET|" LOCK "|0|PX|60000;" LEASE(ME, "$-500") "PEXPIRE|" LEASES "|60000;" },
    { "none free, the caller and Redisson's have one", HAS("0") LEASE(ME, "$30000") LEASE(JAVA, "$30000") },
    { "none free, the caller's lease is over", HAS("0") LEASE(ME, "$-500") },
    { "none free, one lease has no end", HAS("0") LEASE(OTHER, "922337203685477") QUEUED(ME) },
    { "less than none", HAS("-1") LEASE(ME, "$30000") },
    { "one free, with a window, and both wait", HAS("1") QUEUED(OTHER) QUEUED(ME) MARK("1e15+500", "open") },
    { "none free, the caller has one, with a window",
      HAS("0") LEASE(ME, "$30000") QUEUED(OTHER) MARK("1e15+500", "open") },
    { "two free, with a tombstone of the caller", HAS("2") MARK("2e15", ME) },
    { "none free, the caller and Redisson's have one, and a client listens",
      HAS("0") LEASE(ME, "$30000") LEASE(JAVA, "$30000") QUEUED(OTHER) MARK("3e15+1000", "listens hlk-b-2-y") },
    { "two free, and only a note is in the queue", HAS("2") MARK("3e15+1000", "listens hlk-b-2-y") },
    { "two free, and 200 dead wait", HAS("2") "DEAD|200;" },
    { "two free, and 200 dead wait before both", HAS("2") "DEAD|200;" QUEUED(OTHER) QUEUED(ME) },
    { "none free, the caller has one, and 200 dead wait before another",
      HAS("0") LEASE(ME, "$30000") "DEAD|200;" QUEUED(OTHER) },
    { NULL, NULL }
};

static const struct torture_state permit_numbers[] = {
    { "the free ones", HAS("%s") QUEUED(OTHER) },
    { "the free ones, and the caller has one", HAS("%s") LEASE(ME, "$30000") },
    { "the caller's lease", HAS("0") LEASE(ME, "%s") QUEUED(OTHER) },
    { "another's lease", HAS("0") LEASE(OTHER, "%s") QUEUED(ME) },
    { "the window", HAS("1") QUEUED(OTHER) "ZADD|" QUEUE "|%s|open;" },
    { "the ticket's ttl",
      HAS("0") LEASE(ME, "$30000") "ZADD|" QUEUE "|1|" OTHER " %s 0 0 1;PEXPIRE|" QUEUE "|660000;" },
    { NULL, NULL }
};

const struct torture_family torture_permit = {
    .name = "permit", .rows = permit_rows, .states = permit_states, .numbers = permit_numbers,
    .dead = "hlk-dead-1-x:%d 5000 0 0 1", .dead_at = QUEUE,
    .shared_keys = LOCK "|" LEASES, .own_keys = QUEUE, .may_lack_ttl = LOCK "|" LEASES, .may_lose_ttl = "",
    .persisting_use = "add", .unsound = "",
};

/* --- latch */

#define LATCHED "\"0\"|\\[\"[0-9]+\", \"[0-9]+\"\\]"

static const struct torture_row latch_rows[] = {
    { HLK_SCRIPT_LATCH_AWAIT, "first", LOCK "|" QUEUE, "", LATCHED },
    { HLK_SCRIPT_LATCH_AWAIT, "again", LOCK "|" QUEUE, "0", LATCHED },
    { HLK_SCRIPT_LATCH_SET, "", LOCK, "3|" LATCH_CHANNEL, ":[01]" },
    { HLK_SCRIPT_LATCH_DOWN, "by one", LOCK "|" QUEUE, "1|" LATCH_CHANNEL, ":[0-9]+" },
    { HLK_SCRIPT_LATCH_DOWN, "by many", LOCK "|" QUEUE, "1000|" LATCH_CHANNEL, ":[0-9]+" },
    { HLK_SCRIPT_LATCH_DELETE, "", LOCK "|" QUEUE, LATCH_CHANNEL, ":[01]" },
    { 0 }
};

static const struct torture_state latch_states[] = {
    { "unset", "" },
    { "one to come", HAS("1") },
    { "three to come", HAS("3") },
    { "three to come, for a minute", "SET|" LOCK "|3|PX|60000;" },
    { "none to come", HAS("0") },
    { "opened", "ZADD|" QUEUE "|1764262800123456|opened;PEXPIRE|" QUEUE "|600000;" },
    { "opened, and three to come again", HAS("3") "ZADD|" QUEUE "|1764262800123456|opened;PEXPIRE|" QUEUE "|600000;" },
    { NULL, NULL }
};

static const struct torture_state latch_numbers[] = {
    { "the count", HAS("%s") },
    { NULL, NULL }
};

const struct torture_family torture_latch = {
    .name = "latch", .rows = latch_rows, .states = latch_states, .numbers = latch_numbers,
    .shared_keys = LOCK, .own_keys = QUEUE, .may_lack_ttl = LOCK, .may_lose_ttl = "", .unsound = "",
};

/* --- barrier */

#define AT_BARRIER BARRIER "|" ARRIVED
#define ARRIVES(hold, seen, data) ME "|" #hold "|3|30000|" #seen "|" #data "|" BARRIER
#define CAME "\\[:0, \"[0-9]+\", :[0-9]+, \"[0-9]+ of 3 parties\"\\]|\\[:1, \"[0-9]+\", :[0-9]+\\]|" \
             BROKE "|\\[:3, \"[0-9]+\"\\]|:-1|-HASPLOCK others wait there for another number.*"
#define BROKE "\\[:2, \"[0-9]+\", \"[a-z]+ [^\"]+\"\\]"
#define WENT "\\[:0\\]|\\[:1, \"[0-9]+\", :[0-9]+\\]|" BROKE

static const struct torture_row barrier_rows[] = {
    { HLK_SCRIPT_BARRIER_ARRIVE, "arrives", AT_BARRIER, ARRIVES(9, 0, 1700000000000000), CAME },
    { HLK_SCRIPT_BARRIER_ARRIVE, "knows no data", AT_BARRIER, ARRIVES(9, 0, 0), CAME },
    { HLK_SCRIPT_BARRIER_ARRIVE, "asks", AT_BARRIER, ARRIVES(5, 1700000000000000, 1700000000000000), CAME },
    { HLK_SCRIPT_BARRIER_LEAVE, "in time", AT_BARRIER, ME "|5|timeout|1700000000000000|" BARRIER, WENT },
    { HLK_SCRIPT_BARRIER_LEAVE, "before it has arrived", AT_BARRIER, ME "|9|left|1700000000000000|" BARRIER, WENT },
    { HLK_SCRIPT_BARRIER_RESET, "", AT_BARRIER, BARRIER, ":[0-9]+" },
    { HLK_SCRIPT_BARRIER_QUERY, "", ARRIVED, "", ":[0-9]+" },
    { 0 }
};

#define GENERATION FROM("1700000000000000")
#define FROM(gen)                                                                                                      \
    "HSET|" BARRIER "|gen|" gen "|data|1700000000000000|here|0|parties|3;PEXPIRE|" BARRIER "|600000;"
#define RECORD(who, hold, index) "HSET|" BARRIER "|" who "|" hold " 1700000000000000 " index " 1;"
#define CAME_IN(who, hold, index) RECORD(who, hold, index) "HINCRBY|" BARRIER "|here|1;" IS_HERE(who)
#define IS_HERE(who) "ZADD|" ARRIVED "|$30000|" who ";PEXPIRE|" ARRIVED "|600000;"

static const struct torture_state barrier_states[] = {
    { "new", "" },
    { "nobody waits", GENERATION },
    { "the caller waits", GENERATION CAME_IN(ME, "5", "2") },
    { "another waits", GENERATION CAME_IN(OTHER, "7", "2") },
    { "two wait", GENERATION CAME_IN(OTHER, "7", "2") CAME_IN(ME, "5", "1") },
    { "two others wait", GENERATION CAME_IN(OTHER, "7", "2") CAME_IN(JAVA, "1", "1") },
    { "two wait, and one is dead",
      GENERATION CAME_IN(OTHER, "7", "2") CAME_IN(ME, "5", "1") "ZADD|" ARRIVED "|$-100|" OTHER ";" },
    { "all have passed", GENERATION "HSET|" BARRIER "|" ME "|5 1699999999999999 0 1;" },
    { "it was broken", GENERATION "HSET|" BARRIER "|" ME "|5 broken 1699999999999999 1 timeout " OTHER ";" },
    { "the caller has left", GENERATION "HSET|" BARRIER "|" ME "|5 left 0 1;" },
    { "the caller has come again", GENERATION CAME_IN(ME, "50", "2") },
    { "another number of parties", GENERATION CAME_IN(OTHER, "7", "2") "HSET|" BARRIER "|parties|4;" },
    { "only who has arrived is left", "ZADD|" ARRIVED "|$30000|" ME ";PEXPIRE|" ARRIVED "|600000;" },
    { "only the generation is left", GENERATION "HSET|" BARRIER "|" ME "|5 1700000000000000 2 1;" },
    { NULL, NULL }
};

static const struct torture_state barrier_numbers[] = {
    { "the generation", FROM("%s") },
    { "the wait", GENERATION "HSET|" BARRIER "|" ME "|%s 1700000000000000 2 1;" },
    { "its generation", GENERATION "HSET|" BARRIER "|" ME "|5 %s 2 1;" },
    { NULL, NULL }
};

const struct torture_family torture_barrier = {
    .name = "barrier", .rows = barrier_rows, .states = barrier_states, .numbers = barrier_numbers,
    .shared_keys = "", .own_keys = BARRIER "|" ARRIVED, .may_lack_ttl = "", .may_lose_ttl = "", .unsound = "",
};

/* --- condition */

#define AT_CONDITION CONDITION "|" CONDITION_LEASES

static const struct torture_row condition_rows[] = {
    { HLK_SCRIPT_CONDITION_ENROLL, "", AT_CONDITION, ME "|30000", ":1" },
    { HLK_SCRIPT_CONDITION_ASK, "", AT_CONDITION, ME "|30000", "\\[:0, \"[0-9]+ waiting\"\\]|\\[:[12]\\]" },
    { HLK_SCRIPT_CONDITION_SIGNAL, "", AT_CONDITION, "", ":[01]" },
    { HLK_SCRIPT_CONDITION_BROADCAST, "", AT_CONDITION, "", ":[0-9]+" },
    { HLK_SCRIPT_CONDITION_LEAVE, "in time", AT_CONDITION, ME "|timeout", "\\[:[012]\\]" },
    { HLK_SCRIPT_CONDITION_LEAVE, "for good", AT_CONDITION, ME "|left", "\\[:0\\]" },
    { HLK_SCRIPT_CONDITION_DONE, "", CONDITION_LEASES, ME, ":[01]" },
    { HLK_SCRIPT_CONDITION_QUERY, "", AT_CONDITION, "", ":[0-9]+" },
    { 0 }
};

#define COMES(who, order) "ZADD|" CONDITION "|" order "|" who ";PEXPIRE|" CONDITION "|600000;"
#define LEASED(who, ends) "ZADD|" CONDITION_LEASES "|" ends "|" who ";PEXPIRE|" CONDITION_LEASES "|600000;"
#define ENROLLED(who, order) COMES(who, order) LEASED(who, "$30000")

static const struct torture_state condition_states[] = {
    { "new", "" },
    { "the caller waits", ENROLLED(ME, "1700000000000000") },
    { "another waits", ENROLLED(OTHER, "1700000000000000") },
    { "two wait", ENROLLED(OTHER, "1700000000000000") ENROLLED(ME, "1700000000000001") },
    { "the caller was signalled", LEASED(ME, "$30000") ENROLLED(OTHER, "1700000000000000") },
    { "the other was signalled", LEASED(OTHER, "$30000") ENROLLED(ME, "1700000000000000") },
    { "the other was signalled, and is dead", LEASED(OTHER, "$-100") ENROLLED(ME, "1700000000000000") },
    { "two were signalled, and are dead",
      LEASED(OTHER, "$-100") LEASED(GONE, "$-200") ENROLLED(ME, "1700000000000000") },
    { "the first one is dead",
      COMES(GONE, "1699999999999999") LEASED(GONE, "$-100") ENROLLED(OTHER, "1700000000000000")
      ENROLLED(ME, "1700000000000001") },
    { "the caller's lease is over", COMES(ME, "1700000000000000") LEASED(ME, "$-100") },
    { "the last one has come later than now", ENROLLED(OTHER, "9000000000000000") },
    { "only the order is left", COMES(ME, "1700000000000000") },
    { "300 are dead", "DEAD|300;" ENROLLED(ME, "1700000000000000") ENROLLED(OTHER, "1700000000000001") },
    { NULL, NULL }
};

static const struct torture_state condition_numbers[] = {
    { "the order", COMES(OTHER, "%s") LEASED(OTHER, "$30000") },
    { "the caller's order", COMES(ME, "%s") LEASED(ME, "$30000") },
    { "the lease", COMES(OTHER, "1700000000000000") LEASED(OTHER, "%s") },
    { "the caller's lease", COMES(ME, "1700000000000000") LEASED(ME, "%s") },
    { NULL, NULL }
};

const struct torture_family torture_condition = {
    .name = "condition", .rows = condition_rows, .states = condition_states, .numbers = condition_numbers,
    .dead = "hlk-dead-1-x:%d", .dead_at = CONDITION,
    .shared_keys = "", .own_keys = CONDITION "|" CONDITION_LEASES, .may_lack_ttl = "", .may_lose_ttl = "",
    .unsound = "",
};

/* --- one master's part of a lock over several */

static const struct torture_row quorum_rows[] = {
    { HLK_SCRIPT_QUORUM_ACQUIRE, "", LOCK, "30000|" ME, GOT BUSY },
    { HLK_SCRIPT_QUORUM_RELEASE, "", LOCK, ME "|" CHANNEL, ":[01]" },
    { HLK_SCRIPT_QUORUM_RENEW, "", LOCK, ME "|40000", "\"" ME "\"|:0" },
    { 0 }
};

static const struct torture_state quorum_states[] = {
    { "free", "" },
    { "held by the caller", HELD_S(ME) },
    { "held by another", HELD_S(OTHER) },
    { NULL, NULL }
};

static const struct torture_state quorum_numbers[] = {
    { "the token", HELD_S("%s") },
    { NULL, NULL }
};

const struct torture_family torture_quorum = {
    .name = "quorum", .rows = quorum_rows, .states = quorum_states, .numbers = quorum_numbers,
    .shared_keys = LOCK, .own_keys = "", .may_lack_ttl = "", .may_lose_ttl = "", .unsound = "",
};

const struct torture_family *const torture_families[] = { &torture_plain, &torture_fair, &torture_string, &torture_rw,
                                                          &torture_semaphore, &torture_permit, &torture_latch,
                                                          &torture_barrier, &torture_condition,
                                                          &torture_quorum, NULL };
