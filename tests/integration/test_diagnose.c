/* hlk_diagnose on real servers: for a user that lacks a right it gives the line that grants it, and that is enough. */
#include "support/acl_page.h"
#include "support/fixture.h"

#include "base/mem.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void start(void)
{
    fixture_begin(SERVER_TCP | SERVER_NOACL);
}

TestSuite(diagnose, .init = start, .fini = fixture_end, .timeout = 120);

#define FINDINGS_MOST 40

struct findings {
    int n;
    struct {
        char area[32], measured[512], advice[4096];
        int level;
    } of[FINDINGS_MOST];
};

static void take(const struct hlk_finding *finding, void *ctx)
{
    struct findings *findings = ctx;
    cr_assert_eq(finding->size, sizeof *finding);
    cr_assert_lt(findings->n, FINDINGS_MOST);
    int i = findings->n++;
    snprintf(findings->of[i].area, sizeof findings->of[i].area, "%s", finding->area);
    snprintf(findings->of[i].measured, sizeof findings->of[i].measured, "%s", finding->measured);
    snprintf(findings->of[i].advice, sizeof findings->of[i].advice, "%s", finding->advice);
    findings->of[i].level = finding->level;
    cr_assert(*finding->meaning || finding->level == HLK_FINDING_OK, "%s", finding->area);
}

static int find(const struct findings *findings, const char *area)
{
    for (int i = 0; i < findings->n; i++)
        if (strcmp(findings->of[i].area, area) == 0)
            return i;
    cr_assert_fail("no finding about %s", area);
    return 0;
}

/* A short look at the clock: what it finds is not asked about here. */
static struct hlk_diagnose_opts quick(void)
{
    struct hlk_diagnose_opts opts = HLK_DIAGNOSE_OPTS_INIT;
    opts.clock_ms = 1;
    opts.prefix = "app:";
    return opts;
}

static enum hlk_status diagnose(const struct hlk_diagnose_opts *opts, struct findings *findings)
{
    findings->n = 0;
    return hlk_diagnose(fixture.server->url, opts, take, findings);
}

static const struct hlk_client_opts *as_user(const char *username, const char *password)
{
    static struct hlk_client_opts client;
    client = (struct hlk_client_opts)HLK_CLIENT_OPTS_INIT;
    client.username = username;
    client.password = password;
    return &client;
}

static enum hlk_status diagnose_as_user(unsigned flags, struct findings *findings)
{
    struct hlk_diagnose_opts opts = quick();
    opts.client = as_user("locks", "SECRET");
    opts.flags = flags;
    return diagnose(&opts, findings);
}

static void run_line(char *line)
{
    const char *words[128];
    int n = 0;
    char *save = NULL;
    for (char *word = strtok_r(line, " \n", &save); word && n < 128; word = strtok_r(NULL, " \n", &save))
        words[n++] = word;
    cr_assert_str_eq(raw_argv(fixture.redis, n, words, NULL), "OK");
}

/* Words of the page's lines that grant a right; all of them but `without` are granted anew. */
static int grant_all_but(const char *without, char rights[][64], int most)
{
    static const char *const sections[] = { "Locks",   "Fair locks", "Lists",   "String locks", "Read/write locks",
                                            "Latches", "Semaphores", "Permits", "Barriers",     "Conditions",
                                            "Notes" };
    static char line[2048];
    int n = 0;
    raw(fixture.redis, "ACL DELUSER locks");
    cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER locks on >SECRET resetkeys resetchannels -@all"), "OK");
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        char *save = NULL;
        snprintf(line, sizeof line, "%s", acl_page_line(sections[i]));
        for (char *word = strtok_r(line, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
            if (!strchr("+~&", *word) || (without && strcmp(word, without) == 0))
                continue;
            cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER locks %s", word), "OK");
            if (rights && n < most)
                snprintf(rights[n++], 64, "%s", word);
        }
    }
    return n;
}

static const char *const kinds_of_rights[] = { "rights",         "rights-fenced",    "rights-fair",
                                               "rights-list",    "rights-string",    "rights-rwlock",
                                               "rights-latch",   "rights-semaphore", "rights-permits",
                                               "rights-barrier", "rights-condition", "rights-note" };
enum { KINDS = sizeof kinds_of_rights / sizeof *kinds_of_rights };
#define EVERYTHING (HLK_DIAGNOSE_FENCED | HLK_DIAGNOSE_FAIR | HLK_DIAGNOSE_LIST | HLK_DIAGNOSE_STRING)

static bool is_content(const struct findings *findings)
{
    bool content = true;
    for (int i = 0; i < KINDS; i++)
        content = content && findings->of[find(findings, kinds_of_rights[i])].level == HLK_FINDING_OK;
    return content;
}

Test(diagnose, finds_no_problem_on_a_good_server)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    opts.prefix = NULL;
    cr_assert_eq(diagnose(&opts, &findings), HLK_OK, "%s", hlk_last_error());
    for (int i = 0; i < findings.n; i++)
        cr_assert(findings.of[i].level < HLK_FINDING_WARNING || strcmp(findings.of[i].area, "persistence") == 0,
                  "%s: %s", findings.of[i].area, findings.of[i].measured);
    cr_assert_geq(findings.n, 25);
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(diagnose, is_content_with_the_rights_of_the_page)
{
    static struct findings findings;
    grant_all_but(NULL, NULL, 0);
    cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_content(&findings));
    cr_assert_str_eq(findings.of[find(&findings, "idle-timeout")].measured,
                     "not known: this user may not run CONFIG GET");
}

/* Each right of the page is taken away, found, named alone, and granted by the line. */
Test(diagnose, names_each_missing_right_and_a_line_to_grant_it)
{
    static struct findings findings;
    static char rights[160][64];
    int n = grant_all_but(NULL, rights, 160);
    cr_assert_geq(n, 55);
    for (int i = 0; i < n; i++) {
        int missing = 0;
        grant_all_but(rights[i], NULL, 0);
        cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK, "%s: %s", rights[i], hlk_last_error());
        for (int kind = 0; kind < KINDS; kind++) {
            int at = find(&findings, kinds_of_rights[kind]);
            if (findings.of[at].level == HLK_FINDING_OK)
                continue;
            char wanted[128];
            snprintf(wanted, sizeof wanted, "ACL SETUSER locks %s", rights[i]);
            if (strcmp(rights[i], "+eval") != 0 && strcmp(rights[i], "+publish") != 0) /* others cannot be tried */
                cr_assert_str_eq(findings.of[at].advice, wanted);
            run_line(findings.of[at].advice);
            missing++;
        }
        cr_assert(missing > 0, "%s is not missed", rights[i]);
        cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK);
        cr_assert(is_content(&findings), "%s", rights[i]);
    }
    cr_assert_eq(raw_int(fixture.redis, "DBSIZE"), 0);
}

Test(diagnose, names_all_rights_that_a_user_without_any_needs)
{
    static struct findings findings;
    struct hlk_client_opts opts = fixture_opts();
    cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER locks on >SECRET resetkeys resetchannels -@all"), "OK");
    cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK, "%s", hlk_last_error());
    for (int kind = 0; kind < KINDS; kind++)
        run_line(findings.of[find(&findings, kinds_of_rights[kind])].advice);
    cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_content(&findings));
    opts.username = "locks";
    opts.password = "SECRET";
    hlk_client *client = fixture_open(&opts);
    struct hlk_lock_opts lock_opts = HLK_LOCK_OPTS_INIT;
    lock_opts.kind = HLK_LOCK_FENCED;
    hlk_lock *lock = fixture_lock(client, "app:1", &lock_opts);
    cr_assert_eq(hlk_lock_acquire(lock, HLK_NOWAIT), HLK_OK, "%s", hlk_last_error());
    cr_assert_eq(hlk_lock_release(lock), HLK_OK);
    raw(fixture.redis, "DEL redisson_lock_token:{app:1}");
}

/* No command is left that could try a key: all patterns are in the first line. */
Test(diagnose, names_keys_that_it_cannot_try_at_once)
{
    static struct findings findings;
    cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER locks on >SECRET resetkeys resetchannels -@all +eval"), "OK");
    cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK, "%s", hlk_last_error());
    const char *line = findings.of[find(&findings, "rights")].advice;
    cr_assert_not_null(strstr(line, "~app:* ~hasplock_queue:{app:*"), "%s", line);
    for (int kind = 0; kind < KINDS; kind++)
        run_line(findings.of[find(&findings, kinds_of_rights[kind])].advice);
    cr_assert_eq(diagnose_as_user(EVERYTHING, &findings), HLK_OK, "%s", hlk_last_error());
    cr_assert(is_content(&findings));
}

Test(diagnose, without_a_prefix_tries_no_keys_of_a_limited_user)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    opts.client = as_user("locks", "SECRET");
    opts.prefix = NULL;
    grant_all_but(NULL, NULL, 0);
    cr_assert_eq(diagnose(&opts, &findings), HLK_OK, "%s", hlk_last_error());
    int at = find(&findings, "rights");
    cr_assert_eq(findings.of[at].level, HLK_FINDING_NOTE, "%s", findings.of[at].advice);
    cr_assert_not_null(strstr(findings.of[at].measured, "keys not tried"));
}

Test(diagnose, that_is_refused_the_login_says_so_last)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    opts.client = as_user("locks", "wrong");
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_AUTH);
    cr_assert_str_eq(findings.of[findings.n - 1].area, "login");
    cr_assert_eq(findings.of[findings.n - 1].level, HLK_FINDING_PROBLEM);
    cr_assert_null(strstr(hlk_last_error(), "wrong:"), "%s", hlk_last_error());
}

Test(diagnose, that_needs_a_password_says_so)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    raw(fixture.redis, "CONFIG SET requirepass secret");
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_AUTH, "%s", hlk_last_error());
    cr_assert_str_eq(findings.of[findings.n - 1].area, "login");
    raw(fixture.redis, "AUTH secret");
    raw(fixture.redis, "CONFIG SET requirepass %s", "");
}

Test(diagnose, of_a_server_that_does_not_answer_ends_in_time)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    struct hlk_client_opts client = HLK_CLIENT_OPTS_INIT;
    client.reply_timeout_ms = 100;
    opts.client = &client;
    server_pause(fixture.server);
    int64_t began_ms = hlk_now_ms();
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_CONNECT);
    cr_assert_lt(hlk_now_ms() - began_ms, 5000);
    cr_assert_str_eq(findings.of[findings.n - 1].area, "connection");
    server_resume(fixture.server);
}

Test(diagnose, with_wrong_options_is_invalid_and_calls_nothing)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    cr_assert_eq(hlk_diagnose(NULL, NULL, take, &findings), HLK_E_INVALID);
    cr_assert_eq(hlk_diagnose("nonsense", NULL, take, &findings), HLK_E_INVALID);
    cr_assert_eq(hlk_diagnose(fixture.url, NULL, NULL, NULL), HLK_E_INVALID);
    opts.flags = 0x100;
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_INVALID);
    opts = quick();
    opts.reserved = 1;
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_INVALID);
    opts = quick();
    opts.size = 0;
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_INVALID);
    opts = quick();
    struct hlk_client_opts client = HLK_CLIENT_OPTS_INIT;
    client.watchdog_ms = 299;
    opts.client = &client;
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_INVALID);
    opts = quick();
    opts.clock_ms = -1;
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_INVALID);
    opts = quick();
    char prefix[402];
    memset(prefix, 'a', 401);
    prefix[401] = '\0';
    opts.prefix = prefix;
    cr_assert_eq(diagnose(&opts, &findings), HLK_E_INVALID);
    cr_assert_eq(findings.n, 0);
}

Test(diagnose, with_the_longest_prefix_has_room)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    char prefix[401];
    memset(prefix, '*', 400);
    prefix[400] = '\0';
    opts.prefix = prefix;
    cr_assert_str_eq(raw(fixture.redis, "ACL SETUSER locks on >SECRET resetkeys resetchannels -@all"), "OK");
    opts.client = as_user("locks", "SECRET");
    cr_assert_eq(diagnose(&opts, &findings), HLK_OK, "%s", hlk_last_error());
}

/* The n-th allocation fails, for each n: it is said, and nothing is left. */
static int count_no_memory(const char *url)
{
    static struct findings findings;
    struct hlk_diagnose_opts opts = quick();
    int failed = 0, fine = 0;
    for (long n = 1; fine < 3; n++) {
        cr_assert_lt(n, 2000);
        findings.n = 0;
        hlk_mem_fail_once(n);
        enum hlk_status status = hlk_diagnose(url, &opts, take, &findings);
        hlk_mem_fail_after(-1);
        bool refused = status == HLK_E_NOMEM;
        cr_assert(refused || status == HLK_OK, "%ld: %s", n, hlk_last_error());
        failed += refused;
        fine = refused ? 0 : fine + 1;
    }
    return failed;
}

Test(diagnose, without_memory_says_so)
{
    char url[128];
    cr_assert_geq(count_no_memory(fixture.server->url), 8);
    snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", fixture.server->port);
    cr_assert_geq(count_no_memory(url), 8);
}

static void *diagnose_twice(void *arg)
{
    struct findings *findings = arg;
    struct hlk_diagnose_opts opts = quick();
    long failed = 0;
    for (int i = 0; i < 2; i++)
        failed += diagnose(&opts, findings) != HLK_OK;
    return (void *)failed;
}

Test(diagnose, runs_in_several_threads_at_once)
{
    static struct findings findings[4];
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, diagnose_twice, &findings[i]), 0);
    for (int i = 0; i < 4; i++) {
        void *failed;
        pthread_join(threads[i], &failed);
        cr_assert_null(failed);
    }
}
