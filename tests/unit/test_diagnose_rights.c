/* Which rights hlk_diagnose finds missing, and the line that it makes of them; and that it knows the page's rights. */
#include "exam_fixture.h"

#include "diagnose/rights.h"
#include "support/acl_page.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

TestSuite(rights, .init = exam_start, .fini = exam_stop);

static void lacks(hlk_check_fn *check, enum hlk_finding_level level, const char *line)
{
    hlk_found_init(&found);
    check(&exam, &found);
    cr_assert_str_eq(found.advice.buf, line);
    cr_assert_eq(found.level, level, "%s", found.measured.buf);
}

/* Which number the probe gives to a command that is refused. */
static int number_of(const char *command)
{
    static struct hlk_rights_probe probe;
    char try[64];
    int n = 0;
    hlk_rights_probe(&probe, "app:", "id");
    snprintf(try, sizeof try, "{'%s'", command);
    const char *found_at = strstr(probe.script, try);
    cr_assert_not_null(found_at, "%s is not tried", command);
    for (const char *at = strstr(probe.script, "ipairs({"); at && at < found_at; at = strstr(at + 1, "{'"))
        n++;
    return n;
}

static void refuse_in_script(const char *command)
{
    char resp[64];
    snprintf(resp, sizeof resp, "*1\n:%d\n", number_of(command));
    exam_answer(HLK_ASK_RIGHTS, resp);
}

Test(rights, that_are_all_there_need_no_line)
{
    lacks(hlk_check_rights, HLK_FINDING_OK, "");
    lacks(hlk_check_rights_fenced, HLK_FINDING_OK, "");
    lacks(hlk_check_rights_fair, HLK_FINDING_OK, "");
    lacks(hlk_check_rights_string, HLK_FINDING_OK, "");
    lacks(hlk_check_rights_list, HLK_FINDING_OK, "");
    exam_judge(hlk_check_lua, HLK_FINDING_OK, "EVAL works", "scripts", NULL);
}

Test(rights, to_a_command_of_the_scripts_are_named)
{
    refuse_in_script("exists");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob +exists");
    refuse_in_script("publish");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob +publish");
    lacks(hlk_check_rights_fair, HLK_FINDING_OK, "");
    exam_refuse(HLK_ASK_INBOX); /* so the channel could be tried in no way */
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob &hasplock_inbox:* +subscribe +publish");
}

Test(rights, of_other_locks_and_list_are_a_note_unless_needed)
{
    refuse_in_script("incrby");
    lacks(hlk_check_rights, HLK_FINDING_OK, "");
    lacks(hlk_check_rights_fenced, HLK_FINDING_NOTE, "ACL SETUSER bob +incrby");
    exam.flags = HLK_DIAGNOSE_FENCED;
    lacks(hlk_check_rights_fenced, HLK_FINDING_PROBLEM, "ACL SETUSER bob +incrby");
    refuse_in_script("rpush");
    lacks(hlk_check_rights_fair, HLK_FINDING_NOTE, "ACL SETUSER bob +rpush");
    exam.flags = HLK_DIAGNOSE_FAIR;
    lacks(hlk_check_rights_fair, HLK_FINDING_PROBLEM, "ACL SETUSER bob +rpush");
    refuse_in_script("getrange");
    lacks(hlk_check_rights_string, HLK_FINDING_NOTE, "ACL SETUSER bob +getrange");
    exam.flags = HLK_DIAGNOSE_STRING;
    lacks(hlk_check_rights_string, HLK_FINDING_PROBLEM, "ACL SETUSER bob +getrange");
    refuse_in_script("get");
    lacks(hlk_check_rights_string, HLK_FINDING_PROBLEM, "ACL SETUSER bob +get");
    lacks(hlk_check_rights_fenced, HLK_FINDING_NOTE, "ACL SETUSER bob +get");
    refuse_in_script("hget");
    lacks(hlk_check_rights_rwlock, HLK_FINDING_NOTE, "ACL SETUSER bob +hget");
    exam_refuse(HLK_ASK_WAIT);
    lacks(hlk_check_rights_replicas, HLK_FINDING_NOTE, "ACL SETUSER bob +wait");
    exam_refuse(HLK_ASK_SCAN);
    lacks(hlk_check_rights_list, HLK_FINDING_NOTE, "ACL SETUSER bob +scan");
    exam.flags = HLK_DIAGNOSE_LIST;
    lacks(hlk_check_rights_list, HLK_FINDING_PROBLEM, "ACL SETUSER bob +scan");
}

Test(rights, to_commands_of_a_connection_are_named)
{
    exam_refuse(HLK_ASK_EVALSHA);
    exam_refuse(HLK_ASK_SELECT);
    exam_refuse(HLK_ASK_INBOX);
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob +evalsha +select +subscribe");
}

Test(rights, to_info_alone_are_a_warning)
{
    exam_refuse(HLK_ASK_INFO);
    lacks(hlk_check_rights, HLK_FINDING_WARNING, "ACL SETUSER bob +info");
    exam_refuse(HLK_ASK_PING);
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob +ping +info");
}

Test(rights, for_pubsub_are_not_needed_by_spin_locks)
{
    exam_refuse(HLK_ASK_INBOX);
    exam.pubsub = false;
    lacks(hlk_check_rights, HLK_FINDING_OK, "");
}

Test(rights, to_keys_and_channels_are_patterns_with_the_prefix)
{
    exam_answer(HLK_ASK_RIGHTS, "*4\n:101\n:201\n:106\n:107\n");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM,
          "ACL SETUSER bob ~hasplock_queue:{app:* ~hasplock_queue::app:* &redisson_lock__channel:{app:* "
          "&hasplock_inbox:*");
    exam_answer(HLK_ASK_RIGHTS, "*1\n:100\n");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob ~app:*");
    exam_answer(HLK_ASK_RIGHTS, "*1\n:205\n");
    lacks(hlk_check_rights_fair, HLK_FINDING_NOTE, "ACL SETUSER bob ~redisson_lock_timeout:app:*");
}

Test(rights, of_each_other_kind_are_a_note)
{
    exam_answer(HLK_ASK_RIGHTS, "*6\n:111\n:211\n:112\n:113\n:114\n:118\n");
    lacks(hlk_check_rights_latch, HLK_FINDING_NOTE,
          "ACL SETUSER bob &redisson_countdownlatch__channel__{app:* &redisson_countdownlatch__channel__app:*");
    lacks(hlk_check_rights_semaphore, HLK_FINDING_NOTE, "ACL SETUSER bob &redisson_sc:{app:*");
    lacks(hlk_check_rights_permits, HLK_FINDING_NOTE, "ACL SETUSER bob ~{app:*");
    lacks(hlk_check_rights_barrier, HLK_FINDING_NOTE, "ACL SETUSER bob ~hasplock_barrier:{app:*");
    lacks(hlk_check_rights_condition, HLK_FINDING_NOTE, "ACL SETUSER bob ~hasplock_condition_leases:{app:*");
    exam_answer(HLK_ASK_RIGHTS, "*2\n:120\n:220\n");
    lacks(hlk_check_rights_note, HLK_FINDING_NOTE, "ACL SETUSER bob ~hasplock_note:{app:* ~hasplock_note::app:*");
    refuse_in_script("zcard");
    lacks(hlk_check_rights_barrier, HLK_FINDING_NOTE, "ACL SETUSER bob +zcard");
    lacks(hlk_check_rights_condition, HLK_FINDING_NOTE, "ACL SETUSER bob +zcard");
    lacks(hlk_check_rights, HLK_FINDING_OK, "");
}

Test(rights, to_a_channel_are_seen_by_subscribe_too)
{
    exam_answer(HLK_ASK_CHANNEL, "-NOPERM this user has no permissions to access one of the channels used\n");
    exam_answer(HLK_ASK_INBOX, "-NOPERM No permissions to access a channel\n");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob &redisson_lock__channel:{app:* &hasplock_inbox:*");
}

Test(rights, have_a_prefix_that_is_a_glob_and_one_word)
{
    exam.prefix = "a*b [c]\\\"";
    exam_answer(HLK_ASK_RIGHTS, "*1\n:100\n");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob ~a\\*b?\\[c\\]\\\\?*");
}

Test(rights, to_a_limited_users_keys_need_a_prefix_to_be_tried)
{
    exam.prefix = "";
    exam_answer(HLK_ASK_RIGHTS, "*3\n:100\n:101\n:107\n");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob &hasplock_inbox:*");
    exam_answer(HLK_ASK_RIGHTS, "*1\n:100\n");
    exam_judge(hlk_check_rights, HLK_FINDING_NOTE, "keys not tried", "work", "PREFIX");
    exam_answer(HLK_ASK_RIGHTS, "*1\n:101\n");
    lacks(hlk_check_rights, HLK_FINDING_PROBLEM, "ACL SETUSER bob ~hasplock_queue:{*");
}

Test(rights, of_a_cluster_are_needed_in_one)
{
    hlk_found_init(&found);
    hlk_check_rights_cluster(&exam, &found);
    cr_assert_not(found.applies);
    exam_url("redis+cluster://10.0.0.7");
    lacks(hlk_check_rights_cluster, HLK_FINDING_OK, "");
    exam_refuse(HLK_ASK_ASKING);
    exam_refuse(HLK_ASK_SHARD_INBOX);
    refuse_in_script("spublish");
    lacks(hlk_check_rights_cluster, HLK_FINDING_PROBLEM, "ACL SETUSER bob +asking +ssubscribe +spublish");
    lacks(hlk_check_rights, HLK_FINDING_OK, "");
}

Test(rights, that_are_untried_without_eval_are_all_in_the_line)
{
    exam_refuse(HLK_ASK_RIGHTS);
    hlk_found_init(&found);
    hlk_check_rights_fenced(&exam, &found);
    cr_assert_str_eq(found.advice.buf, "ACL SETUSER bob ~redisson_lock_token:{app:* ~redisson_lock_token:app:* +get "
                                       "+set +incrby");
    exam_judge(hlk_check_rights, HLK_FINDING_PROBLEM, "could not be tried without EVAL", "HLK_E_AUTH", "+eval +exists");
    exam_judge(hlk_check_lua, HLK_FINDING_PROBLEM, "EVAL fails: NOPERM", "no lock", "Grant");
    exam_answer(HLK_ASK_RIGHTS, "-ERR unknown command 'EVAL'\n");
    exam_judge(hlk_check_lua, HLK_FINDING_PROBLEM, "EVAL fails: ERR unknown command", "no lock", "Lua");
}

/* The words of docs/acl.md that hlk_diagnose looks at, without the password. */
static void read_page(char *words, size_t size)
{
    static const char *const sections[] = {
        "Locks",   "Fair locks", "Lists",   "Without pub/sub", "Cluster",  "Replicas",   "Read/write locks",
        "Latches", "Semaphores", "Permits", "String locks",    "Barriers", "Conditions", "Notes"
    };
    size_t len = 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
        len +=
            (size_t)snprintf(words + len, size - len, " %s", acl_page_line(sections[i]) + strlen("ACL SETUSER locks "));
}

static bool has_word(const char *words, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = strstr(words, word); at; at = strstr(at + 1, word))
        if ((at == words || at[-1] == ' ') && (at[len] == ' ' || !at[len]))
            return true;
    return false;
}

static void each_word_is_in(const char *words, const char *whole, const char *what)
{
    char copy[8192], *save = NULL;
    snprintf(copy, sizeof copy, "%s", words);
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save))
        if (strchr("+~&", *word))
            cr_expect(has_word(whole, word), "%s: %s is missing", what, word);
}

/* With everything refused the lines together are the page's. */
Test(rights, are_those_of_the_page)
{
    static const enum hlk_ask refused[] = { HLK_ASK_WAIT,        HLK_ASK_CLUSTER,     HLK_ASK_SLOTS,
                                            HLK_ASK_ASKING,      HLK_ASK_SHARD_INBOX, HLK_ASK_SHARD_UNSUBSCRIBE,
                                            HLK_ASK_EVALSHA,     HLK_ASK_RIGHTS,      HLK_ASK_PING,
                                            HLK_ASK_SELECT,      HLK_ASK_INFO,        HLK_ASK_INBOX,
                                            HLK_ASK_UNSUBSCRIBE, HLK_ASK_SCAN };
    char page[8192] = "", line[8192] = "";
    struct hlk_text text;
    struct hlk_missing missing = { 0 };
    hlk_text_init(&text, line, sizeof line);
    read_page(page, sizeof page);
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        exam_refuse(refused[i]);
    for (int need = HLK_NEED_LOCK; need <= HLK_NEED_CLUSTER; need++)
        hlk_rights_missing(&exam.answers, "app:", (enum hlk_need)need, &missing, &text);
    exam_answer(HLK_ASK_INBOX, "-NOPERM No permissions to access a channel\n");
    exam_answer(HLK_ASK_CHANNEL, "-NOPERM No permissions to access a channel\n");
    exam_answer(HLK_ASK_BRACE_CHANNEL, "-NOPERM No permissions to access a channel\n");
    hlk_rights_missing(&exam.answers, "app:", HLK_NEED_PUBSUB, &missing, &text);
    each_word_is_in(line, page, "docs/acl.md does not have a right of hlk_diagnose");
    hlk_rights_missing(&exam.answers, "app:", HLK_NEED_REPLICAS, &missing, &text);
    each_word_is_in(page, line, "hlk_diagnose does not know a right of docs/acl.md");
}
