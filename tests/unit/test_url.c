/* Where a client's Redis is. */
#include "net/url.h"

#include "base/mem.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static struct hlk_url url;
static struct hlk_error error;

static void fini(void)
{
    hlk_mem_fail_after(-1);
    hlk_url_fini(&url);
}

TestSuite(url, .fini = fini);

static void parse(const char *text)
{
    hlk_url_fini(&url);
    cr_assert_eq(hlk_url_parse(&url, text, &error), HLK_OK, "%s: %s", text, error.text);
}

static void tcp(const char *text, const char *user, const char *password, const char *host, int port, int db)
{
    parse(text);
    cr_assert_eq(url.kind, HLK_URL_TCP, "%s", text);
    cr_assert(user ? url.username && strcmp(url.username, user) == 0 : !url.username, "user of %s", text);
    cr_assert(password ? url.password && strcmp(url.password, password) == 0 : !url.password, "password of %s", text);
    cr_assert_eq(url.host_count, 1u);
    cr_assert_str_eq(url.hosts[0].name, host);
    cr_assert_eq(url.hosts[0].port, port, "port of %s", text);
    cr_assert_eq(url.db, db, "db of %s", text);
}

static void refused(const char *text, const char *part)
{
    error.text[0] = '\0';
    hlk_url_fini(&url);
    cr_assert_eq(hlk_url_parse(&url, text, &error), HLK_E_INVALID, "taken: %s", text);
    cr_assert_eq(error.status, HLK_E_INVALID);
    cr_assert_not_null(strstr(error.text, part), "\"%s\" is not in \"%s\" of %s", part, error.text, text);
    cr_assert_null(url.hosts);
    cr_assert_null(url.password);
}

Test(url, host_alone_has_the_usual_port_and_db)
{
    tcp("redis://localhost", NULL, NULL, "localhost", 6379, 0);
    tcp("redis://localhost/", NULL, NULL, "localhost", 6379, 0);
}

Test(url, port_and_db)
{
    tcp("redis://10.0.0.7:7000/3", NULL, NULL, "10.0.0.7", 7000, 3);
    tcp("redis://a-b.c_d.example:1", NULL, NULL, "a-b.c_d.example", 1, 0);
    tcp("redis://h:65535/999999999", NULL, NULL, "h", 65535, 999999999);
}

Test(url, the_scheme_may_be_in_capitals)
{
    tcp("REDIS://h", NULL, NULL, "h", 6379, 0);
}

Test(url, user_and_password)
{
    tcp("redis://ann:secret@h", "ann", "secret", "h", 6379, 0);
    tcp("redis://ann:secret@h:1/2", "ann", "secret", "h", 1, 2);
}

Test(url, password_without_user)
{
    tcp("redis://:secret@h", NULL, "secret", "h", 6379, 0);
}

Test(url, user_without_password)
{
    tcp("redis://ann@h", "ann", NULL, "h", 6379, 0);
}

Test(url, an_empty_password_of_a_user_is_one)
{
    tcp("redis://ann:@h", "ann", "", "h", 6379, 0);
}

Test(url, nothing_before_the_at_is_no_credential)
{
    tcp("redis://@h", NULL, NULL, "h", 6379, 0);
    tcp("redis://:@h", NULL, NULL, "h", 6379, 0);
}

Test(url, percent_escapes_in_credentials)
{
    tcp("redis://a%3ab:p%40s%2Fs%25@h", "a:b", "p@s/s%", "h", 6379, 0);
}

Test(url, only_the_first_colon_and_the_last_at_separate)
{
    tcp("redis://ann:a:b@c@h", "ann", "a:b@c", "h", 6379, 0);
}

Test(url, ipv6_in_brackets)
{
    tcp("redis://[::1]", NULL, NULL, "::1", 6379, 0);
    tcp("redis://u:p@[2001:db8::7]:7000/1", "u", "p", "2001:db8::7", 7000, 1);
    tcp("redis://[::ffff:127.0.0.1]:1", NULL, NULL, "::ffff:127.0.0.1", 1, 0);
}

Test(url, ipv6_zone)
{
    tcp("redis://[fe80::1%25eth0]:1", NULL, NULL, "fe80::1%eth0", 1, 0);
    tcp("redis://[fe80::1%eth0]", NULL, NULL, "fe80::1%eth0", 6379, 0);
    tcp("redis://[fe80::1%25]", NULL, NULL, "fe80::1%25", 6379, 0);
}

static void unix_path(const char *text, const char *path, int db)
{
    parse(text);
    cr_assert_eq(url.kind, HLK_URL_UNIX, "%s", text);
    cr_assert_str_eq(url.path, path);
    cr_assert_eq(url.db, db, "db of %s", text);
}

Test(url, unix_socket)
{
    unix_path("unix:/run/redis.sock", "/run/redis.sock", 0);
    unix_path("unix:///run/redis.sock", "/run/redis.sock", 0);
    unix_path("unix:/run/redis.sock?db=4", "/run/redis.sock", 4);
    unix_path("unix:///run/a%20b%3f.sock?db=15", "/run/a b?.sock", 15);
}

Test(url, unix_path_of_the_longest_a_socket_may_have)
{
    char text[200] = "unix:/";
    memset(text + 6, 'x', 106);
    unix_path(text, text + 5, 0);
    memset(text + 6, 'x', 107);
    refused(text, "107");
}

static void local(const char *text, const char *name)
{
    parse(text);
    cr_assert_eq(url.kind, HLK_URL_LOCAL, "%s", text);
    cr_assert_str_eq(url.name, name);
}

Test(url, local_server)
{
    local("local:", "default");
    local("local:other", "other");
    local("local:A_b-9", "A_b-9");
    local("local:12345678901234567890123456789012", "12345678901234567890123456789012");
}

Test(url, nothing_is_refused)
{
    refused(NULL, "there is none");
    refused("", "there is none");
}

Test(url, schemes_it_does_not_know_are_refused)
{
    refused("localhost:6379", "redlocks://, unix:, local:");
    refused("redis:localhost", "redlocks://, unix:, local:");
    refused("redlock://a,b,c", "several masters");
    refused("http://localhost", "redlocks://, unix:, local:");
    refused("redis+shard://localhost", "redlocks://, unix:, local:");
}

Test(url, with_a_second_s_uses_tls)
{
    tcp("rediss://u:p@h:1/2", "u", "p", "h", 1, 2);
    cr_assert(url.tls);
    parse("redis://h");
    cr_assert_not(url.tls);
    parse("rediss+sentinel://h/m");
    cr_assert(url.tls);
    parse("rediss+cluster://h");
    cr_assert(url.tls);
}

static void host_is(unsigned i, const char *name, int port)
{
    cr_assert_lt(i, url.host_count);
    cr_assert_str_eq(url.hosts[i].name, name);
    cr_assert_eq(url.hosts[i].port, port);
}

Test(url, names_sentinels_and_their_master)
{
    parse("redis+sentinel://bob:pw@a,b:7,[::1]:8/my.master-1/3");
    cr_assert_eq(url.kind, HLK_URL_SENTINEL);
    cr_assert_eq(url.host_count, 3u);
    host_is(0, "a", 26379);
    host_is(1, "b", 7);
    host_is(2, "::1", 8);
    cr_assert_str_eq(url.service, "my.master-1");
    cr_assert_str_eq(url.username, "bob");
    cr_assert_eq(url.db, 3);
    cr_assert_str_eq(url.shown, "redis+sentinel://a:26379,b:7,[::1]:8/my.master-1/3");
    refused("redis+sentinel://a", "needs the master's name");
    refused("redis+sentinel://a/", "needs the master's name");
    refused("redis+sentinel://a//1", "the master's name has");
    refused("redis+sentinel://a/m m", "the master's name has");
    refused("redis+sentinel://a/m/x", "after the master's name");
    refused("redis+sentinel://a,,b/m", "the host is missing");
}

Test(url, names_nodes_of_a_cluster)
{
    parse("redis+cluster://a,b:7");
    cr_assert_eq(url.kind, HLK_URL_CLUSTER);
    host_is(0, "a", 6379);
    host_is(1, "b", 7);
    cr_assert_str_eq(url.shown, "redis+cluster://a:6379,b:7");
    parse("redis+cluster://a/0");
    refused("redis+cluster://a/1", "only the database 0");
    refused("redis+cluster://a/x", "nothing may follow");
    refused("redis+cluster://a,", "the host is missing");
}

Test(url, takes_32_hosts_at_most)
{
    char text[200] = "redis+cluster://h";
    for (int i = 1; i < HLK_URL_HOSTS_MAX; i++)
        strcat(text, ",h");
    parse(text);
    cr_assert_eq(url.host_count, (unsigned)HLK_URL_HOSTS_MAX);
    refused(strcat(text, ",h"), "more than 32 hosts");
}

Test(url, bad_hosts_are_refused)
{
    refused("redis://", "host");
    refused("redis:///0", "host");
    refused("redis://:6379", "host");
    refused("redis://user@", "host");
    refused("redis://a b", "host");
    refused("redis://a,b", "several hosts need redis+sentinel:// or redis+cluster://");
    refused("redis://2001:db8::7", "brackets");
    refused("redis://[", "]");
    refused("redis://[::1", "]");
    refused("redis://[]", "IPv6");
    refused("redis://::1", "stands in brackets, as in redis://[::1]:6379");
    refused("redis://fe80::1:6379/0", "stands in brackets");
    refused("redis://[localhost]", "IPv6");
    refused("redis://[::1%]", "IPv6");
    refused("redis://[::1%a/b]", "]");
    refused("redis://[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0001]", "IPv6");
}

Test(url, bad_ports_are_refused)
{
    refused("redis://h:", "port");
    refused("redis://h:0", "port");
    refused("redis://h:65536", "port");
    refused("redis://h:-1", "port");
    refused("redis://h:6379x", "port");
    refused("redis://h:99999999999999999999", "port");
    refused("redis://[::1]6379", "port");
}

Test(url, bad_dbs_are_refused)
{
    refused("redis://h/x", "/DB");
    refused("redis://h/-1", "/DB");
    refused("redis://h/1/2", "/DB");
    refused("redis://h/4294967296", "/DB");
    refused("redis://h?db=1", "/DB");
    refused("redis://h#1", "/DB");
    refused("unix:/s?db=", "db");
    refused("unix:/s?db=x", "db");
    refused("unix:/s?db=1&x=2", "db");
    refused("unix:/s?timeout=1", "?db=N");
    refused("unix:/s?", "?db=N");
}

Test(url, bad_escapes_are_refused)
{
    refused("redis://%@h", "user");
    refused("redis://a%4@h", "user");
    refused("redis://a:%zz@h", "password");
    refused("redis://a:%00@h", "password");
    refused("unix:/a%", "path");
    refused("unix:/a%2", "path");
    refused("unix:/a%00b", "path");
}

Test(url, bad_unix_paths_are_refused)
{
    refused("unix:", "absolute");
    refused("unix:/", "absolute");
    refused("unix:redis.sock", "absolute");
    refused("unix://redis.sock", "absolute");
    refused("unix:?db=1", "absolute");
}

Test(url, bad_local_names_are_refused)
{
    refused("local:a/b", "name");
    refused("local:..", "name");
    refused("local://", "name");
    refused("local:a b", "name");
    refused("local:123456789012345678901234567890123", "name");
}

Test(url, a_slash_in_the_password_is_explained)
{
    refused("redis://:hun/ter2@h", "%2F");
    refused("redis://u:hun#ter2@h/0", "%23");
    refused("redis://u:hun?ter2@h", "%3F");
}

/* Wherever the error is, its text must not carry the password into a log. */
Test(url, no_fault_shows_the_password)
{
    static const char *const bad[] = {
        "redis://u:hunter2@",
        "redis://u:hunter2@h:x",
        "redis://u:hunter2@h/x",
        "redis://u:hunter2%@h",
        "redis://u:hunter2@[x]",
        "rediss://u:hunter2@h,",
        "redis:/u:hunter2@h",
        "u:hunter2@h",
        "redis://u:/hunter2@h",
        "redis://h:hunter2",
        "redis://hunter2!",
        "redis://h/hunter2",
        "unix:/s?password=hunter2",
        "unix://u:hunter2@/s",
        "local:u:hunter2@",
        "redis://u:#hunter2@h",
        "redis://u:hunter2@h?x=1",
        "redis://[hunter2]",
        "redis://u@hunter2@h:0",
        "hunter2://h",
        "redis+sentinel://h/hunter2!",
        "redis+cluster://h,u:hunter2",
        "redis+cluster://h/hunter2",
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_assert_eq(hlk_url_parse(&url, bad[i], &error), HLK_E_INVALID, "taken: %s", bad[i]);
        cr_assert_null(strstr(error.text, "unter2"), "%s: %s", bad[i], error.text);
    }
}

static void shown(const char *text, const char *expected)
{
    parse(text);
    cr_assert_str_eq(url.shown, expected);
}

Test(url, is_shown_without_credentials)
{
    shown("redis://u:hunter2@h", "redis://h:6379/0");
    shown("redis://:hunter2@[::1]:7/2", "redis://[::1]:7/2");
    shown("rediss://u:hunter2@h", "rediss://h:6379/0");
    shown("unix:///run/r.sock", "unix:/run/r.sock");
    shown("unix:/run/r.sock?db=2", "unix:/run/r.sock?db=2");
    shown("local:", "local:default");
    shown("local:default", "local:default");
    shown("local:x", "local:x");
}

Test(url, is_shown_cut_when_it_is_too_long)
{
    char text[600] = "redis://";
    memset(text + 8, 'h', 500);
    parse(text);
    cr_assert_eq(strlen(url.hosts[0].name), 500u);
    cr_assert_eq(strlen(url.shown), sizeof url.shown - 1);
}

Test(url, fini_may_come_twice)
{
    parse("redis://u:p@h");
    hlk_url_fini(&url);
    hlk_url_fini(&url);
    cr_assert_null(url.password);
}

static void without_memory(const char *text, int allocations)
{
    for (int n = 1; n <= allocations; n++) {
        hlk_mem_fail_once(n);
        cr_assert_eq(hlk_url_parse(&url, text, &error), HLK_E_NOMEM, "%s, allocation %d", text, n);
        hlk_url_fini(&url);
    }
    hlk_mem_fail_once(allocations + 1);
    cr_assert_eq(hlk_url_parse(&url, text, &error), HLK_OK, "%s has more than %d allocations", text, allocations);
    hlk_url_fini(&url);
}

Test(url, says_when_there_is_no_memory)
{
    without_memory("redis://u:p@h", 4);
    without_memory("redis://[::1]", 2);
    without_memory("redis+sentinel://a,b/m", 4);
    without_memory("redis+cluster://a,b", 3);
    without_memory("unix:/s", 1);
    without_memory("local:", 1);
    without_memory("local:x", 1);
}

Test(url, needs_no_error_to_write_to)
{
    cr_assert_eq(hlk_url_parse(&url, "x", NULL), HLK_E_INVALID);
}
