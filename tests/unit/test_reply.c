/* What a server's reply means. The texts are those of Redis 6.2, 7.0 and 7.2. */
#include "net/reply.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static struct hlk_error error;

static enum hlk_reply_kind kind(const char *text)
{
    char copy[512];
    redisReply reply = { .type = REDIS_REPLY_ERROR, .str = copy, .len = strlen(text) };
    (void)snprintf(copy, sizeof copy, "%s", text);
    memset(&error, 0, sizeof error);
    enum hlk_reply_kind with = hlk_reply_read(&reply, &error);
    cr_assert_eq(hlk_reply_read(&reply, NULL), with); /* error may be NULL */
    return with;
}

static bool is(const char *text, enum hlk_reply_kind expected, enum hlk_status status)
{
    bool same = kind(text) == expected && error.status == status;
    if (!same)
        cr_log_error("%s: kind %d, status %d", text, (int)kind(text), (int)error.status);
    return same;
}

/* Redis 6.2 wraps the error of a command in a script into its own. Redis 7 appends the place. */
#define IN_62(text) "ERR Error running script (call to f_1b2): @user_script:11: @user_script: 11: -" text
#define IN_7(text) text " script: 1b2c3d, on @user_script:11."

Test(reply, answers_are_answers)
{
    static const int types[] = { REDIS_REPLY_NIL, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING, REDIS_REPLY_ARRAY,
                                 REDIS_REPLY_STATUS };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        redisReply reply = { .type = types[i], .str = "OOM command", .len = 11 };
        memset(&error, 0, sizeof error);
        cr_assert_eq(hlk_reply_read(&reply, &error), HLK_REPLY_ANSWER);
        cr_assert_eq(error.status, HLK_OK);
        cr_assert_eq(hlk_reply_read(&reply, NULL), HLK_REPLY_ANSWER);
    }
}

Test(reply, a_script_that_is_not_there)
{
    cr_assert(is("NOSCRIPT No matching script. Please use EVAL.", HLK_REPLY_NOSCRIPT, HLK_E_SERVER));
}

Test(reply, a_server_that_is_loading)
{
    cr_assert(is("LOADING Redis is loading the dataset in memory", HLK_REPLY_LATER, HLK_E_SERVER));
    cr_assert(is("LOADING Valkey is loading the dataset in memory", HLK_REPLY_LATER, HLK_E_SERVER));
}

Test(reply, a_server_that_runs_a_script)
{
    cr_assert(is("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
                 HLK_REPLY_LATER, HLK_E_SERVER));
    cr_assert(is("BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE.",
                 HLK_REPLY_LATER, HLK_E_SERVER));
}

Test(reply, other_words_that_begin_with_busy_are_not_it)
{
    cr_assert(is("BUSYKEY Target key name already exists.", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("BUSYGROUP Consumer Group name already exists", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("NOTBUSY No scripts in execution right now.", HLK_REPLY_FAULT, HLK_E_SERVER));
}

Test(reply, a_replica_without_its_master)
{
    static const char text[] = "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.";
    cr_assert(is(text, HLK_REPLY_REPLICA, HLK_E_SERVER));
    cr_assert(is(IN_62("MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'."),
                 HLK_REPLY_REPLICA, HLK_E_SERVER));
}

Test(reply, a_replica)
{
    cr_assert(is("READONLY You can't write against a read only replica.", HLK_REPLY_REPLICA, HLK_E_SERVER));
    cr_assert(is(IN_7("READONLY You can't write against a read only replica."), HLK_REPLY_REPLICA, HLK_E_SERVER));
    cr_assert(is(IN_62("READONLY You can't write against a read only replica."), HLK_REPLY_REPLICA, HLK_E_SERVER));
}

Test(reply, a_cluster_that_moves)
{
    cr_assert(
        is(IN_7("ERR Script attempted to access a non local key in a cluster node"), HLK_REPLY_LATER, HLK_E_SERVER));
    cr_assert(is("TRYAGAIN Multiple keys request during rehashing of slot", HLK_REPLY_LATER, HLK_E_SERVER));
    cr_assert(is("CLUSTERDOWN The cluster is down", HLK_REPLY_LATER, HLK_E_SERVER));
    cr_assert(is("CLUSTERDOWN Hash slot not served", HLK_REPLY_LATER, HLK_E_SERVER));
}

Test(reply, a_full_server)
{
    cr_assert(is("OOM command not allowed when used memory > 'maxmemory'.", HLK_REPLY_NO_WRITES, HLK_E_SERVER));
    cr_assert(is(IN_7("OOM command not allowed when used memory > 'maxmemory'."), HLK_REPLY_NO_WRITES, HLK_E_SERVER));
    cr_assert(is(IN_62("OOM command not allowed when used memory > 'maxmemory'."), HLK_REPLY_NO_WRITES, HLK_E_SERVER));
}

Test(reply, a_server_that_cannot_save)
{
    static const char text[] =
        "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to "
        "disk. Commands that may modify the data set are disabled.";
    cr_assert(is(text, HLK_REPLY_NO_WRITES, HLK_E_SERVER));
    cr_assert(
        is(IN_62("MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk."),
           HLK_REPLY_NO_WRITES, HLK_E_SERVER));
    cr_assert(is("MISCONF Errors writing to the AOF file: No space left on device", HLK_REPLY_NO_WRITES, HLK_E_SERVER));
}

Test(reply, a_master_without_enough_replicas)
{
    cr_assert(is("NOREPLICAS Not enough good replicas to write.", HLK_REPLY_NO_WRITES, HLK_E_SERVER));
    cr_assert(is(IN_7("NOREPLICAS Not enough good replicas to write."), HLK_REPLY_NO_WRITES, HLK_E_SERVER));
    cr_assert(is(IN_62("NOREPLICAS Not enough good replicas to write."), HLK_REPLY_NO_WRITES, HLK_E_SERVER));
}

Test(reply, a_user_without_the_right)
{
    cr_assert(is("NOPERM this user has no permissions to run the 'evalsha' command", HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is("NOPERM User app has no permissions to run the 'evalsha' command", HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is("NOPERM No permissions to access a key", HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is("NOPERM this user has no permissions to access one of the keys used as arguments", HLK_REPLY_NO_RIGHT,
                 HLK_E_AUTH));
}

Test(reply, a_user_without_the_right_inside_the_script)
{
    cr_assert(is("ERR Error running script (call to f_1b2): @user_script:11: @user_script: 11: The user executing the "
                 "script can't run this command or subcommand",
                 HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is("ERR Error running script (call to f_1b2): @user_script:11: @user_script: 11: The user executing the "
                 "script can't access at least one of the keys mentioned in the command arguments",
                 HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is(IN_7("ERR The user executing the script can't run this command or subcommand"), HLK_REPLY_NO_RIGHT,
                 HLK_E_AUTH));
    cr_assert(
        is(IN_7("ERR The user executing the script can't access at least one of the keys mentioned in the command "
                "arguments"),
           HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
}

Test(reply, a_user_without_the_right_in_the_script_since_7_2)
{
    cr_assert(is(IN_7("ERR ACL failure in script: User app has no permissions to run the 'publish' command"),
                 HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is(IN_7("ERR ACL failure in script: User app has no permissions to access the 'invoice:42' key"),
                 HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
    cr_assert(is(IN_7("NOPERM ACL failure in script: User app has no permissions to run the 'publish' command"),
                 HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
}

Test(reply, a_connection_that_did_not_say_who_it_is)
{
    cr_assert(is("NOAUTH Authentication required.", HLK_REPLY_NO_RIGHT, HLK_E_AUTH));
}

Test(reply, a_key_that_is_no_lock)
{
    static const char text[] = "WRONGTYPE Operation against a key holding the wrong kind of value";
    cr_assert(is(text, HLK_REPLY_WRONG_TYPE, HLK_E_SERVER));
    cr_assert(is(IN_7("WRONGTYPE Operation against a key holding the wrong kind of value"), HLK_REPLY_WRONG_TYPE,
                 HLK_E_SERVER));
    cr_assert(is(IN_62("WRONGTYPE Operation against a key holding the wrong kind of value"), HLK_REPLY_WRONG_TYPE,
                 HLK_E_SERVER));
}

/* --- what is shown */

static void reported(const char *text, const char *shown)
{
    (void)kind(text);
    cr_assert_str_eq(error.text, shown);
}

Test(reply, is_told_in_the_servers_words_without_the_script)
{
    static const char oom[] = "OOM command not allowed when used memory > 'maxmemory'.";
    reported(oom, oom);
    reported(IN_7("OOM command not allowed when used memory > 'maxmemory'."), oom);
    reported(IN_62("OOM command not allowed when used memory > 'maxmemory'."), oom);
    reported("OOM command not allowed when used memory > 'maxmemory'. script: on @user_script:68.", oom); /* Valkey 9 */
    reported("ERR Error running script (call to f_1b2): @user_script:68: OOM command not allowed when used memory > "
             "'maxmemory'.",
             oom); /* Redis 6.2.14 */
    reported("BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
             "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.");
}

#define HINT " (docs/acl.md has the rights it needs)"

Test(reply, of_a_missing_right_says_where_the_rights_are)
{
    reported("NOPERM this user has no permissions to access one of the keys used as arguments",
             "NOPERM this user has no permissions to access one of the keys used as arguments" HINT);
    reported(IN_7("ERR The user executing the script can't run this command or subcommand"),
             "ERR The user executing the script can't run this command or subcommand" HINT);
    reported("ERR Error running script (call to f_1b2): @user_script:11: @user_script: 11: The user executing the "
             "script can't run this command or subcommand",
             "The user executing the script can't run this command or subcommand" HINT);
    reported(IN_7("NOPERM ACL failure in script: User app has no permissions to run the 'publish' command"),
             "NOPERM ACL failure in script: User app has no permissions to run the 'publish' command" HINT);
    reported("NOAUTH Authentication required.", "NOAUTH Authentication required.");
}

Test(reply, of_another_type_says_what_that_means)
{
    static const char shown[] = "the key is not a lock: another type is stored under this name, or under that of its "
                                "queue or tokens (WRONGTYPE Operation against a key holding the wrong kind of value)";
    reported("WRONGTYPE Operation against a key holding the wrong kind of value", shown);
    reported(IN_7("WRONGTYPE Operation against a key holding the wrong kind of value"), shown);
    reported(IN_62("WRONGTYPE Operation against a key holding the wrong kind of value"), shown);
}

Test(reply, of_our_own_scripts_is_shown_without_its_code)
{
    reported("HASPLOCK the key is a hash, but no lock of this kind", "the key is a hash, but no lock of this kind");
}

Test(reply, a_redirect_is_told_in_the_server_s_words)
{
    cr_assert(is("MOVED 3999 127.0.0.1:6381", HLK_REPLY_MOVED, HLK_E_SERVER));
    cr_assert(is("ASK 3999 127.0.0.1:6381", HLK_REPLY_ASK, HLK_E_SERVER));
    reported("MOVED 3999 127.0.0.1:6381", "MOVED 3999 127.0.0.1:6381");
}

Test(reply, of_a_fault_in_a_script_keeps_the_place)
{
    static const char fault[] = IN_7("ERR attempt to index a nil value");
    reported(fault, fault);
}

Test(reply, anything_else_is_a_fault)
{
    cr_assert(is("ERR unknown command 'EVALSHA', with args beginning with: ", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("ERR MOVED 3999 127.0.0.1:6381", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("ERR ASK 3999 127.0.0.1:6381", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("MOVED", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("CROSSSLOT Keys in request don't hash to the same slot", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(is("ERR", HLK_REPLY_FAULT, HLK_E_SERVER));
    cr_assert(
        is("ERR Error running script (call to f_1b2): @user_script:11: @user_script: 11: attempt to index a nil value",
           HLK_REPLY_FAULT, HLK_E_SERVER));
}

Test(reply, words_in_the_middle_count_for_no_other_error)
{
    cr_assert(is("EXECABORT Transaction discarded because of: OOM command not allowed", HLK_REPLY_FAULT, HLK_E_SERVER));
}
