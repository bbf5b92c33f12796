/* Whether the server keeps what it was given: eviction and persistence. */
#include "diagnose/exam.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define FULL_PERCENT 90

static double mb(int64_t bytes)
{
    return (double)bytes / (1024 * 1024);
}

/* --- eviction: INFO has it, and where INFO is refused CONFIG GET may have it */

struct memory {
    bool known;
    char policy[HLK_VALUE_MAX];
    int64_t limit, used; /* 0: no limit; -1: not known */
};

static struct memory read_memory(const struct hlk_answers *answers)
{
    struct memory memory = { .used = hlk_answers_info_number(answers, "used_memory", -1) };
    memory.limit = hlk_answers_info_number(answers, "maxmemory", -1);
    if (memory.limit < 0)
        memory.limit = hlk_answers_config_number(answers, HLK_ASK_MAXMEMORY, -1);
    memory.known = (hlk_answers_info(answers, "maxmemory_policy", memory.policy) ||
                    hlk_answers_config(answers, HLK_ASK_POLICY, memory.policy)) &&
                   memory.limit >= 0;
    return memory;
}

static void judge_evicting(const struct memory *memory, struct hlk_found *found)
{
    bool volatile_only = strncmp(memory->policy, "volatile", 8) == 0;
    hlk_found_set(found, HLK_FINDING_PROBLEM, "maxmemory %.1f MB, policy %s", mb(memory->limit), memory->policy);
    hlk_found_meaning(found,
                      "When memory is short the server deletes %s: a held lock, which then two may hold until "
                      "the first one's next renewal.",
                      volatile_only ? "keys that have a ttl, as every lock has" : "any key");
    hlk_found_advice(found, "CONFIG SET maxmemory-policy noeviction, or a server of its own for the locks.");
}

static void judge_not_evicting(const struct memory *memory, struct hlk_found *found)
{
    bool full = memory->used >= 0 && memory->used > memory->limit / 100 * FULL_PERCENT;
    hlk_found_set(found, full ? HLK_FINDING_WARNING : HLK_FINDING_OK, "maxmemory %.1f MB, %.1f MB in use, policy %s",
                  mb(memory->limit), memory->used < 0 ? 0.0 : mb(memory->used), memory->policy);
    hlk_found_meaning(found, "No lock is evicted. A full server refuses to acquire, and still renews and releases.");
    if (full)
        hlk_found_advice(found, "Raise maxmemory, or find out what fills it.");
}

void hlk_check_eviction(const struct hlk_exam *exam, struct hlk_found *found)
{
    struct memory memory = read_memory(&exam->answers);
    if (!memory.known) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_POLICY);
        hlk_found_meaning(found, "A policy other than noeviction may delete a lock that is held.");
    } else if (memory.limit == 0) {
        hlk_found_set(found, HLK_FINDING_OK, "no maxmemory, policy %s", memory.policy);
        hlk_found_meaning(found, "No lock is evicted. Take care that the host has memory for the server.");
    } else if (strcmp(memory.policy, "noeviction") != 0) {
        judge_evicting(&memory, found);
    } else {
        judge_not_evicting(&memory, found);
    }
}

/* --- persistence */

struct saving {
    char fsync[HLK_VALUE_MAX], points[HLK_VALUE_MAX]; /* of the file that is appended to, of snapshots; "": unknown */
    bool aof_known, aof, points_known;
    bool aof_failed, snapshot_failed;
};

static bool is_err(const struct hlk_answers *answers, const char *field)
{
    char value[HLK_VALUE_MAX];
    return hlk_answers_info(answers, field, value) && strcmp(value, "err") == 0;
}

static struct saving read_saving(const struct hlk_answers *answers)
{
    struct saving saving = { .aof_failed = is_err(answers, "aof_last_write_status"),
                             .snapshot_failed = is_err(answers, "rdb_last_bgsave_status") };
    char value[HLK_VALUE_MAX];
    if (hlk_answers_info(answers, "aof_enabled", value)) {
        saving.aof_known = true;
        saving.aof = strcmp(value, "1") == 0;
    } else if (hlk_answers_config(answers, HLK_ASK_APPENDONLY, value)) {
        saving.aof_known = true;
        saving.aof = strcmp(value, "yes") == 0;
    }
    (void)hlk_answers_config(answers, HLK_ASK_APPENDFSYNC, saving.fsync);
    saving.points_known = hlk_answers_config(answers, HLK_ASK_SAVE, saving.points);
    return saving;
}

static void judge_failed_writes(const struct hlk_answers *answers, struct hlk_found *found, bool aof)
{
    char stops[HLK_VALUE_MAX];
    bool goes_on = !aof && hlk_answers_config(answers, HLK_ASK_STOP_WRITES, stops) && strcmp(stops, "no") == 0;
    hlk_found_set(found, goes_on ? HLK_FINDING_WARNING : HLK_FINDING_PROBLEM, "the last %s failed",
                  aof ? "write to the append-only file" : "snapshot");
    hlk_found_meaning(found, goes_on ? "A restart loses all locks since the last snapshot that succeeded."
                                     : "The server refuses writes (MISCONF): no lock can be acquired or renewed.");
    hlk_found_advice(found, "Look at the server's log and its disk.");
}

/* A server that dies has handed its writes to the kernel before it answers; a host that dies has not written them. */
static void judge_aof(const struct saving *saving, struct hlk_found *found)
{
    bool always = strcmp(saving->fsync, "always") == 0, never = strcmp(saving->fsync, "no") == 0;
    hlk_found_set(found,
                  always  ? HLK_FINDING_OK
                  : never ? HLK_FINDING_WARNING
                          : HLK_FINDING_NOTE,
                  "append-only file, fsync %s", *saving->fsync ? saving->fsync : "not known");
    if (always) {
        hlk_found_meaning(found, "A restart loses no lock.");
        return;
    }
    hlk_found_meaning(found,
                      "A restart of the server loses no lock. When its host dies, the locks of the last %s are "
                      "lost: then two may hold until the first one's next renewal.",
                      never ? "half minute or so" : "second or two");
    hlk_found_advice(found, "Where that matters: CONFIG SET appendfsync always.");
}

static void judge_memory_only(const struct hlk_exam *exam, const struct saving *saving, struct hlk_found *found)
{
    bool snapshots = !saving->points_known || *saving->points;
    bool local = exam->url->kind == HLK_URL_LOCAL;
    hlk_found_set(found, local ? HLK_FINDING_NOTE : HLK_FINDING_WARNING, "no append-only file, %s",
                  snapshots ? "snapshots at times" : "no snapshots");
    hlk_found_meaning(found, snapshots ? "A restart brings the locks of the last snapshot back. Locks since then are "
                                         "lost, and those released since then return until their leases end: two may "
                                         "hold until the next renewal."
                                       : "A restart loses all locks: then two may hold until the first one's next "
                                         "renewal.");
    if (!local)
        hlk_found_advice(found, "CONFIG SET appendonly yes and appendfsync always; or keep the server down for a "
                                "lease before each restart.");
}

void hlk_check_persistence(const struct hlk_exam *exam, struct hlk_found *found)
{
    struct saving saving = read_saving(&exam->answers);
    if (!saving.aof_known) {
        hlk_found_unknown(found, &exam->answers, HLK_ASK_APPENDONLY);
        hlk_found_meaning(found, "A restart without data loses all locks.");
    } else if (saving.aof && saving.aof_failed) {
        judge_failed_writes(&exam->answers, found, true);
    } else if (saving.snapshot_failed) {
        judge_failed_writes(&exam->answers, found, false);
    } else if (saving.aof) {
        judge_aof(&saving, found);
    } else {
        judge_memory_only(exam, &saving, found);
    }
}
