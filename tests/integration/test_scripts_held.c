/* The commands of a holder: lock_reacquire, lock_renew. */
/* Shows: P1 */
#include "integration/scripts_fixture.h"

SCRIPTS_SUITE(lock_reacquire);
SCRIPTS_SUITE(lock_renew);

/* --- lock_reacquire */

Test(lock_reacquire, sets_the_count_and_raises_the_ttl)
{
    acquire(30000, A);
    cr_assert_str_eq(reacquire(A, 2, 90000), NAMES(A));
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"2\"]; ");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_reacquire, never_lowers_the_ttl)
{
    acquire(90000, A);
    cr_assert_str_eq(reacquire(A, 2, 30000), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_reacquire, with_lease_0_leaves_the_ttl)
{
    acquire(30000, A);
    reacquire(A, 2, 30000);
    cr_assert_str_eq(reacquire(A, 1, 0), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

/* An operator's PERSIST. */
Test(lock_reacquire, with_lease_0_leaves_a_lock_without_ttl_as_it_is)
{
    acquire(30000, A);
    reacquire(A, 2, 30000);
    raw(admin, "PERSIST t");
    cr_assert_str_eq(reacquire(A, 1, 0), NAMES(A));
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
    raw(admin, "CONFIG RESETSTAT");
    cr_assert_str_eq(reacquire(A, 1, 0), NAMES(A));
    cr_assert_null(strstr(raw(admin, "INFO commandstats"), "cmdstat_pexpire"), "deleted, and made anew by the count");
}

Test(lock_reacquire, gives_a_lock_without_ttl_one)
{
    acquire(30000, A);
    raw(admin, "PERSIST t");
    cr_assert_str_eq(reacquire(A, 2, 90000), NAMES(A));
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_reacquire, run_twice_is_run_once)
{
    acquire(30000, A);
    reacquire(A, 2, 30000);
    cr_assert_str_eq(reacquire(A, 2, 30000), NAMES(A));
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"2\"]; ");
}

Test(lock_reacquire, of_a_free_lock_answers_0_and_creates_nothing)
{
    cr_assert_str_eq(reacquire(A, 2, 30000), ":0");
    cr_assert_str_eq(everything(), "");
}

Test(lock_reacquire, of_anothers_lock_answers_minus_1_without_a_change)
{
    acquire(30000, B);
    cr_assert_str_eq(reacquire(A, 2, 90000), ":-1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_reacquire, run_late_leaves_the_next_holder_alone)
{
    acquire(30000, A);
    release(A, 0);
    acquire(30000, B);
    cr_assert_str_eq(reacquire(A, 2, 90000), ":-1");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_reacquire, refuses_a_key_of_another_type_and_changes_nothing)
{
    raw(admin, "SET t text");
    cr_assert_not_null(strstr(reacquire(A, 2, 30000), "WRONGTYPE"));
    cr_assert_str_eq(everything(), "t string \"text\"; ");
    cr_assert_eq(raw_pttl(admin, LOCK), -1);
}

Test(lock_reacquire, raises_the_ttl_on_a_full_server)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(reacquire(A, 2, 90000), NAMES(A));
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"2\"]; ");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* --- lock_renew */

Test(lock_renew, raises_the_ttl_and_touches_no_field)
{
    acquire(30000, A);
    reacquire(A, 3, 0);
    cr_assert_str_eq(renew(90000, A), "[:1, " NAMES(A) "]");
    cr_assert_str_eq(everything(), "t hash [\"" A "\", \"3\"]; ");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_renew, shortens_no_ttl)
{
    acquire(90000, A);
    cr_assert_str_eq(renew(30000, A), "[:1, " NAMES(A) "]");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

Test(lock_renew, run_twice_is_run_once)
{
    acquire(30000, A);
    renew(90000, A);
    cr_assert_str_eq(renew(90000, A), "[:1, " NAMES(A) "]");
    cr_assert_str_eq(everything(), HELD_BY_A);
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* asks A2 RedLock.net 48, redis-semaphore 175: renew never creates */
Test(lock_renew, of_a_free_lock_answers_0_and_creates_nothing)
{
    cr_assert_str_eq(renew(30000, A), "[:0, " NAMES(A) "]");
    cr_assert_str_eq(everything(), "");
}

/* asks A2 redisson PR 7098: renewal touches only fields of live holds of this client */
Test(lock_renew, of_anothers_lock_answers_minus_1_without_a_change)
{
    acquire(30000, B);
    cr_assert_str_eq(renew(90000, A), "[:-1, " NAMES(A) "]");
    cr_assert_str_eq(everything(), HELD_BY_B);
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_renew, run_late_leaves_the_next_holder_alone)
{
    acquire(30000, A);
    release(A, 0);
    acquire(30000, B);
    cr_assert_str_eq(renew(90000, A), "[:-1, " NAMES(A) "]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

/* --- the same for a batch: held, no hash, free, another holder's, held with a longer ttl, held */

#define SIX "t1", "t2", "t3", "t4", "t5", "t6"
#define THEIR_HOLDS "a:1", "a:2", "a:3", "a:4", "a:5", "a:6"
#define THEIR_ANSWERS "[:1, :-1, :0, :-1, :1, :1, \"a:1\"]"

static void make_six(void)
{
    raw(admin, "HSET t1 a:1 1");
    raw(admin, "PEXPIRE t1 10000");
    raw(admin, "SET t2 text");
    raw(admin, "HSET t4 b:9 1");
    raw(admin, "HSET t5 a:5 1");
    raw(admin, "PEXPIRE t5 900000");
    raw(admin, "HSET t6 a:6 1");
    raw(admin, "PEXPIRE t6 10000");
}

/* What has no ttl, or does not exist, stays so. */
static void assert_six(int64_t first, int64_t fifth, int64_t sixth)
{
    cr_assert(about(raw_pttl(admin, "t1"), first));
    cr_assert_eq(raw_pttl(admin, "t2"), -1);
    cr_assert_eq(raw_pttl(admin, "t3"), -2);
    cr_assert_eq(raw_pttl(admin, "t4"), -1);
    cr_assert(about(raw_pttl(admin, "t5"), fifth));
    cr_assert(about(raw_pttl(admin, "t6"), sixth));
}

Test(lock_renew, in_a_batch_a_wrong_type_spoils_only_its_own_answer)
{
    make_six();
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_LOCK_RENEW, 6, SIX, THEIR_HOLDS, "240000", NULL), THEIR_ANSWERS);
    assert_six(240000, 900000, 240000);
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_LOCK_RENEW, 6, SIX, THEIR_HOLDS, "240000", NULL), THEIR_ANSWERS);
    assert_six(240000, 900000, 240000);
}

Test(lock_renew, of_a_batch_gives_each_its_own_lease)
{
    make_six();
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_LOCK_RENEW, 6, SIX, THEIR_HOLDS, "120000", "600000", "600000",
                                "600000", "1800000", "240000", NULL),
                     THEIR_ANSWERS);
    assert_six(120000, 1800000, 240000);
}

Test(lock_renew, of_a_batch_takes_the_last_lease_for_all_behind_it)
{
    make_six();
    cr_assert_str_eq(script_run(user, HLK_SCRIPT_LOCK_RENEW, 6, SIX, THEIR_HOLDS, "120000", "1800000", "240000", NULL),
                     THEIR_ANSWERS);
    assert_six(120000, 900000, 240000);
}

/* Only an operator's PERSIST leaves a lock without ttl. Such a lock would outlive its holder. */
Test(lock_renew, gives_a_hold_without_end_an_end)
{
    raw(admin, "HSET t %s 1", A);
    cr_assert_str_eq(renew(30000, A), "[:1, " NAMES(A) "]");
    cr_assert(about(raw_pttl(admin, LOCK), 30000));
}

Test(lock_renew, takes_a_hundred_locks_at_once)
{
    const char *argv[3 + 201];
    static char keys[100][16], holds[100][16];
    int n = 0;
    argv[n++] = "EVAL";
    argv[n++] = hlk_script_table[HLK_SCRIPT_LOCK_RENEW].text;
    argv[n++] = "100";
    for (int i = 0; i < 100; i++) {
        snprintf(keys[i], sizeof keys[i], "t%d", i);
        snprintf(holds[i], sizeof holds[i], "a:%d", i);
        raw(admin, "HSET %s %s 1", keys[i], holds[i]);
        raw(admin, "PEXPIRE %s 30000", keys[i]);
        argv[n++] = keys[i];
    }
    for (int i = 0; i < 100; i++)
        argv[n++] = holds[i];
    argv[n++] = "90000";
    const char *answer = raw_argv(user, n, argv, NULL);
    for (int i = 0; i < 100; i++) {
        cr_assert(about(raw_pttl(admin, keys[i]), 90000));
        answer = strstr(answer, ":1");
        cr_assert_not_null(answer, "answer %d", i);
        answer++;
    }
}

Test(lock_renew, works_on_a_full_server)
{
    acquire(30000, A);
    fill_server();
    cr_assert_str_eq(renew(90000, A), "[:1, " NAMES(A) "]");
    cr_assert(about(raw_pttl(admin, LOCK), 90000));
}

/* A server that refuses writes, or reads, returns an error: what was not renewed is reported neither as renewed nor as
 * lost. */
Test(lock_renew, on_a_server_that_refuses_is_refused)
{
    static const struct {
        const char *begin[2], *end, *word;
    } refusals[] = {
        { { "CONFIG SET min-replicas-to-write 1", "PING" }, "CONFIG SET min-replicas-to-write 0", "NOREPLICAS" },
        { { "CONFIG SET replica-serve-stale-data yes", "REPLICAOF 127.0.0.1 1" }, "REPLICAOF NO ONE", "READONLY" },
        { { "CONFIG SET replica-serve-stale-data no", "REPLICAOF 127.0.0.1 1" }, "REPLICAOF NO ONE", "MASTERDOWN" },
    };
    acquire(30000, A);
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        raw(admin, refusals[i].begin[0]);
        raw(admin, refusals[i].begin[1]);
        const char *answers[] = { renew(90000, A), reacquire(A, 1, 90000), acquire(90000, A) };
        for (size_t k = 0; k < sizeof answers / sizeof *answers; k++)
            cr_assert(answers[k][0] == '-' && strstr(answers[k], refusals[i].word), "%zu: %s", k, answers[k]);
        raw(admin, refusals[i].end);
        cr_assert(about(raw_pttl(admin, LOCK), 30000));
    }
}
